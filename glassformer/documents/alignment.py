"""Which word of a source each word of its translation was written from, and whether the translation has all of it."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property

from glassformer.decoding.confidence.confidence import Confidence, log_length_ratio
from glassformer.decoding.translation import Translation
from glassformer.text.scripts import is_unspaced, word_spans

Span = tuple[int, int]
TokenEnds = Callable[[Translation], tuple[list[int], list[int]]]
"""Where, in the characters of the source and of the output, each token ends."""

_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_UNSPACED_FROM = "\u0e00"  # no script before it is written without spaces

# Of good translations of everyday sentences (chrF >= 50, the bundled model), these doubt less than 1 %, of those of
# which the last third to half was cut off, more than 25 %: tests/documents/test_content.py.
_LEAST_ATTENTION = 0.4  # that a word of the source receives, of all that the words of the output give, 1 each
_CONTENT = re.compile(r"[^\W\d_]{4}")  # letters in a row of a word that must not be missing: not so "is", "don't"
_SHORT, _TOO_SHORT, _TOO_LONG = -0.15, -0.4, 0.5  # logs of the length relative to what is typical


def find_words(text: str) -> list[Span]:
    """Where the words of a text are; of scripts without spaces each character is one."""
    found: list[Span] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        if max(match[0]) >= _UNSPACED_FROM and any(map(is_unspaced, match[0])):
            found += [(start + first, start + last) for first, last in word_spans(match[0])]
        else:
            found.append((start, end))
    return found


class Alignment:
    """The words of a source and of its translation, and for each of these the word that it was most written from.

    What takes time is found when it is asked for: for a code at an end of a text nothing is.
    """

    def __init__(self, source: str, translation: Translation, ends: TokenEnds) -> None:
        self.text = translation.text
        self._source, self._translation, self._ends = source, translation, ends

    @cached_property
    def src_words(self) -> list[Span]:
        """Where the words of the source are."""
        return find_words(self._source)

    @cached_property
    def tgt_words(self) -> list[Span]:
        """Where the words of the translation are."""
        return find_words(self.text)

    @cached_property
    def owners(self) -> list[int | None]:
        """For each word of the translation the number of a word of the source."""
        links = self._translation.links() or []
        src_ends, tgt_ends = self._ends(self._translation) if links else ([], [])
        src_of = _words_of_tokens(self._source, self.src_words, src_ends)
        tgt_of = _words_of_tokens(self.text, self.tgt_words, tgt_ends)
        votes = [defaultdict[int, int](int) for _ in self.tgt_words]
        for src, tgt in links:
            if src < len(src_of) and tgt < len(tgt_of) and src_of[src]:
                for word in tgt_of[tgt]:
                    votes[word][src_of[src][-1]] += 1
        return [max(counts, key=counts.__getitem__) if counts else None for counts in votes]

    def src_in(self, span: Span) -> list[int]:
        """The words of the source that have a character in a span."""
        return [number for number, (start, end) in enumerate(self.src_words) if end > span[0] and start < span[1]]

    def tgt_in(self, span: Span) -> list[int]:
        """The words of the translation that lie in a span."""
        return [number for number, (start, end) in enumerate(self.tgt_words) if start >= span[0] and end <= span[1]]


def _words_of_tokens(text: str, words: Sequence[Span], ends: Sequence[int]) -> list[range]:
    """For each token the words that it has letters of; of words with spaces between them only the last."""
    found: list[range] = []
    start, word = 0, 0
    for end in ends:
        last = end - 1  # letter or digit of the token
        while last >= start and not text[last : last + 1].isalnum():
            last -= 1
        while last >= start and word < len(words) - 1 and words[word][1] <= last:
            word += 1
        first = word
        if last < start or not words or not words[word][0] <= last < words[word][1]:
            found.append(range(0))
        else:
            while first and words[first - 1][0] >= start and words[first - 1][1] == words[first][0]:
                first -= 1
            found.append(range(first, word + 1))
        start = end
    return found


def is_short(translation: Translation, confidence: Confidence | None) -> bool:
    """Whether an output is so short that it should be asked, by its attention, whether something is missing."""
    return confidence is None or _relative_length(translation, confidence) < _SHORT


def content_doubts(translation: Translation, confidence: Confidence | None, ends: TokenEnds) -> list[str]:
    """In words, what of the source the output seems to lack, by its attention, if it has any, and by its length."""
    length = _relative_length(translation, confidence) if confidence is not None else 0.0
    if is_short(translation, confidence) and (missing := _missing_words(translation, ends)):
        return [f"nothing seems to stand for {', '.join(map(repr, missing))}"]
    if not _TOO_SHORT <= length <= _TOO_LONG:
        return [f"the translation is much {'shorter' if length < 0 else 'longer'} than expected"]
    return []


def _relative_length(translation: Translation, confidence: Confidence) -> float:
    return log_length_ratio(translation.source, translation.text) - confidence.length_ratio


def _missing_words(translation: Translation, ends: TokenEnds) -> list[str]:
    """The longer words of the source that hardly any word of the output attends to."""
    weights = translation.hypotheses[0].alignment()
    if weights is None or not len(weights):
        return []
    received, (src_ends, _) = weights.sum(dim=0).tolist(), ends(translation)
    words = find_words(translation.source)
    best = [0.0 for _ in words]
    for token, numbers in enumerate(_words_of_tokens(translation.source, words, src_ends)):
        for number in numbers:
            best[number] = max(best[number], received[token])
    spans = [span for span, most in zip(words, best, strict=True) if most < _LEAST_ATTENTION]
    return [word for start, end in spans if _CONTENT.search(word := translation.source[start:end])]
