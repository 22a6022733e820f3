"""A task: parallel text in three splits, and settings that learn it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from glassformer.text.corpus.corpus import Pair, source_fraction


@dataclass(frozen=True)
class Task:
    """A parallel corpus generated on the spot: one name and seed, the same pairs."""

    name: str
    summary: str
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    settings: dict[str, dict[str, Any]]


Splits = tuple[list[Pair], list[Pair], list[Pair]]  # for training, validation and the test


def divide(pairs: Iterable[Pair], key: Callable[[Pair], str], *, valid: float, test: float) -> Splits:
    """Hold out the shares ``valid`` and ``test``, by a hash of ``key``."""
    for_training, for_validation, for_test = splits = list[Pair](), list[Pair](), list[Pair]()
    for pair in pairs:
        fraction = source_fraction(key(pair))
        split = for_test if fraction < test else for_validation if fraction < test + valid else for_training
        split.append(pair)
    return splits


def drop_ambiguous(pairs: Iterable[Pair]) -> list[Pair]:
    """Each source once, in order, without those that have different targets."""
    targets: dict[str, set[str]] = {}
    for pair in pairs:
        targets.setdefault(pair.src, set()).add(pair.tgt)
    return [Pair(src, *found) for src, found in targets.items() if len(found) == 1]
