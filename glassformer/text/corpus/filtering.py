"""Counts a corpus, chooses the validation share, and decides which pairs are too long or lopsided to train on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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


class ChunkStats(NamedTuple):
    """How many pairs a chunk has, and the hash in [0, 1) of each source whose pair has text on both sides."""

    read: int
    fractions: npt.NDArray[np.float64]


def count_chunk(chunk: tuple[list[str], list[str]]) -> ChunkStats:
    """The statistics of a chunk: a list of sources and a list of their targets."""
    fractions = [source_fraction(pair.src) for pair in map(Pair, *chunk) if not pair.blank]
    return ChunkStats(len(chunk[0]), np.array(fractions, dtype=np.float64))


def count_traits(pairs: Sequence[Pair]) -> Counter[str]:
    """How many sources have no letter, and how many pairs a side that begins with a lower-case letter."""
    return Counter(
        wordless=sum(not has_letter(pair.src) for pair in pairs),
        lower_starts=sum(any(side[:1].islower() for side in pair) for pair in pairs),
    )


@dataclass(frozen=True)
class CorpusStats:
    """The pairs of a corpus, those with text on both sides, and which share of sources to hold out (0: none)."""

    read: int
    usable: int
    valid_share: float

    @classmethod
    def from_chunks(cls, chunks: Iterable[ChunkStats], config: TextConfig, *, split: bool) -> Self:
        """Add up the chunks; with ``split``, find the share that gives the number of validation pairs configured.

        Raises ``TextError`` when no pair is usable, or when there are too few different sources to split.
        """
        smallest = _SmallestSources(config.valid_pairs or _MAX_VALIDATION_PAIRS)
        read = usable = 0
        for chunk in chunks:
            read, usable = read + chunk.read, usable + len(chunk.fractions)
            if split:
                smallest.add(chunk.fractions)
        if not usable:
            found = f"{read:,} pairs, all with an empty side" if read else "no pairs"
            raise TextError(f"The training text holds {found}; expected at least one with text on both sides.")
        return cls(read, usable, smallest.share(usable, config.valid_pairs) if split else 0.0)

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
    """The texts to train a tokenizer on, from the sources (0), the targets (1) or both, without validation pairs.

    Where more than ``max_pairs`` are usable (0: no limit), a random sample of about that size, the same every time.
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
