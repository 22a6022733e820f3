"""Demands: what one source's output must begin with, must hold and must not hold, as ids.

``Demands`` is what a caller states; ``Demanded`` the same for a batch, as tensors. Knows nothing of search.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.errors import InputError
from glassformer.trace import note

Phrases = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Demands:
    """What is demanded of one source's output; by default nothing.

    ``prefix`` goes before the rules and before ``banned``: it is written whatever they say.
    """

    prefix: tuple[int, ...] = ()
    """The ids that the output begins with; they count as its own, for log_prob and for the limit."""
    required: Phrases = ()
    """Sequences of ids that must occur, each in one piece; one place may serve several that overlap."""
    banned: Phrases = ()
    """Sequences of ids that must not occur."""

    def unmet(self, ids: Sequence[int]) -> Phrases:
        """The required sequences that do not occur in ``ids``."""
        return tuple(phrase for phrase in dict.fromkeys(self.required) if not _occurs(phrase, ids))


def _occurs(phrase: Sequence[int], ids: Sequence[int]) -> bool:
    return any(tuple(ids[at : at + len(phrase)]) == tuple(phrase) for at in range(len(ids) - len(phrase) + 1))


@dataclass(frozen=True)
class Demanded:
    """The demands of a batch, a row for each source; what is missing is ``pad_id``."""

    prefixes: Tensor  # (sentences tgt)
    required: Tensor  # (sentences phrase tgt)
    banned: Tensor  # (sentences phrase tgt)

    @classmethod
    def of(
        cls, demands: Sequence[Demands] | None, sources: int, config: ModelConfig, device: torch.device
    ) -> Self | None:
        """None when nothing is demanded of any source.

        Raises ``InputError`` when there is not one for each source, or for ids that no output can hold.
        """
        if demands is not None and len(demands) != sources:
            raise InputError(
                f"demands: found {len(demands)} for {sources} sources, expected one for each source. "
                "Give Demands() where nothing is demanded."
            )
        if demands is None or all(one == Demands() for one in demands):
            return None
        for place, one in enumerate(demands):
            _check(f"demands[{place}]", one, config)
        return cls(
            prefixes=_stacked([[one.prefix] for one in demands], config.pad_id, device).flatten(1),
            required=_stacked([tuple(dict.fromkeys(one.required)) for one in demands], config.pad_id, device),
            banned=_stacked([one.banned for one in demands], config.pad_id, device),
        )

    def note(self) -> None:
        """Show them in a trace."""
        note("search.demanded_prefixes", self.prefixes, "batch tgt")
        note("search.required_ids", self.required, "batch phrase tgt")
        note("search.banned_ids", self.banned, "batch phrase tgt")

    def select(self, rows: Int[Tensor, "rows"]) -> Self:
        """Row i is what row ``rows[i]`` was."""
        return type(self)(*(getattr(self, field.name).index_select(0, rows) for field in fields(self)))


def _stacked(phrases: Sequence[Sequence[Sequence[int]]], pad_id: int, device: torch.device) -> Tensor:
    """Sequences for each source (sentences phrase tgt), padded along both."""
    most = max(map(len, phrases), default=0)
    longest = max((len(phrase) for row in phrases for phrase in row), default=0)
    stacked = torch.full((len(phrases), most, longest), pad_id, dtype=torch.int64)
    for row, of_row in zip(stacked, phrases, strict=True):
        for place, phrase in zip(row, of_row, strict=False):
            place[: len(phrase)] = torch.tensor(phrase, dtype=torch.int64)
    return stacked.to(device)


def _check(where: str, demands: Demands, config: ModelConfig) -> None:
    named = [("prefix", demands.prefix)]
    for name, phrases in (("required", demands.required), ("banned", demands.banned)):
        if not all(phrases):
            raise InputError(f"{where}.{name}: found an empty sequence, expected ids. Leave it out.")
        named += [(name, phrase) for phrase in phrases]
    control = (config.pad_id, config.bos_id, config.eos_id)
    for name, ids in named:
        for number in ids:
            if number in control or not 0 <= number < config.tgt_vocab:
                raise InputError(
                    f"{where}.{name}: found id {number}, expected ids below {config.tgt_vocab} other than those "
                    f"of padding, start and end, {control}. Take ids of the target tokenizer."
                )
