"""What a server keeps for its clients: in memory, for a while, under ids that cannot be guessed."""

import time
from collections import OrderedDict
from collections.abc import Callable
from secrets import token_hex
from typing import Generic, TypeVar

T = TypeVar("T")


def new_id() -> str:
    """One of 128 random bits."""
    return token_hex(16)


class Store(Generic[T]):
    """Things by their ids. The oldest is forgotten after so many ``seconds``, and when there are too many.

    ``forget`` is called with each that goes, for what it has outside of memory.
    """

    def __init__(self, most: int, seconds: float = float("inf"), forget: Callable[[T], None] | None = None) -> None:
        self._most, self._seconds, self._forget = most, seconds, forget
        self._kept = OrderedDict[str, tuple[T, str, float]]()

    def keep(self, number: str, thing: T, owner: str = "") -> None:
        """Keep a thing: one client's, or that of anybody who knows its id."""
        self._kept[number] = (thing, owner, time.monotonic() + self._seconds)
        self._remove_old()

    def find(self, number: str, owner: str = "") -> T | None:
        """A thing of this client; None if it is not kept."""
        self._remove_old()
        thing, its_owner, _ = self._kept.get(number, (None, "", 0.0))
        return thing if its_owner == owner else None

    def of(self, owner: str) -> list[T]:
        """All things of a client."""
        return [thing for thing, its_owner, _ in self._kept.values() if its_owner == owner]

    def take(self, number: str) -> T:
        """Keep it no longer; what it has outside of memory is now the caller's."""
        return self._kept.pop(number)[0]

    def _remove_old(self) -> None:
        while self._kept:
            number, (_, _, until) = next(iter(self._kept.items()))
            if len(self._kept) <= self._most and until > time.monotonic():
                return
            thing = self.take(number)
            if self._forget is not None:
                self._forget(thing)
