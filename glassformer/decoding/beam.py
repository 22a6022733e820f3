"""Where a beam search stands: its living and ended hypotheses, and the continuations that it chooses from.

Frozen, and all sentences of a batch at once. What only some searches need is None in the others: ``sums`` where no
rule tells what ranks from what the model says, ``covered`` where no score asks for it. Knows nothing of models.

The choice of a step: which continuations of the living hypotheses are looked at, in which order, and their fates.

By their sums alone; or, where sequences are required, by banks; or, in a diverse search, group after group, each
away from what the groups before it chose. Diverse beam search is Vijayakumar et al. 2016 (arXiv 1610.02424) with
their Hamming diversity: at each step λ is subtracted for each time that an earlier group of the sentence chose the
token at this step. What is subtracted decides this choice alone; sums and scores stay what the model and the rules
make them. Knows nothing of models.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding.candidates import best_of_beams, length_penalty
from glassformer.decoding.constraints import Demanded, banked
from glassformer.decoding.filters import has_rules, ruled
from glassformer.trace import note

_STATE_AXES = {
    "sentences": "batch", "limits": "batch", "last_penalty": "batch", "ids": "batch beam tgt",
    "log_probs": "batch beam", "ended": "batch", "ended_ids": "batch n_best tgt",
    "ended_log_probs": "batch n_best", "ended_scores": "batch n_best", "sums": "batch beam",
    "covered": "batch beam src",
}  # fmt: skip

DROPPED, LIVES, ENDS = range(3)


@dataclass(frozen=True)
class SearchState:
    """The hypotheses of the sentences that are not done, after ``step`` generated ids (bos is none of them).

    In a diverse search each group of a sentence is searched as a sentence is, and ``sentences`` counts groups.
    Places without a hypothesis have log_prob and score -inf.
    """

    sentences: Tensor  # (sentences)              the source's row in the batch, or row · groups + group
    limits: Tensor  # (sentences)                 most ids, eos included
    last_penalty: Tensor  # (sentences)           the length penalty at that limit
    ids: Tensor  # (sentences beam step)          living hypotheses, best first
    log_probs: Tensor  # (sentences beam)         by the model's own distribution
    ended: Tensor  # (sentences)                  how many have ended so far, kept below or not
    ended_ids: Tensor  # (sentences n_best step)  the best of them, best first, padded behind eos
    ended_log_probs: Tensor  # (sentences n_best)
    ended_scores: Tensor  # (sentences n_best)
    sums: Tensor | None = None  # (sentences beam)         of the log-probabilities that the rules left; ranks
    covered: Tensor | None = None  # (sentences beam src)  attention that each source position has had; padding 1

    @property
    def step(self) -> int:
        """Ids that each living hypothesis has."""
        return self.ids.shape[2]

    @property
    def ranking(self) -> Float[Tensor, "sentences beam"]:
        """The sums by which hypotheses are ranked."""
        return self.log_probs if self.sums is None else self.sums

    def select(self, keep: Int[Tensor, "kept"]) -> Self:
        """The state of some of the sentences."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(
            self, **{name: value.index_select(0, keep) for name, value in values.items() if value is not None}
        )

    def note(self) -> None:
        """Show in a trace where the search stands."""
        for name, axes in _STATE_AXES.items():
            value = getattr(self, name)
            if value is not None:
                note(f"search.{name}", value, axes)


def closed_up(living: Bool[Tensor, "sentences"]) -> Int[Tensor, "kept"]:
    """The sentences that live on; the last take the places of others, so that as few as can be are moved."""
    places = living.nonzero().flatten()
    kept = torch.arange(len(places), device=living.device)
    free = (~living[: len(places)]).nonzero().flatten()
    kept[free] = places[len(places) - len(free) :]
    return kept


