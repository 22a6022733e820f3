"""Lexical constraints: sequences of ids that outputs must contain.

Dynamic beam allocation, Post and Vilar 2018 (arXiv 1804.06609). A bank is a number of required ids that hypotheses
have, in complete phrases and the current one. The beam is divided among banks. The best of the highest bank
survives, so that all phrases occur, unless a filter forbids an id.

``phrases`` (rows phrase tgt) are padded with ``pad_id``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.decoding.search.job import Constraints, SearchJob
from glassformer.errors import InputError
from glassformer.settings import ModelConfig
from glassformer.trace import note

Ids = Int[Tensor, "rows step"]
Phrases = Int[Tensor, "rows phrase tgt"]


def contains(ids: Ids, phrases: Phrases, starts: Phrases, pad_id: int) -> Bool[Tensor, "rows phrase"]:
    """Which phrases occur in their row's ids, at the beginning as ``starts`` has them; an empty one does."""
    padding = phrases == pad_id
    if not phrases.numel() or not ids.numel():
        return padding.all(dim=2)
    windows = pad(ids, (0, phrases.shape[2] - 1), value=pad_id).unfold(1, phrases.shape[2], 1)
    equal = (windows[:, None] == phrases[:, :, None]) | padding[:, :, None]
    first = pad(ids, (0, starts.shape[2]), value=pad_id)[:, None, : starts.shape[2]]
    begins = ((first == starts) | (starts == pad_id)).all(dim=2)
    return equal.all(dim=3).any(dim=2) | begins


def matched_prefix(ids: Ids, phrases: Phrases, pad_id: int) -> Int[Tensor, "rows phrase"]:
    """In ids, the longest prefix of each phrase with which its row ends."""
    step, lengths = ids.shape[1], torch.zeros(phrases.shape[:2], dtype=torch.int64, device=ids.device)
    for length in range(1, min(phrases.shape[2], step) + 1):
        equal = (ids[:, None, step - length :] == phrases[:, :, :length]).all(dim=2)
        lengths[equal & (phrases[:, :, length - 1] != pad_id)] = length
    return lengths


def follow(
    ids: Ids, phrases: Phrases, starts: Phrases, pad_id: int
) -> tuple[Int[Tensor, "rows phrase"], Int[Tensor, "rows phrase"]]:
    """How many ids of each incomplete phrase a row ends with, and the next id; a row may be a part of its start."""
    step, most = ids.shape[1], phrases.shape[2] - 1
    lengths = matched_prefix(ids, phrases, pad_id)
    further = phrases.gather(2, lengths.clamp(max=most)[:, :, None]).squeeze(2)
    if step < starts.shape[2]:
        begun = (ids[:, None] == starts[:, :, :step]).all(dim=2) & (starts[:, :, step] != pad_id)
        begun_ids = ((phrases != pad_id).sum(dim=2) - 1).clamp(max=step)
        lengths = torch.where(begun, lengths.maximum(begun_ids), lengths)
        further = torch.where(begun, starts[:, :, step], further)
    return lengths, further


def bank_of(ids: Ids, phrases: Phrases, starts: Phrases, pad_id: int) -> Int[Tensor, "rows"]:
    """Each row's bank: how many required ids it has."""
    done, lengths = contains(ids, phrases, starts, pad_id), (phrases != pad_id).sum(dim=2)
    in_progress = follow(ids, phrases, starts, pad_id)[0].masked_fill(done, 0).amax(dim=1)
    return (lengths * done).sum(dim=1) + in_progress


