"""A search job: a batch of sources, the options of their search, and what each output must hold, as plain values."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from glassformer.settings import DecodeConfig

PhraseIds = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What an output must begin with, contain and not contain, as ids; ``prefix`` has priority over all else."""

    prefix: tuple[int, ...] = ()
    """The ids that the output begins with; they count in its log_prob and length."""
    required: PhraseIds = ()
    """Sequences of ids that must occur; they may overlap."""
    banned: PhraseIds = ()
    """Sequences of ids that must not occur."""

    def unmet(self, ids: Sequence[int]) -> PhraseIds:
        """The required sequences that do not occur in ``ids``."""
        return tuple(phrase for phrase in dict.fromkeys(self.required) if not occurs(phrase, ids))


def occurs(phrase: Sequence[int], ids: Sequence[int]) -> bool:
    """Whether the ids of ``phrase`` stand in ``ids`` one after another."""
    return any(tuple(ids[at : at + len(phrase)]) == tuple(phrase) for at in range(len(ids) - len(phrase) + 1))


@dataclass(frozen=True)
class SearchJob:
    """A batch to translate, with one entry of each list for each source."""

    sources: Sequence[Sequence[int]]
    """Source ids, eos included."""
    limits: Sequence[int]
    """The maximum length of each output in ids, eos included, from 1 to the model's max_length."""
    options: DecodeConfig
    sample_keys: Sequence[int] = ()
    """Seeds the random numbers of sampling, together with the seed; by default the number of the source."""
    constraints: Sequence[Constraints] | None = None
    attention: bool = False
    """Whether the cross-attention of each best candidate is wanted."""


class SearchStoppedError(Exception):
    """Nobody waits for the outputs of this search any more."""


_is_wanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_wanted", default=None)


@contextmanager
def searching_while(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """A block whose searches end with ``SearchStoppedError`` at the next step once ``is_wanted()`` is False."""
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def check_wanted() -> None:
    """Called before each step of a decoder and each batch of another engine."""
    is_wanted = _is_wanted.get()
    if is_wanted is not None and not is_wanted():
        raise SearchStoppedError
