"""The state of a beam search; a step's candidates and their outcomes.

``sums`` need processors, ``covered`` a coverage penalty; else None.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.decoding.search.constraints import ConstraintBatch, allocate_candidates
from glassformer.decoding.search.filters import has_processors, process_log_probs
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.trace import note

_STATE_AXES = {
    "sentences": "batch", "limits": "batch", "last_penalty": "batch", "ids": "batch beam tgt",
    "log_probs": "batch beam", "finished": "batch", "finished_ids": "batch n_best tgt",
    "finished_log_probs": "batch n_best", "finished_scores": "batch n_best", "sums": "batch beam",
    "covered": "batch beam src",
}  # fmt: skip

DROPPED, LIVE, FINISHED = range(3)
_BLOCK = 64  # numbers under one maximum


@dataclass(frozen=True)
class SearchState:
    """Hypotheses of unfinished sentences after ``step`` ids; empty slots: -inf."""

    sentences: Tensor  # (sentences)              source's row in the batch
    limits: Tensor  # (sentences)                 most ids, with eos
    last_penalty: Tensor  # (sentences)           length penalty at that limit
    ids: Tensor  # (sentences beam step)          live hypotheses, best first
    log_probs: Tensor  # (sentences beam)         by the model's own distribution
    finished: Tensor  # (sentences)               how many have finished
    finished_ids: Tensor  # (sentences n_best step)  best first, padded after eos
    finished_log_probs: Tensor  # (sentences n_best)
    finished_scores: Tensor  # (sentences n_best)
    sums: Tensor | None = None  # (sentences beam)  of processed log-probabilities
    covered: Tensor | None = None  # (sentences beam src)  attention received; padding 1

    @property
    def step(self) -> int:
        """Ids of each live hypothesis."""
        return self.ids.shape[2]

    @property
    def ranking(self) -> Float[Tensor, "sentences beam"]:
        """The sums that rank hypotheses."""
        return self.log_probs if self.sums is None else self.sums

    def select(self, keep: Int[Tensor, "kept"]) -> Self:
        """The state of some sentences."""
        return replace(self, **{name: value.index_select(0, keep) for name, value in _tensors(self).items()})

    def to_cpu(self) -> Self:
        """The same on the CPU."""
        return replace(self, **{name: value.cpu() for name, value in _tensors(self).items()})

    def note(self) -> None:
        """Record it in a trace."""
        for name, value in _tensors(self).items():
            note(f"search.{name}", value, _STATE_AXES[name])


def _tensors(record: "SearchState | Continuations") -> dict[str, Tensor]:
    return {name: value for name, value in vars(record).items() if value is not None}


def fill_gaps(live: Bool[Tensor, "sentences"]) -> Int[Tensor, "kept"]:
    """Rows that stay; last ones fill the gaps, so that few move."""
    rows = live.nonzero().flatten()
    kept = torch.arange(len(rows), device=live.device)
    free = (~live[: len(rows)]).nonzero().flatten()
    kept[free] = rows[len(rows) - len(free) :]
    return kept


def start_state(
    limits: Sequence[int], plan: "Plan", device: torch.device, covered: Float[Tensor, "sentences src"] | None
) -> SearchState:
    """An empty live hypothesis of probability 1 for each sentence."""
    batch, options = len(limits), plan.options
    nothing = torch.full((batch, options.pool), -math.inf, device=device)
    return SearchState(
        sentences=torch.arange(batch, device=device),
        limits=torch.tensor(limits, dtype=torch.int64, device=device),
        last_penalty=torch.tensor([options.penalty(limit) for limit in limits], dtype=torch.float32, device=device),
        ids=torch.empty(batch, 1, 0, dtype=torch.int64, device=device),
        log_probs=torch.zeros(batch, 1, device=device),
        finished=torch.zeros(batch, dtype=torch.int64, device=device),
        finished_ids=torch.empty(batch, options.pool, 0, dtype=torch.int64, device=device),
        finished_log_probs=nothing,
        finished_scores=nothing,
        sums=torch.zeros(batch, 1, device=device) if plan.has_processors else None,
        covered=None if covered is None else covered[:, None],
    )


@dataclass(frozen=True)
class Continuations:
    """A step's candidates by slot: parent hypothesis and next id."""

    ids: Tensor  # (sentences candidates)
    parents: Tensor  # (sentences candidates)     slot of the hypothesis
    log_probs: Tensor  # (sentences candidates)
    sums: Tensor | None = None  # (sentences candidates)  as in the state

    @property
    def ranking(self) -> Float[Tensor, "sentences candidates"]:
        """The sums that rank them; -inf marks none."""
        return self.log_probs if self.sums is None else self.sums

    def at(self, ranks: Int[Tensor, "sentences chosen"]) -> Self:
        """The candidates at the given ranks of each sentence."""
        return replace(self, **{name: value.gather(1, ranks) for name, value in _tensors(self).items()})

    def first(self, counts: Int[Tensor, "sentences"]) -> Self:
        """The first of each sentence, so many; the others are none."""
        late = torch.arange(self.ids.shape[1], device=counts.device) >= counts[:, None]
        sums = None if self.sums is None else self.sums.masked_fill(late, -math.inf)
        return replace(self, log_probs=self.log_probs.masked_fill(late, -math.inf), sums=sums)

    def note(self) -> None:
        """Record them in a trace."""
        for name, value in reversed(_tensors(self).items()):
            note(f"search.candidate_{name}", value, "batch candidate")

    def append_to(self, prefixes: Int[Tensor, "sentences beam step"]) -> Int[Tensor, "sentences candidates longer"]:
        """Each candidate's ids: its parent's, then its own."""
        index = self.parents[:, :, None].expand(-1, -1, prefixes.shape[2])
        return torch.cat([prefixes.gather(1, index), self.ids[:, :, None]], dim=2)


