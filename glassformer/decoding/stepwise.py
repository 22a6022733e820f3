"""A search that hands out its state after every step, and how to carry it out when nobody watches."""

from collections.abc import Generator
from typing import TypeVar

Found = TypeVar("Found")


def finished(search: Generator[object, None, Found]) -> Found:
    """What a search comes to, carried out to its end."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: Found = end.value
            return found
