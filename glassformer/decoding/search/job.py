"""A search job as plain values: sources, options and constraints."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from glassformer.settings import DecodeConfig

PhraseIds = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Ids to begin with, to contain, and to leave out; ``prefix`` has priority."""

    prefix: tuple[int, ...] = ()
    """Ids that the output begins with; they count in score and length."""
    required: PhraseIds = ()
    """Sequences that must occur; they may overlap."""
    starts: PhraseIds = ()
    """The required sequences as an output begins with them, where a word has another token then."""
    banned: PhraseIds = ()
    """Sequences that must not occur."""

    @property
    def forms(self) -> dict[tuple[int, ...], tuple[int, ...]]:
        """Each required sequence, and the same as an output begins with it."""
        return dict(zip(self.required, self.starts or self.required, strict=True))

    def unmet(self, ids: Sequence[int]) -> PhraseIds:
        """The required sequences that ``ids`` lack."""
        return tuple(
            phrase
            for phrase, start in self.forms.items()
            if not occurs(phrase, ids) and tuple(ids[: len(start)]) != start
        )


def occurs(phrase: Sequence[int], ids: Sequence[int]) -> bool:
    """Whether ``phrase`` occurs in ``ids`` without gaps."""
    return any(tuple(ids[at : at + len(phrase)]) == tuple(phrase) for at in range(len(ids) - len(phrase) + 1))


@dataclass(frozen=True)
class SearchJob:
    """A batch to translate; lists have an entry for each source."""

    sources: Sequence[Sequence[int]]
    """Source ids with eos."""
    limits: Sequence[int]
    """Each output's maximum length in ids with eos, up to max_length."""
    options: DecodeConfig
    sample_keys: Sequence[int] = ()
    """Seed the random numbers, with the seed; by default the source's place."""
    constraints: Sequence[Constraints] | None = None
    attention: bool = False
    """Whether each best candidate's cross-attention is wanted."""
    mean_attention: bool = False
    """Whether the mean of the last layer's heads is enough, for which no engine need load PyTorch."""


class SearchStoppedError(Exception):
    """Nobody waits for this search any more."""


_is_wanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_wanted", default=None)


@contextmanager
def searching_while(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """A block whose searches stop (``SearchStoppedError``) once it is not wanted."""
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def check_wanted() -> None:
    """Called before each decoder step, or batch of another engine."""
    is_wanted = _is_wanted.get()
    if is_wanted is not None and not is_wanted():
        raise SearchStoppedError
