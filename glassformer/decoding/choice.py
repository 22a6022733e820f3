"""The choice of a step: which continuations of the living hypotheses are looked at, in which order, and their fates.

By their sums alone; or, where sequences are required, by banks; or, in a diverse search, group after group, each
away from what the groups before it chose. Diverse beam search is Vijayakumar et al. 2016 (arXiv 1610.02424) with
their Hamming diversity: at each step λ is subtracted for each time that an earlier group of the sentence chose the
token at this step. What is subtracted decides this choice alone; sums and scores stay what the model and the rules
make them. Knows nothing of models.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding.best import best_of_beams
from glassformer.decoding.constraints import banked
from glassformer.decoding.demands import Demanded
from glassformer.decoding.rules import has_rules, ruled
from glassformer.decoding.states import DROPPED, ENDS, LIVES, Continuations, SearchState
from glassformer.trace import note


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
