"""How a byte-level BPE vocabulary is learned, one merge at a time (Sennrich et al. 2016, algorithm 1).

Training takes the ``tokenizers`` library, which finds the same merges faster; a test holds the two equal.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from glassformer.text.lines import without_surrogates
from glassformer.text.tokenizer.kinds import BYTE_VALUES, CONTROL_TOKENS, new_library

Pair = tuple[str, str]
Word = tuple[str, ...]


@dataclass(frozen=True)
class LearnedMerge:
    """The pair of neighbours that occurs most often; it becomes one symbol.

    ``counts`` are those of all pairs before the merge, ``words`` the different words after it, with their counts.
    Symbols are in the alphabet of bytes (``BYTE_VALUES``).
    """

    pair: Pair
    counts: Counter[Pair]
    words: Counter[Word]


def learn_merges(texts: Iterable[str]) -> Iterator[LearnedMerge]:
    """Merge the most frequent pair of neighbours in the words of ``texts``, again and again, while there is one.

    Of pairs that occur equally often the one whose symbols are older comes first.
    """
    words = Counter(tuple(word) for text in texts for word in _cut(text))
    ids = {entry: number for number, entry in enumerate((*CONTROL_TOKENS, *sorted(BYTE_VALUES)))}
    while counts := _count_pairs(words):
        pair = min(counts, key=lambda each: (-counts[each], ids[each[0]], ids[each[1]]))
        merged = Counter[Word]()
        for word, count in words.items():
            merged[_merge(word, pair)] += count
        yield LearnedMerge(pair, counts, merged)
        words = merged
        ids.setdefault("".join(pair), len(ids))


def _cut(text: str) -> Iterator[str]:
    """The words of a text as the tokenizer cuts them, in the alphabet of bytes."""
    library = new_library("bpe", lowercase=False)
    normal = library.normalizer.normalize_str(without_surrogates(text))
    return (word for word, _ in library.pre_tokenizer.pre_tokenize_str(normal))


def _count_pairs(words: Counter[Word]) -> Counter[Pair]:
    counts = Counter[Pair]()
    for word, count in words.items():
        for pair in pairwise(word):
            counts[pair] += count
    return counts


def _merge(word: Word, pair: Pair) -> Word:
    """The word with each occurrence of the pair as one symbol, from the left."""
    found, at = list[str](), 0
    while at < len(word):
        size = 2 if word[at : at + 2] == pair else 1
        found.append("".join(word[at : at + size]))
        at += size
    return tuple(found)