def start(
    limits: Sequence[int],
    options: DecodeConfig,
    device: torch.device,
    *,
    has_sums: bool = False,
    covered: Float[Tensor, "sentences src"] | None = None,
) -> SearchState:
    """One living hypothesis for each sentence, which is empty and certain; none has ended."""
    batch = len(limits)
    penalties = [length_penalty(limit, options.length_penalty) for limit in limits]
    nothing = torch.full((batch, options.n_best), -math.inf, device=device)
    return SearchState(
        sentences=torch.arange(batch, device=device),
        limits=torch.tensor(limits, dtype=torch.int64, device=device),
        last_penalty=torch.tensor(penalties, dtype=torch.float32, device=device),
        ids=torch.empty(batch, 1, 0, dtype=torch.int64, device=device),
        log_probs=torch.zeros(batch, 1, device=device),
        ended=torch.zeros(batch, dtype=torch.int64, device=device),
        ended_ids=torch.empty(batch, options.n_best, 0, dtype=torch.int64, device=device),
        ended_log_probs=nothing,
        ended_scores=nothing,
        sums=torch.zeros(batch, 1, device=device) if has_sums else None,
        covered=None if covered is None else covered[:, None],
    )


@dataclass(frozen=True)
class Continuations:
    """The continuations that are looked at, in the order in which they take places: from which, with which id."""

    log_probs: Tensor  # (sentences candidates)
    parents: Tensor  # (sentences candidates)     place in the beam before
    ids: Tensor  # (sentences candidates)
    sums: Tensor | None = None  # (sentences candidates)  as in the state
    keys: Tensor | None = None  # (sentences candidates)  by which they were ordered, where it is not by sums

    @property
    def ranking(self) -> Float[Tensor, "sentences candidates"]:
        """The sums by which they are ranked; -inf where there is none."""
        return self.log_probs if self.sums is None else self.sums

    def at(self, ranks: Int[Tensor, "sentences chosen"]) -> Self:
        """Those at the given ranks of each sentence."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value.gather(1, ranks) for name, value in values.items() if value is not None})

    def note(self) -> None:
        """Show them in a trace."""
        for name in ("keys", "sums", "log_probs", "parents", "ids"):
            value = getattr(self, name)
            if value is not None:
                note(f"search.candidate_{name}", value, "batch candidate")

    def prefixed(self, prefixes: Int[Tensor, "sentences beam step"]) -> Int[Tensor, "sentences candidates longer"]:
        """All ids of each: those of its parent, and its own."""
        index = self.parents[:, :, None].expand(-1, -1, prefixes.shape[2])
        return torch.cat([prefixes.gather(1, index), self.ids[:, :, None]], dim=2)


@dataclass(frozen=True)
class Plan:
    """What stays the same from step to step: the options of one group, and what is demanded of each sentence."""

    options: DecodeConfig
    config: ModelConfig
    groups: int
    demanded: Demanded | None

    @classmethod
    def of(cls, options: DecodeConfig, config: ModelConfig, demanded: Demanded | None) -> Self:
        """A diverse search keeps all that ends in each group, so that what is asked of it changes no choice."""
        groups = options.beam_groups
        if groups > 1:
            beam = options.beam // groups
            options = replace(options, beam=beam, n_best=beam, beam_groups=1)
        return cls(options, config, groups, demanded)

    @property
    def has_rules(self) -> bool:
        """Whether what ranks is not what the model says."""
        return has_rules(self.options, self.demanded)

    @property
    def requires(self) -> bool:
        """Whether sequences must occur in some output."""
        return self.demanded is not None and self.demanded.required.numel() > 0

    def demanded_of(self, state: SearchState) -> Demanded | None:
        """What is demanded, a row for each sentence of the state."""
        return None if self.demanded is None else self.demanded.select(state.sentences // self.groups)


@dataclass(frozen=True)
class Said:
    """What is said of the next ids: by the model, by the rules where there are any, and where it was looked."""

    log_probs: Tensor  # (sentences beam vocab)
    ruled: Tensor | None = None  # (sentences beam vocab)
    attention: Tensor | None = None  # (sentences beam src)

    @classmethod
    def at(cls, state: SearchState, log_probs: Tensor, attention: Tensor | None, plan: Plan) -> Self:
        """From what the decoder gives for the rows of the state."""
        shape = state.log_probs.shape
        left = None
        if plan.has_rules:
            left = rules_leave(log_probs, state, plan)
            note("search.ruled_log_probs", left, "batch vocab")
        return cls(
            log_probs.view(*shape, -1),
            None if left is None else left.view(*shape, -1),
            None if attention is None else attention.view(*shape, -1),
        )


def rules_leave(log_probs: Float[Tensor, "rows vocab"], state: SearchState, plan: Plan) -> Tensor:
    """What the rules make of the model's distributions, a row for each living hypothesis."""
    demanded, places = plan.demanded_of(state), state.ids.shape[1]
    if demanded is not None:
        rows = torch.arange(len(log_probs), device=log_probs.device) // places
        demanded = demanded.select(rows)
    return ruled(log_probs, state.ids.flatten(0, 1), plan.options, demanded, plan.config)


