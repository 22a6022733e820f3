"""What a task is: parallel text in three splits, the metric that judges it, and settings that learn it.

Knows nothing of how any one task makes its text.
"""

from dataclasses import dataclass
from typing import Any

from glassformer.text.corpus import Pair


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