def allocate_candidates(
    keys: Float[Tensor, "sentences beam vocab"],
    ids: Int[Tensor, "sentences beam step"],
    constraints: "ConstraintBatch",
    pad_id: int,
    beam: int,
) -> Int[Tensor, "sentences candidates"]:
    """The ``2 beam`` candidates by slot, as indices into beam · vocab."""
    vocab = keys.shape[2]
    index, pool = _pool(keys, ids, constraints, pad_id, 2 * beam)
    parents = (index // vocab)[:, :, None].expand(-1, -1, ids.shape[2])
    candidates = torch.cat([ids.gather(1, parents), (index % vocab)[:, :, None]], dim=2)
    banks = bank_of(candidates.flatten(0, 1), *constraints.phrases(index.shape[1]), pad_id).view(index.shape)
    n_banks = (constraints.required != pad_id).sum(dim=(1, 2)) + 1
    order = allocate_banks(pool, banks, n_banks, beam)[:, : min(2 * beam, keys[0].numel())]
    return index.gather(1, order)


def _pool(
    keys: Tensor, ids: Tensor, constraints: "ConstraintBatch", pad_id: int, count: int
) -> tuple[Int[Tensor, "sentences pool"], Float[Tensor, "sentences pool"]]:
    """Indices and keys of candidates; of repeats -inf."""
    sentences, beam, vocab = keys.shape
    flat = keys.flatten(1)
    first = torch.arange(beam, device=keys.device) * vocab
    phrases, prefixes = constraints.phrases(beam), ids.flatten(0, 1)
    further = follow(prefixes, *phrases, pad_id)[1].view(sentences, beam, -1)
    unmet = ~contains(prefixes, *phrases, pad_id).view(sentences, beam, -1)
    best = flat.topk(min(count, flat.shape[1]), dim=1).indices
    # A complete phrase takes the best candidate's slot.
    further_ids = torch.where(unmet, first[:, None] + further, best[:, :1, None]).flatten(1)
    index = torch.cat([best, first + keys.argmax(dim=2), further_ids], dim=1)
    again = (index[:, :, None] == index[:, None, :]).tril(-1).any(dim=2)
    return index, flat.gather(1, index).masked_fill(again, -math.inf)


def allocate_banks(
    keys: Float[Tensor, "sentences pool"],
    banks: Int[Tensor, "sentences pool"],
    n_banks: Int[Tensor, "sentences"],
    beam: int,
) -> Int[Tensor, "sentences pool"]:
    """The order of candidates: whose bank has room (beam / banks), then others, by key.

    The best of the highest bank comes first.
    """
    possible = keys > -math.inf
    by_key = keys.argsort(dim=1, descending=True, stable=True)
    ordered, possible = banks.gather(1, by_key), possible.gather(1, by_key)
    rank_in_bank = (ordered[:, None, :] == ordered[:, :, None]).tril(-1).sum(dim=2)
    highest = ordered == ordered.masked_fill(~possible, -1).amax(dim=1, keepdim=True)
    turn = torch.where(rank_in_bank < (beam // n_banks)[:, None], 1, 2)
    turn = torch.where(highest & (rank_in_bank == 0) & (n_banks > 1)[:, None], 0, turn)
    return by_key.gather(1, torch.where(possible, turn, 3).argsort(dim=1, stable=True))


@dataclass(frozen=True)
class ConstraintBatch:
    """Each source's constraints, padded with ``pad_id``."""

    prefixes: Tensor  # (sentences tgt)
    required: Tensor  # (sentences phrase tgt)
    starts: Tensor  # (sentences phrase tgt): the required ones as an output begins with them
    banned: Tensor  # (sentences phrase tgt)

    @classmethod
    def from_job(cls, job: SearchJob, config: ModelConfig, device: torch.device) -> Self | None:
        """None without constraints; ``InputError`` unless all are valid."""
        constraints, sources = job.constraints, len(job.limits)
        if constraints is not None and len(constraints) != sources:
            raise InputError(
                f"constraints: found {len(constraints)} for {sources} sources, expected one for each source. "
                "Give Constraints() for a source without any."
            )
        if constraints is None or all(one == Constraints() for one in constraints):
            return None
        for place, one in enumerate(constraints):
            _check(f"constraints[{place}]", one, config)
        return cls(
            prefixes=_stack([[one.prefix] for one in constraints], config.pad_id, device).flatten(1),
            required=_stack([tuple(one.forms) for one in constraints], config.pad_id, device),
            starts=_stack([tuple(one.forms.values()) for one in constraints], config.pad_id, device),
            banned=_stack([one.banned for one in constraints], config.pad_id, device),
        )

    def note(self) -> None:
        """Record them in a trace."""
        note("search.prefix_ids", self.prefixes, "batch tgt")
        note("search.required_ids", self.required, "batch phrase tgt")
        note("search.start_ids", self.starts, "batch phrase tgt")
        note("search.banned_ids", self.banned, "batch phrase tgt")

    def phrases(self, count: int) -> tuple[Phrases, Phrases]:
        """The required sequences and their starts for ``count`` rows of each sentence."""
        return self.required.repeat_interleave(count, dim=0), self.starts.repeat_interleave(count, dim=0)

    def select(self, rows: Int[Tensor, "rows"]) -> Self:
        """Row i is what row ``rows[i]`` was."""
        return type(self)(*(getattr(self, field.name).index_select(0, rows) for field in fields(self)))


def _stack(phrases: Sequence[Sequence[Sequence[int]]], pad_id: int, device: torch.device) -> Tensor:
    most = max(map(len, phrases), default=0)
    longest = max((len(phrase) for row in phrases for phrase in row), default=0)
    stacked = torch.full((len(phrases), most, longest), pad_id, dtype=torch.int64)
    for row, of_row in zip(stacked, phrases, strict=True):
        for place, phrase in zip(row, of_row, strict=False):
            place[: len(phrase)] = torch.tensor(phrase, dtype=torch.int64)
    return stacked.to(device)


def _check(where: str, constraints: Constraints, config: ModelConfig) -> None:
    control = (config.pad_id, config.bos_id, config.eos_id)
    named = {
        "prefix": [constraints.prefix],
        "required": (*constraints.required, *constraints.starts),
        "banned": constraints.banned,
    }
    for name, phrases in named.items():
        if name != "prefix" and not all(phrases):
            raise InputError(f"{where}.{name}: found an empty sequence, expected ids. Leave it out.")
        for number in chain.from_iterable(phrases):
            if number in control or not 0 <= number < config.tgt_vocab:
                raise InputError(
                    f"{where}.{name}: found id {number}, expected ids below {config.tgt_vocab} other than those "
                    f"of padding, start and end, {control}. Take ids of the target tokenizer."
                )
