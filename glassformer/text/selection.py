"""Which pairs are trained on, which are set aside for validation, and which are left out, each with its count.

Knows nothing of files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappush, heapreplace
from itertools import accumulate, chain
from math import nextafter

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
    def of(cls, pairs: Iterable[Pair], config: TextConfig, *, split: bool) -> "Survey":
        """Count ``pairs`` and, to ``split`` validation pairs off, find the share that gives as many as wanted.

        Raises ``TextError`` when nothing is usable, or when there are too few different sources to split.
        """
        smallest = _SmallestSources(config.valid_pairs or _MOST_VALIDATION_PAIRS)
        read = usable = 0
        for pair in pairs:
            read += 1
            if not pair.blank:
                usable += 1
                if split:
                    smallest.add(pair.src)
        if not usable:
            found = f"{read:,} pairs, all with an empty side" if read else "no pairs"
            raise TextError(f"The training text holds {found}; expected at least one with text on both sides.")
        return cls(read, usable, smallest.share(usable, config.valid_pairs) if split else 0.0)

    def vocab_size(self, config: TextConfig) -> int:
        """The size asked for, or the one that suits so many pairs."""
        return config.vocab_size or min(8000, max(512, self.usable // 6))


class _SmallestSources:
    """The ``most`` different sources with the smallest hashes, and one more, with the pairs that each has.

    In memory for just those: a source that was dropped once is never held again, for the largest held only falls.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[float] = []
        self._pairs: dict[float, int] = {}

    def add(self, src: str) -> None:
        fraction = source_fraction(src)
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


def training_pairs(pairs: Iterable[Pair], survey: Survey) -> Iterator[Pair]:
    """The pairs with text on both sides that are not set aside for validation."""
    return (pair for pair in pairs if not pair.blank and not is_validation(pair, survey.valid_share))


def validation_pairs(pairs: Iterable[Pair], survey: Survey) -> list[Pair]:
    """The pairs that are set aside for validation, each once, in their order."""
    return list(dict.fromkeys(pair for pair in pairs if not pair.blank and is_validation(pair, survey.valid_share)))


def training_texts(pairs: Iterable[Pair], survey: Survey, sides: tuple[int, ...]) -> Iterator[str]:
    """The texts to train a tokenizer on: of sources (0), of targets (1) or of both."""
    return chain.from_iterable((pair[side] for side in sides) for pair in training_pairs(pairs, survey))


def reason_to_leave_out(src_tokens: int, tgt_tokens: int, config: TextConfig) -> str | None:
    """``too_long`` or ``lopsided``, or None for a pair to keep; tokens are counted without </s>."""
    shorter, longer = sorted((src_tokens, tgt_tokens))
    if longer > config.max_tokens:
        return "too_long"
    if longer > config.max_ratio * shorter + 10:
        return "lopsided"
    return None
