"""Counts a corpus, chooses validation pairs, leaves out pairs, and finds mistakes such as a wrong encoding."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nextafter
from random import Random
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from glassformer.errors import TextError
from glassformer.settings import TextConfig, default_vocab_size
from glassformer.text.corpus.corpus import Pair, is_validation, source_fraction
from glassformer.text.lines import has_letter

_MAX_VALIDATION_PAIRS = 1000
_VALIDATION_DIVISOR = 20
_MANY_COPIES, _MANY_GARBLED = 0.9, 0.01  # of the pairs; of words in old spelling most are copies, too
# No 200 pairs of Multi30k and of Tatoeba have less than 0.9, and with the targets of Multi30k moved by a line none
# have more than 0.5: tests/text/corpus/test_prepare.py.
_WINDOW, _MAX_MOVE, _BETTER = 200, 3, 0.8  # pairs; lines; the misfit of moved targets, relative to that as they are


class ChunkStats(NamedTuple):
    """How many pairs a chunk has, and the hash in [0, 1) of each source whose pair has text on both sides."""

    read: int
    fractions: npt.NDArray[np.float64]
    moved_from: int | None = None
    """The first pair of those whose targets seem to belong to the sources of adjacent lines."""


def count_chunk(chunk: tuple[list[str], list[str]]) -> ChunkStats:
    """The statistics of a chunk: a list of sources and a list of their targets."""
    fractions = [source_fraction(pair.src) for pair in map(Pair, *chunk) if not pair.blank]
    src, tgt = (np.log1p([len(text) for text in side]) for side in chunk)
    starts = range(0, max(1, len(src) - _WINDOW // 2), _WINDOW)
    windows = [(start, src[start : start + _WINDOW], tgt[start : start + _WINDOW]) for start in starts]
    moved = (start for start, *both in windows if len(both[0]) >= _WINDOW // 2 and moved_misfit(*both) < _BETTER)
    return ChunkStats(len(chunk[0]), np.array(fractions, dtype=np.float64), next(moved, None))


def moved_misfit(src: npt.NDArray[np.float64], tgt: npt.NDArray[np.float64]) -> float:
    """The misfit of lengths (logs) if targets move by a few lines, relative to that as they are; at most 1."""
    src, tgt = src - src.mean(), tgt - tgt.mean()
    misfits = [
        float(np.abs(one[move:] - other[: len(other) - move]).mean())
        for move in range(_MAX_MOVE + 1)
        for one, other in ((src, tgt), (tgt, src))
    ]
    return min(misfits) / misfits[0] if misfits[0] else 1.0


def count_traits(pairs: Sequence[Pair]) -> Counter[str]:
    """How many pairs have a trait; ``PreparedText`` explains them."""
    return Counter(
        wordless=sum(not has_letter(pair.src) for pair in pairs),
        lower_starts=sum(any(side[:1].islower() for side in pair) for pair in pairs),
        copied=sum(pair.src == pair.tgt and has_letter(pair.src) for pair in pairs),
        garbled=sum(any(map(is_garbled, pair)) for pair in pairs),
    )


def is_garbled(text: str) -> bool:
    """Whether a text seems to be UTF-8 that was read as Windows-1252 or Latin-1, or has U+FFFD for what was lost."""
    if text.isascii() or "\ufffd" in text:
        return not text.isascii()
    for encoding in ("cp1252", "latin-1"):
        try:
            text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
        return True
    return False


def find_mistakes(counts: Mapping[str, int]) -> Iterator[str]:
    """In words, what the ``counts`` of a ``PreparedText`` say that somebody should look at before a training."""
    pairs = counts["kept"] + counts["too_long"] + counts["lopsided"]
    if counts.get("copied", 0) > _MANY_COPIES * pairs:
        yield (
            f"{counts['copied']:,} of {pairs:,} pairs have the same text on both sides, expected a translation: the "
            "model would learn to copy. Look whether the files, or the columns, are the right ones."
        )
    if counts.get("garbled", 0) > max(2, _MANY_GARBLED * pairs):
        yield (
            f"{counts['garbled']:,} of {pairs:,} pairs have letters like 'Ã¼' or '\ufffd', expected 'ü': they were "
            "read in a wrong encoding before they were saved. Take the original files, and save these as UTF-8."
        )
    start = counts.get("moved_from", 0)
    if start:
        yield (
            f"near pair {start:,} the targets have the lengths of translations of the lines before or after theirs, "
            "expected each in the line of its source: a line seems to be missing or added. Compare the files there."
        )


@dataclass(frozen=True)
class CorpusStats:
    """The pairs of a corpus, those with text on both sides, and which share of sources to hold out (0: none)."""

    read: int
    usable: int
    valid_share: float
    moved_from: int = 0
    """The number, from 1, of about the first pair that seems to be out of step; 0 if none does."""

    @classmethod
    def from_chunks(cls, chunks: Iterable[ChunkStats], config: TextConfig, *, split: bool) -> Self:
        """Add up the chunks; with ``split``, find the share that gives the number of validation pairs configured.

        Raises ``TextError`` when no pair is usable, or when there are too few different sources to split.
        """
        smallest = _SmallestSources(config.valid_pairs or _MAX_VALIDATION_PAIRS)
        read = usable = moved_from = 0
        for chunk in chunks:
            if chunk.moved_from is not None and not moved_from:
                moved_from = read + chunk.moved_from + 1
            read, usable = read + chunk.read, usable + len(chunk.fractions)
            if split:
                smallest.add(chunk.fractions)
        if not usable:
            found = f"{read:,} pairs, all with an empty side" if read else "no pairs"
            raise TextError(f"The training text holds {found}; expected at least one with text on both sides.")
        share = smallest.share(usable, config.valid_pairs) if split else 0.0
        return cls(read, usable, share, moved_from)

    def vocab_size(self, config: TextConfig) -> int:
        """``config.vocab_size``, or a size that suits this many pairs."""
        return config.vocab_size or default_vocab_size(self.usable)


class _SmallestSources:
    """The ``limit`` + 1 different sources with the smallest hashes, and how many pairs each has."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._fractions: npt.NDArray[np.float64] = np.empty(0)
        self._pairs: npt.NDArray[Any] = np.empty(0)

    def add(self, fractions: npt.NDArray[np.float64]) -> None:
        found, places = np.unique(np.append(self._fractions, fractions), return_inverse=True)
        pairs = np.bincount(places, np.append(self._pairs, np.ones(len(fractions))))
        self._fractions, self._pairs = found[: self._limit + 1], pairs[: self._limit + 1]

    def share(self, pairs: int, wanted: int) -> float:
        """The share that holds out at least one source and at most ``wanted`` pairs (0: a twentieth of ``pairs``)."""
        found = len(self._fractions)
        if found < 2:
            raise TextError(
                "The training text holds only one source; expected at least 2 different ones, so that one can be "
                "held out for validation. Give more pairs, or give validation pairs of your own."
            )
        if wanted >= found:
            raise TextError(
                f"text.valid_pairs: found {wanted:,}, but there are only {found:,} different sources. "
                "Lower text.valid_pairs, or give validation pairs of your own."
            )
        # While all different sources are kept, repeats do not count: of 1000 equal pairs and 10 others, one of
        # the 11 sources is held out and not all of the others.
        different = pairs if found > self._limit else found
        wanted = wanted or min(different // _VALIDATION_DIVISOR, _MAX_VALIDATION_PAIRS)
        count = int((np.cumsum(self._pairs) <= wanted).sum())
        return nextafter(float(self._fractions[max(0, min(count, found - 1) - 1)]), 1.0)


def training_texts(
    pairs: Iterable[Pair], stats: CorpusStats, sides: tuple[int, ...], max_pairs: int
) -> Iterator[str]:
    """The texts to train a tokenizer on, of these ``sides`` (0: sources), without validation pairs.

    Of more than ``max_pairs`` (0: no limit) it is a random sample of about that size, the same every time.
    """
    share = min(1.0, max_pairs / stats.usable) if max_pairs else 1.0
    draw = Random(0).random
    for pair in pairs:
        if draw() < share and not pair.blank and not is_validation(pair, stats.valid_share):
            yield from (pair[side] for side in sides)


def rejection_reason(src_tokens: int, tgt_tokens: int, config: TextConfig) -> str | None:
    """``too_long``, ``lopsided``, or None for a pair to keep; tokens are counted without </s>."""
    shorter, longer = sorted((src_tokens, tgt_tokens))
    if longer > config.max_tokens:
        return "too_long"
    if longer > config.max_ratio * shorter + 10:
        return "lopsided"
    return None
