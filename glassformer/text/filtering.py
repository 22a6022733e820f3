"""Which pairs are trained on, which are set aside for validation, and which are left out, each with its count.

Knows nothing of files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappush, heapreplace
from itertools import accumulate
from math import nextafter
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glassformer.config import TextConfig
from glassformer.errors import TextError
from glassformer.text.corpus import Pair, is_validation, source_fraction

_MOST_VALIDATION_PAIRS = 1000
_VALIDATION_PART = 20


@dataclass(frozen=True)
class Survey:
    """What one look at all pairs told: how many there are, and which share of sources to set aside (0: none)."""

    read: int
    usable: int
    valid_share: float

    @classmethod
    def of(cls, looks: Iterable["Look"], config: TextConfig, *, split: bool) -> "Survey":
        """Count pairs and, to ``split`` validation pairs off, find the share that gives as many as wanted.

        ``looks`` are at all pairs, some at a time. Raises ``TextError`` when nothing is usable, or when there are
        too few different sources to split.
        """
        smallest = _SmallestSources(config.valid_pairs or _MOST_VALIDATION_PAIRS)
        read = usable = 0
        for look in looks:
            read, usable = read + look.read, usable + len(look.fractions)
            if split:
                smallest.add(look.fractions)
        if not usable:
            found = f"{read:,} pairs, all with an empty side" if read else "no pairs"
            raise TextError(f"The training text holds {found}; expected at least one with text on both sides.")
        return cls(read, usable, smallest.share(usable, config.valid_pairs) if split else 0.0)

    def vocab_size(self, config: TextConfig) -> int:
        """The size asked for, or the one that suits so many pairs."""
        return config.vocab_size or min(8000, max(512, self.usable // 6))


class Look(NamedTuple):
    """At some pairs: how many, and where the source of each that has text on both sides falls in [0, 1)."""

    read: int
    fractions: npt.NDArray[np.float64]


def look_at(chunk: tuple[list[str], list[str]]) -> Look:
    """Look at as many sources and targets."""
    fractions = [source_fraction(pair.src) for pair in map(Pair, *chunk) if not pair.blank]
    return Look(len(chunk[0]), np.array(fractions, dtype=np.float64))


class _SmallestSources:
    """The ``most`` different sources with the smallest hashes, and one more, with the pairs that each has.

    In memory for just those: a source that was dropped once is never held again, for the largest held only falls.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[float] = []
        self._pairs: dict[float, int] = {}

    def add(self, fractions: npt.NDArray[np.float64]) -> None:
        full = len(self._heap) > self._most
        for fraction in (fractions[fractions <= -self._heap[0]] if full else fractions).tolist():
            self._add(fraction)

    def _add(self, fraction: float) -> None:
        if fraction in self._pairs:
            self._pairs[fraction] += 1
        elif len(self._heap) <= self._most:
            heappush(self._heap, -fraction)
            self._pairs[fraction] = 1
        elif fraction < -self._heap[0]:
            del self._pairs[-heapreplace(self._heap, -fraction)]
            self._pairs[fraction] = 1

    def share(self, pairs: int, wanted: int) -> float:
        """The share below which the ``wanted`` pairs fall, or a few less; 0 wants a twentieth of all ``pairs``."""
        fractions = sorted(self._pairs)
        if len(fractions) < 2:
            raise TextError(
                "The training text holds only one source; expected at least 2 different ones, so that one can be "
                "set aside for validation. Give more pairs, or give validation pairs of their own."
            )
        if wanted >= len(fractions):
            raise TextError(
                f"text.valid_pairs: found {wanted:,}, but there are only {len(fractions):,} different sources. "
                "Lower text.valid_pairs, or give validation pairs of their own."
            )
        # While all different sources are held, repeats do not count: of 1000 equal pairs and 10 others, one of
        # the 11 sources is set aside and not all of the others.
        different = pairs if len(fractions) > self._most else len(fractions)
        wanted = wanted or min(different // _VALIDATION_PART, _MOST_VALIDATION_PAIRS)
        totals = accumulate(self._pairs[fraction] for fraction in fractions)
        count = sum(total <= wanted for total in totals)
        return nextafter(fractions[max(0, min(count, len(fractions) - 1) - 1)], 1.0)


def is_set_aside(pair: Pair, valid_share: float) -> bool:
    """Whether ``pair`` is for validation; of a share of 0 no hash is taken."""
    return valid_share > 0.0 and is_validation(pair, valid_share)


def training_texts(pairs: Iterable[Pair], survey: Survey, sides: tuple[int, ...], most_pairs: int) -> Iterator[str]:
    """The texts to train a tokenizer on: of sources (0), of targets (1) or of both, without those set aside.

    Where more than ``most_pairs`` are usable (0: never), about so many are drawn, the same ones each time.
    """
    share = min(1.0, most_pairs / survey.usable) if most_pairs else 1.0
    draw = Random(0).random
    for pair in pairs:
        if draw() < share and not pair.blank and not is_set_aside(pair, survey.valid_share):
            yield from (pair[side] for side in sides)


def reason_to_leave_out(src_tokens: int, tgt_tokens: int, config: TextConfig) -> str | None:
    """``too_long`` or ``lopsided``, or None for a pair to keep; tokens are counted without </s>."""
    shorter, longer = sorted((src_tokens, tgt_tokens))
    if longer > config.max_tokens:
        return "too_long"
    if longer > config.max_ratio * shorter + 10:
        return "lopsided"
    return None