@dataclass(frozen=True)
class Plan:
    """What stays the same between steps: options and each source's constraints."""

    options: DecodeConfig
    config: ModelConfig
    constraints: ConstraintBatch | None

    @property
    def has_processors(self) -> bool:
        """Whether hypotheses are ranked by processed log-probabilities."""
        return has_processors(self.options, self.constraints)

    def constraints_of(self, state: SearchState) -> ConstraintBatch | None:
        """The constraints, a row for each sentence of the state."""
        return None if self.constraints is None else self.constraints.select(state.sentences)


def process_beam(state: SearchState, log_probs: Tensor, plan: Plan) -> Tensor | None:
    """Processed ``log_probs`` of live hypotheses; None without processors."""
    if not plan.has_processors:
        return None
    constraints = plan.constraints_of(state)
    if constraints is not None:
        beam = state.log_probs.shape[1]
        constraints = constraints.select(torch.arange(len(log_probs), device=log_probs.device) // beam)
    processed = process_log_probs(log_probs, state.ids.flatten(0, 1), plan.options, constraints, plan.config)
    return processed.view(*state.log_probs.shape, -1)


def expand_beam(state: SearchState, log_probs: Tensor, processed: Tensor | None, plan: Plan) -> Continuations:
    """Each sentence's ``2 beam`` candidates of (sentences beam vocab)."""
    constraints, beam = plan.constraints_of(state), plan.options.beam
    ranked_by = log_probs if processed is None else processed
    if constraints is not None and constraints.required.numel():
        sums = state.ranking[:, :, None] + ranked_by
        index = allocate_candidates(sums, state.ids, constraints, plan.config.pad_id, beam)
    else:
        index = top_k_of_beams(state.ranking, ranked_by, 2 * beam)
    parents, ids = index // log_probs.shape[2], index % log_probs.shape[2]
    totals = state.log_probs.gather(1, parents) + log_probs.flatten(1).gather(1, index)
    if processed is None:
        return Continuations(ids, parents, totals)
    sums = state.ranking.gather(1, parents) + processed.flatten(1).gather(1, index)
    return Continuations(ids, parents, totals, sums)


def live_ranks(is_eos: Bool[Tensor, "sentences candidates"], beam: int) -> Int[Tensor, "sentences new_beam"]:
    """The ranks of ``beam`` candidates other than eos, then of others."""
    return is_eos.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]


def outcomes(
    ranking: Float[Tensor, "sentences candidates"], is_eos: Bool[Tensor, "sentences candidates"], beam: int
) -> Int[Tensor, "sentences candidates"]:
    """Each candidate's outcome: ``DROPPED``, ``LIVE`` or ``FINISHED``."""
    ranks = live_ranks(is_eos, beam)
    lives = torch.zeros_like(is_eos).scatter(1, ranks, True) & ~is_eos
    found = torch.where(lives, LIVE, DROPPED)
    found[:, :beam][is_eos[:, :beam]] = FINISHED
    return found.masked_fill(ranking == -math.inf, DROPPED)


def top_k(values: Float[Tensor, "rows n"], count: int) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """Each row's ``count`` greatest, in order, and their indices, by blocks with great maxima.

    ``torch.topk`` would sort whole rows.
    """
    rows, n = values.shape
    whole = n - n % _BLOCK
    if whole // _BLOCK <= 2 * count:
        found = values.topk(min(count, n), dim=1)
        return found.values, found.indices
    blocks = values[:, :whole].view(rows, -1, _BLOCK)
    chosen = blocks.amax(dim=2).topk(count, dim=1).indices
    within = torch.arange(_BLOCK, device=values.device)
    indices = torch.cat(
        [
            (chosen[:, :, None] * _BLOCK + within).flatten(1),
            torch.arange(whole, n, device=values.device).expand(rows, -1),
        ],
        dim=1,
    )
    found = values.gather(1, indices).topk(count, dim=1)
    return found.values, indices.gather(1, found.indices)


def top_k_of_beams(
    ranking: Float[Tensor, "sentences beam"], log_probs: Float[Tensor, "sentences beam vocab"], count: int
) -> Int[Tensor, "sentences best"]:
    """Indices into beam · vocab of the ``count`` greatest sums."""
    sentences, beam, vocab = log_probs.shape
    values, ids = top_k(log_probs.flatten(0, 1), min(count, vocab))
    sums = ranking[:, :, None] + values.view(sentences, beam, -1)
    found = sums.flatten(1).topk(min(count, sums[0].numel()), dim=1).indices
    indices = torch.arange(beam, device=ids.device)[:, None] * vocab + ids.view(sentences, beam, -1)
    return indices.flatten(1).gather(1, found)