def continuations(state: SearchState, said: Said, plan: Plan) -> Continuations:
    """The ``2 beam`` continuations of each sentence that are looked at, or all where there are fewer."""
    left, keys = said.log_probs if said.ruled is None else said.ruled, None
    if plan.groups == 1 and not plan.requires:
        index = best_of_beams(state.ranking, left, 2 * plan.options.beam)
    elif plan.groups == 1:
        index = _in_order(state.ranking[:, :, None] + left, state, plan)
    else:
        keys, index = _group_after_group(state.ranking[:, :, None] + left, state, plan)
    return _taken(state, said, index, keys)


def _taken(state: SearchState, said: Said, index: Tensor, keys: Tensor | None) -> Continuations:
    """The continuations at places in beam · vocab."""
    vocab = said.log_probs.shape[2]
    parents = index // vocab
    return Continuations(
        log_probs=state.log_probs.gather(1, parents) + said.log_probs.flatten(1).gather(1, index),
        parents=parents,
        ids=index % vocab,
        sums=None
        if said.ruled is None
        else state.ranking.gather(1, parents) + said.ruled.flatten(1).gather(1, index),
        keys=keys,
    )


def _in_order(keys: Tensor, state: SearchState, plan: Plan) -> Int[Tensor, "sentences candidates"]:
    """The places in beam · vocab of the continuations to look at."""
    demanded, beam = plan.demanded_of(state), plan.options.beam
    if demanded is not None and demanded.required.numel():
        return banked(keys, state.ids, demanded.required, plan.config.pad_id, beam)
    flat = keys.flatten(1)
    return flat.topk(min(2 * beam, flat.shape[1]), dim=1).indices


def _group_after_group(sums: Tensor, state: SearchState, plan: Plan) -> tuple[Tensor, Tensor]:
    """The keys and the places of all groups, each less what the groups before it chose."""
    vocab, beam = sums.shape[2], plan.options.beam
    chosen = sums.new_zeros(int(state.sentences.max()) // plan.groups + 1, vocab)
    index = torch.empty(len(sums), min(2 * beam, sums[0].numel()), dtype=torch.int64, device=sums.device)
    keys = sums.new_empty(index.shape)
    for group in range(plan.groups):
        rows = (state.sentences % plan.groups == group).nonzero().flatten()
        of_sentence = state.sentences[rows] // plan.groups
        lessened = sums[rows] - plan.options.diversity * chosen[of_sentence][:, None]
        places = _in_order(lessened, state.select(rows), plan)
        found = lessened.flatten(1).gather(1, places)
        index[rows], keys[rows] = places, found
        is_chosen = outcomes(found, places % vocab == plan.config.eos_id, beam) > DROPPED
        chosen.index_put_((of_sentence[:, None], places % vocab), is_chosen.to(sums.dtype), accumulate=True)
    return keys, index


def living_ranks(is_eos: Bool[Tensor, "sentences candidates"], beam: int) -> Int[Tensor, "sentences new_beam"]:
    """The first ``beam`` continuations that do not end; with places of others behind them where there are fewer.

    At most one continuation of each parent is eos, so that the first two beams hold a beam of others.
    """
    return is_eos.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]


def outcomes(
    ranking: Float[Tensor, "sentences candidates"], is_eos: Bool[Tensor, "sentences candidates"], beam: int
) -> Int[Tensor, "sentences candidates"]:
    """What becomes of each continuation: ``DROPPED``, ``LIVES`` or ``ENDS``."""
    ranks = living_ranks(is_eos, beam)
    lives = torch.zeros_like(is_eos).scatter(1, ranks, True) & ~is_eos
    found = torch.where(lives, LIVES, DROPPED)
    found[:, :beam][is_eos[:, :beam]] = ENDS
    return found.masked_fill(ranking == -math.inf, DROPPED)


def note_choice(best: Continuations, is_eos: Tensor, beam: int) -> None:
    """Show in a trace what was looked at, and what became of it."""
    best.note()
    note("search.candidate_outcomes", lambda: outcomes(best.ranking, is_eos, beam), "batch candidate")
