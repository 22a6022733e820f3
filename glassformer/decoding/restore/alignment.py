"""Which word of a source each word of its translation was written from, and whether the translation has all of it."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise

from glassformer.decoding.confidence.confidence import Confidence, log_length_ratio
from glassformer.decoding.translation import Translation
from glassformer.text.scripts import AT_ENDS, find_words, is_unspaced
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, EOS_ID, Tokenizer

Span = tuple[int, int]
TokenEnds = Callable[[Translation], tuple[list[int], list[int]]]
"""Where, in the characters of the source and of the output, each token ends."""

_LONGEST_PARTICLE = 3  # letters of words without content: es, der, ist
_END = CONTROL_TOKENS[EOS_ID]

# Of good translations of everyday sentences (chrF >= 50, the bundled model), these doubt less than 1 %, of those of
# which the last third to half was cut off, more than 25 %: tests/documents/test_content.py.
_LEAST_ATTENTION = 0.4  # that a word of the source receives, of all that the words of the output give, 1 each
_CONTENT = re.compile(r"[^\W\d_]{4}")  # letters in a row of a word that must not be missing: not so "is", "don't"
CAPITAL_NOUNS = ("de", "lb")
"""Languages in which other words than names have a capital, too."""
_SENTENCE_START = frozenset('.!?…:"„“”«»')  # what stands before a word that has a capital for it
_SHORT, _TOO_SHORT, _TOO_LONG = -0.15, -0.4, 0.5  # logs of the length relative to what is typical


def has_content(word: str) -> bool:
    """Whether a word is no particle, by its length."""
    return len(word) > _LONGEST_PARTICLE or is_unspaced(word[0])


def stem(word: str) -> str:
    """A word without signs at its ends and without the letters that an ending may change."""
    word = word.strip(AT_ENDS)
    return word[: max(3, len(word) - 2)]


class Alignment:
    """The words of a source and of its translation, and for each of these the word that it was most written from.

    Slow parts are computed on first use: a code at an end of a text needs none.
    """

    def __init__(self, source: str, translation: Translation, ends: TokenEnds, same: Sequence[str] = ()) -> None:
        """``same``: words that source and translation have once each, and that stand for one another."""
        self.text, self._same = translation.text, same
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
        votes: list[list[int]] = [[] for _ in self.tgt_words]
        for src, tgt in links:
            if src < len(src_of) and tgt < len(tgt_of) and src_of[src]:
                for word in tgt_of[tgt]:
                    votes[word].append(src_of[src][-1])
        # Of words with equally many votes the first.
        found = [Counter(each).most_common(1)[0][0] if len(each) > 1 else next(iter(each), None) for each in votes]
        if self._same:
            read = [self._source[slice(*span)] for span in self.src_words]
            written = [self.text[slice(*span)] for span in self.tgt_words]
            for same in set(self._same).intersection(read, written):
                found[written.index(same)] = read.index(same)
        return found

    def src_in(self, span: Span) -> list[int]:
        """The words of the source that have a character in a span."""
        return [number for number, (start, end) in enumerate(self.src_words) if end > span[0] and start < span[1]]

    def tgt_in(self, span: Span) -> list[int]:
        """The words of the translation that lie in a span."""
        return [number for number, (start, end) in enumerate(self.tgt_words) if start >= span[0] and end <= span[1]]


def _words_of_tokens(text: str, words: Sequence[Span], ends: Sequence[int]) -> list[range]:
    """For each token the words that it has letters of; of words with spaces between them only the last."""
    found: list[range] = []
    start, word, last_word = 0, 0, len(words) - 1
    for end in ends:
        last = end - 1  # letter or digit of the token
        while last >= start and not text[last : last + 1].isalnum():
            last -= 1
        while last >= start and word < last_word and words[word][1] <= last:
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


def token_ends(translation: Translation, src: Tokenizer, tgt: Tokenizer) -> tuple[list[int], list[int]]:
    """Where each token ends, in the characters of a source and of its translation, by their tokenizers."""
    best, read = translation.hypotheses[0], translation.source
    src_ends = _label_ends(translation.source_tokens[:-1], read)  # without </s>
    tgt_ends = _label_ends(best.tokens, best.text)
    if src_ends is None:
        src_ends = [end for _, end in src.offsets(read)]
        before = len(translation.source_tokens) - 1 - len(src_ends)  # a token of the target language is no text
        src_ends = [0] * before + src_ends
    return (
        src_ends,
        tgt.ends(best.ids) if tgt_ends is None else tgt_ends,
    )


def _label_ends(labels: Sequence[str], text: str) -> list[int] | None:
    """Where each token ends if its label is its piece of the text, as mostly, which takes less time; else None."""
    pieces = labels[:-1] if labels[-1:] == [_END] else labels
    ends = list(accumulate(map(len, pieces)))
    ends += [len(text)] if len(pieces) < len(labels) else []
    return ends if "".join(pieces).replace("▁", " ") == text else None


def is_short(translation: Translation, confidence: Confidence | None) -> bool:
    """Whether an output is so short that it should be asked, by its attention, whether something is missing."""
    return confidence is None or _relative_length(translation, confidence) < _SHORT


def content_doubts(translation: Translation, confidence: Confidence | None, ends: TokenEnds) -> list[str]:
    """Describe source words that the output seems to omit, by its attention if it has any, and by its length."""
    length = _relative_length(translation, confidence) if confidence is not None else 0.0
    weights = translation.hypotheses[0].alignment()
    if weights is not None and len(weights):
        missing = find_lost_names(translation, ends)
        if is_short(translation, confidence):
            missing += _find_ignored_words(translation.source, weights.sum(0).tolist(), ends(translation)[0])
        if missing := list(dict.fromkeys(missing)):
            return [f"nothing seems to stand for {', '.join(map(repr, missing))}"]
    if not _TOO_SHORT <= length <= _TOO_LONG:
        return [f"the translation is much {'shorter' if length < 0 else 'longer'} than expected"]
    return []


def attends_to_all(translation: Translation, ends: TokenEnds) -> bool:
    """Whether what the search has told of the attention is enough to see that no word is missing."""
    if not (received := translation.hypotheses[0].received):
        return False
    src_ends, _ = ends(translation)
    is_one_sentence = len(received) == len(src_ends) + 1  # its end token
    return is_one_sentence and not _find_ignored_words(translation.source, received, src_ends)


def find_new_names(source: str, output: str) -> list[Span]:
    """The names in a source, words with a capital inside a sentence, that no word of the output begins like.

    None in a title, in which all words have one.
    """
    words = find_words(source)
    names = [
        (start, end)
        for (_, before), (start, end) in pairwise(words)
        if _is_name(source[start:end]) and _SENTENCE_START.isdisjoint(source[before:start])
    ]
    if not names or 1 < len(names) == len(words) - 1:
        return []
    written = {_name_start(output[start:end]) for start, end in find_words(output)}
    return [(start, end) for start, end in names if _name_start(source[start:end]) not in written]


def _is_name(word: str) -> bool:
    return word[0].isupper() and word[1:2].isalpha()  # not I and I'm


def _name_start(word: str) -> str:
    return word[: max(2, min(3, len(word) - 1))].lower()


def find_lost_names(translation: Translation, ends: TokenEnds) -> list[str]:
    """The names in a source that no word of the output begins like or was written from, by its attention."""
    alignment = Alignment(translation.source, translation, ends)
    spans = find_new_names(translation.source, translation.text)
    owned = {alignment.src_words[number] for number in alignment.owners if number is not None}
    return [translation.source[slice(*span)] for span in spans if span not in owned]


def _relative_length(translation: Translation, confidence: Confidence) -> float:
    return log_length_ratio(translation.source, translation.text) - confidence.length_ratio


def _find_ignored_words(source: str, received: Sequence[float], src_ends: Sequence[int]) -> list[str]:
    """The longer words none of whose tokens has received enough."""
    words = find_words(source)
    best = [0.0 for _ in words]
    for token, numbers in enumerate(_words_of_tokens(source, words, src_ends)):
        for number in numbers:
            best[number] = max(best[number], received[token])
    spans = [span for span, most in zip(words, best, strict=True) if most < _LEAST_ATTENTION]
    return [word for start, end in spans if _CONTENT.search(word := source[start:end])]
