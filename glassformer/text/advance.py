"""How far a preparation has come: pairs counted as they pass. Knows nothing of who shows it."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from glassformer.text.corpus import Pair

SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_VIEWS = 0.25
_PAIRS_BETWEEN_LOOKS = 1024


@dataclass(frozen=True)
class Advance:
    """``done`` pairs of ``total`` (None: not known yet) are behind a stage of the preparation."""

    stage: str
    done: int
    total: int | None
    elapsed_s: float

    @property
    def pairs_per_s(self) -> float:
        """The mean rate of the stage."""
        return self.done / max(self.elapsed_s, 1e-9)

    @property
    def left_s(self) -> float | None:
        """Seconds until the stage is over at that rate."""
        return None if self.total is None else (self.total - self.done) / max(self.pairs_per_s, 1e-9)


class Advanced(Protocol):
    """Who is told how far things are."""

    def __call__(self, advance: Advance, *, due: bool) -> None:
        """A few times a second; ``due`` when it is time for a line of a log."""


def counted(stage: str, pairs: Iterable[Pair], total: int | None, advanced: Advanced) -> Iterator[Pair]:
    """``pairs``, of which ``advanced`` is told while they pass."""
    began = viewed = written = time.monotonic()
    for done, pair in enumerate(pairs):
        if done % _PAIRS_BETWEEN_LOOKS == 0 and (now := time.monotonic()) - viewed >= _SECONDS_BETWEEN_VIEWS:
            due = now - written >= SECONDS_BETWEEN_LINES
            advanced(Advance(stage, done, total, now - began), due=due)
            viewed, written = now, now if due else written
        yield pair
