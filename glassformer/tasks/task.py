"""What a task is: parallel text in three splits, the metric that judges it, and settings that learn it.

Knows nothing of how any one task makes its text.

Which pairs are held out: decided by what a text says, never by a draw, so that no seed can leak.

A text that is held out once is held out under every seed and in every target language. Knows nothing of
any one task.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.text.corpus import Pair, source_fraction


@dataclass(frozen=True)
class Task:
    """A parallel corpus generated on the spot; the same name and seed give the same pairs in the same order."""

    name: str
    summary: str
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    metric: str
    settings: dict[str, dict[str, Any]]
    examples: list[str]
    """Sources to show; none of them is in ``train``."""


class Splits(NamedTuple):
    """The pairs to learn from, to choose by and to be judged on."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def divide(pairs: Iterable[Pair], key: Callable[[Pair], str], *, valid: float, test: float) -> Splits:
    """Hold out pairs whose ``key`` hashes below ``test``, or else below ``test + valid``; the order is kept."""
    splits = Splits([], [], [])
    for pair in pairs:
        place = source_fraction(key(pair))
        part = splits.test if place < test else splits.valid if place < test + valid else splits.train
        part.append(pair)
    return splits


def unambiguous(pairs: Iterable[Pair]) -> list[Pair]:
    """Each source once, in order of appearance; a source with two different targets is left out altogether."""
    targets: dict[str, set[str]] = {}
    for pair in pairs:
        targets.setdefault(pair.src, set()).add(pair.tgt)
    return [Pair(src, *found) for src, found in targets.items() if len(found) == 1]


def source(pair: Pair) -> str:
    """The key that holds out by source text."""
    return pair.src


def target(pair: Pair) -> str:
    """The key that holds out by meaning: whatever has the same target is held out together."""
    return pair.tgt
