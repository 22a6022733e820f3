"""A task: parallel text in three splits, and settings that learn it; and how pairs are split.

A hash of the text decides what is held out: the same under every seed and in every target language.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from glassformer.text.corpus.corpus import Pair, source_fraction


@dataclass(frozen=True)
class Task:
    """A parallel corpus generated on the spot; the same name and seed give the same pairs in the same order."""

    name: str
    summary: str
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    settings: dict[str, dict[str, Any]]


Splits = tuple[list[Pair], list[Pair], list[Pair]]
"""The pairs for training, for validation and for the test."""


def divide(pairs: Iterable[Pair], key: Callable[[Pair], str], *, valid: float, test: float) -> Splits:
    """Hold out the shares ``valid`` and ``test`` (0 to 1), by a hash of each pair's ``key``; keeps the order.

    The key is the source, or the target, with which all its sources are held out.
    """
    for_training, for_validation, for_test = splits = list[Pair](), list[Pair](), list[Pair]()
    for pair in pairs:
        fraction = source_fraction(key(pair))
        split = for_test if fraction < test else for_validation if fraction < test + valid else for_training
        split.append(pair)
    return splits


def drop_ambiguous(pairs: Iterable[Pair]) -> list[Pair]:
    """Each source once, in order of appearance, without sources that have different targets."""
    targets: dict[str, set[str]] = {}
    for pair in pairs:
        targets.setdefault(pair.src, set()).add(pair.tgt)
    return [Pair(src, *found) for src, found in targets.items() if len(found) == 1]
