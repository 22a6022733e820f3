"""Lexical constraints: sequences of ids that an output must hold, and a beam divided among those on their way there.

Dynamic beam allocation, Post and Vilar 2018 (arXiv 1804.06609). A hypothesis stands in the bank of as many ids as it
has of the required sequences: of those that occur, and of the one that it is in the midst of. The beam is divided
among the banks, so that what the model likes and what is demanded both live on. Two choices are ours:

- How far a hypothesis is follows from its ids alone: a sequence is met when it occurs, wherever and with whatever
  overlap, and the midst of one is the longest beginning of an unmet one that ends the ids.
- The best of the furthest bank is always among those that live on. Each step brings it one id further, so that
  everything is met as soon as there were steps for it, unless a rule forbids one of the ids.

``phrases`` (rows phrase tgt) are padded with ``pad_id`` along both. Knows nothing of models.

Demands: what one source's output must begin with, must hold and must not hold, as ids.

``Demands`` is what a caller states; ``Demanded`` the same for a batch, as tensors. Knows nothing of search.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.config import ModelConfig
from glassformer.errors import InputError
from glassformer.trace import note

Ids = Int[Tensor, "rows step"]
Phrases = Int[Tensor, "rows phrase tgt"]


def met(ids: Ids, phrases: Phrases, pad_id: int) -> Bool[Tensor, "rows phrase"]:
    """Which phrases occur in the ids of their row; one without ids always does."""
    padding = phrases == pad_id
    if not phrases.numel() or not ids.numel():
        return padding.all(dim=2)
    windows = pad(ids, (0, phrases.shape[2] - 1), value=pad_id).unfold(1, phrases.shape[2], 1)
    equal = (windows[:, None] == phrases[:, :, None]) | padding[:, :, None]
    return equal.all(dim=3).any(dim=2) | padding.all(dim=2)


def all_met(ids: Ids, phrases: Phrases, pad_id: int) -> Bool[Tensor, "rows"]:
    """Whether every phrase occurs in the ids of its row."""
    return met(ids, phrases, pad_id).all(dim=1)


def ending(ids: Ids, phrases: Phrases, pad_id: int) -> Bool[Tensor, "rows phrase"]:
    """Which phrases end the ids of their row; one without ids always does."""
    return begun(ids, phrases, pad_id) == (phrases != pad_id).sum(dim=2)


def begun(ids: Ids, phrases: Phrases, pad_id: int) -> Int[Tensor, "rows phrase"]:
    """How many ids the longest beginning of each phrase has that ends the ids of its row."""
    step, lengths = ids.shape[1], torch.zeros(phrases.shape[:2], dtype=torch.int64, device=ids.device)
    for length in range(1, min(phrases.shape[2], step) + 1):
        equal = (ids[:, None, step - length :] == phrases[:, :, :length]).all(dim=2)
        lengths[equal & (phrases[:, :, length - 1] != pad_id)] = length
    return lengths


def bank(ids: Ids, phrases: Phrases, pad_id: int) -> Int[Tensor, "rows"]:
    """How many ids of the required phrases each row has."""
    done, lengths = met(ids, phrases, pad_id), (phrases != pad_id).sum(dim=2)
    in_the_midst = begun(ids, phrases, pad_id).masked_fill(done, 0).amax(dim=1)
    return (lengths * done).sum(dim=1) + in_the_midst


def wanted(ids: Ids, phrases: Phrases, pad_id: int) -> tuple[Int[Tensor, "rows phrase"], Bool[Tensor, "rows phrase"]]:
    """The id that would bring each phrase further, and whether the phrase is unmet, so that it should."""
    following = begun(ids, phrases, pad_id).clamp(max=phrases.shape[2] - 1)
    return phrases.gather(2, following[:, :, None]).squeeze(2), ~met(ids, phrases, pad_id)


def banked(
    keys: Float[Tensor, "sentences beam vocab"],
    ids: Int[Tensor, "sentences beam step"],
    required: Int[Tensor, "sentences phrase tgt"],
    pad_id: int,
    beam: int,
) -> Int[Tensor, "sentences candidates"]:
    """The ``2 beam`` continuations to look at, in the order in which they take places, as places in beam · vocab."""
    vocab = keys.shape[2]
    index, pool = _pool(keys, ids, required, pad_id, 2 * beam)
    parents = (index // vocab)[:, :, None].expand(-1, -1, ids.shape[2])
    candidates = torch.cat([ids.gather(1, parents), (index % vocab)[:, :, None]], dim=2)
    phrases = required.repeat_interleave(index.shape[1], dim=0)
    banks = bank(candidates.flatten(0, 1), phrases, pad_id).view(index.shape)
    n_banks = (required != pad_id).sum(dim=(1, 2)) + 1
    order = allocated(pool, banks, n_banks, beam)[:, : min(2 * beam, keys[0].numel())]
    return index.gather(1, order)


def _pool(
    keys: Tensor, ids: Tensor, required: Tensor, pad_id: int, count: int
) -> tuple[Int[Tensor, "sentences pool"], Float[Tensor, "sentences pool"]]:
    """The best continuations, each hypothesis's best, and all that bring a phrase further; their places and keys.

    One that is there twice has key -inf at its second place.
    """
    sentences, beam, vocab = keys.shape
    flat = keys.flatten(1)
    first = torch.arange(beam, device=keys.device) * vocab
    phrases = required.repeat_interleave(beam, dim=0)
    further, unmet = (found.view(sentences, beam, -1) for found in wanted(ids.flatten(0, 1), phrases, pad_id))
    best = flat.topk(min(count, flat.shape[1]), dim=1).indices
    # A phrase that is met asks for nothing: the best continuation stands in, which is there already.
    asked = torch.where(unmet, first[:, None] + further, best[:, :1, None]).flatten(1)
    index = torch.cat([best, first + keys.argmax(dim=2), asked], dim=1)
    again = (index[:, :, None] == index[:, None, :]).tril(-1).any(dim=2)
    return index, flat.gather(1, index).masked_fill(again, -math.inf)


def allocated(
    keys: Float[Tensor, "sentences pool"],
    banks: Int[Tensor, "sentences pool"],
    n_banks: Int[Tensor, "sentences"],
    beam: int,
) -> Int[Tensor, "sentences pool"]:
    """The order in which continuations take places: those whose bank has room, and then the others; each by key.

    A bank has room for beam / banks, rounded down. The best of the furthest bank comes first; -inf comes last.
    """
    possible = keys > -math.inf
    by_key = keys.argsort(dim=1, descending=True, stable=True)
    ordered, possible = banks.gather(1, by_key), possible.gather(1, by_key)
    rank_in_bank = (ordered[:, None, :] == ordered[:, :, None]).tril(-1).sum(dim=2)
    furthest = ordered == ordered.masked_fill(~possible, -1).amax(dim=1, keepdim=True)
    turn = torch.where(rank_in_bank < (beam // n_banks)[:, None], 1, 2)
    turn = torch.where(furthest & (rank_in_bank == 0) & (n_banks > 1)[:, None], 0, turn)
    return by_key.gather(1, torch.where(possible, turn, 3).argsort(dim=1, stable=True))


PhraseIds = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Demands:
    """What is demanded of one source's output; by default nothing.

    ``prefix`` goes before the rules and before ``banned``: it is written whatever they say.
    """

    prefix: tuple[int, ...] = ()
    """The ids that the output begins with; they count as its own, for log_prob and for the limit."""
    required: PhraseIds = ()
    """Sequences of ids that must occur, each in one piece; one place may serve several that overlap."""
    banned: PhraseIds = ()
    """Sequences of ids that must not occur."""

    def unmet(self, ids: Sequence[int]) -> PhraseIds:
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
