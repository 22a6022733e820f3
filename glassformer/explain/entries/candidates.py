"""The taps of the candidates of a search step: the best continuations, their order, and what becomes of each.

Stated anew from the recorded state; only where a beam is divided among required sequences, the search's own function
is repeated. Section 6.1.
"""

import math
from dataclasses import fields

import torch
from torch import Tensor

from glassformer.decoding.search.beam import (
    DROPPED,
    FINISHED,
    LIVE,
    Continuations,
    NextLogProbs,
    Plan,
    SearchState,
    expand_beam,
)
from glassformer.decoding.search.constraints import ConstraintBatch
from glassformer.explain.entries.entry import Compute, Entries, TapEntry
from glassformer.explain.entries.scope import (
    Scope,
    by_hypothesis,
    has_rules,
    hypothesis_ranking,
    state_before,
)

_NOT_IN_PAPER = "not in the paper"


def _candidate_places(scope: Scope) -> Tensor | None:
    """Places in beam · vocab of the 2 · beam best sums; among equal sums, those that the search took.

    None where sequences are required: the beam is then divided among them.
    """
    step = scope.step.call
    if scope.has("search.required_ids") and scope.at_call("search.required_ids", 0).numel():
        return None
    keys = _all_sums(scope).flatten(1)
    parents, ids = (scope.at_call(f"search.candidate_{name}", step) for name in ("parents", "ids"))
    best = keys.topk(min(2 * scope.context.decode.beam, keys.shape[1]), dim=1)
    taken = parents * scope.config.tgt_vocab + ids
    if taken.shape != best.indices.shape:
        return best.indices
    return torch.where(keys.gather(1, taken) == best.values, taken, best.indices)


def _all_sums(scope: Scope) -> Tensor:
    """The sum of each continuation of each hypothesis, (sentences beam vocab)."""
    name, step = "processed_log_probs" if has_rules(scope) else "next_log_probs", scope.step.call
    return hypothesis_ranking(scope, step)[:, :, None] + by_hypothesis(scope, name, step)


def _candidate(name: str) -> Compute:
    def equation(scope: Scope) -> Tensor | None:
        """One field of the candidates, at the places of the best sums."""
        places, vocab = _candidate_places(scope), scope.config.tgt_vocab
        if places is None:
            return None
        if name == "sums":
            return _all_sums(scope).flatten(1).gather(1, places)
        if name == "log_probs":
            own = by_hypothesis(scope, "next_log_probs", scope.step.call).flatten(1).gather(1, places)
            return state_before(scope, "log_probs", scope.step.call).gather(1, places // vocab) + own
        return places // vocab if name == "parents" else places % vocab

    return equation


def _repeated_candidate(name: str) -> Compute:
    return lambda scope: getattr(_repeated_candidates(scope), name)


def _repeated_candidates(scope: Scope) -> Continuations:
    """The candidates by the search's own function, from the recorded state."""
    step = scope.step.call
    prefixes, required, banned = (
        scope.at_call(f"search.{name}", 0) for name in ("prefix_ids", "required_ids", "banned_ids")
    )
    plan = Plan(scope.context.decode, scope.config, ConstraintBatch(prefixes, required, banned))
    absent = () if scope.context.decode.coverage_penalty else ("covered",)
    names = [field.name for field in fields(SearchState) if field.name not in absent]
    state = SearchState(**{name: state_before(scope, name, step) for name in names})
    own, processed = (by_hypothesis(scope, name, step) for name in ("next_log_probs", "processed_log_probs"))
    return expand_beam(state, NextLogProbs(own, processed), plan)


def candidate_ranking(scope: Scope, step: int) -> Tensor:
    """The sums by which the candidates of a step are ranked."""
    return scope.at_call("search.candidate_sums" if has_rules(scope) else "search.candidate_log_probs", step)


def is_eos(scope: Scope, step: int) -> Tensor:
    """Which candidates append </s>."""
    return scope.at_call("search.candidate_ids", step) == scope.config.eos_id


def _outcomes(scope: Scope) -> Tensor:
    """A candidate ends if it is </s> among the first beam, lives if it is in the first beam of the others."""
    step, beam = scope.step.call, scope.context.decode.beam
    ends = is_eos(scope, step)
    lives = ~ends & ((~ends).cumsum(dim=1) <= beam)
    ends &= torch.arange(ends.shape[1], device=ends.device) < beam
    outcomes = torch.where(lives, LIVE, torch.where(ends, FINISHED, DROPPED))
    return outcomes.masked_fill(candidate_ranking(scope, step) == -math.inf, DROPPED)


CANDIDATES: Entries = {
    "search": {
        "candidate_log_probs": TapEntry(
            "Best continuations",
            "The sums, by the model alone, of the 2·beam best continuations of all living hypotheses.",
            "top-k (log P(past) + log P(next))",
            "6.1",
            compute=_candidate("log_probs"), repeat=_repeated_candidate("log_probs"),
        ),
        "candidate_parents": TapEntry(
            "Their parents", "The living hypothesis that each one continues.", "⌊index / vocab⌋", "6.1",
            compute=_candidate("parents"), repeat=_repeated_candidate("parents"),
        ),
        "candidate_ids": TapEntry(
            "Their tokens", "The token that each one appends.", "index mod vocab", "6.1",
            compute=_candidate("ids"), repeat=_repeated_candidate("ids"),
        ),
        "candidate_sums": TapEntry(
            "Their sums",
            "The sums after the rules: these rank the continuations, not the model's own.",
            "Σ log P′",
            _NOT_IN_PAPER,
            compute=_candidate("sums"), repeat=_repeated_candidate("sums"),
        ),
        "candidate_outcomes": TapEntry(
            "What became of them",
            "0 is dropped, 1 lives (of those that do not end, the first beam), 2 ends (</s> among the first beam).",
            "0, 1 or 2",
            "6.1",
            compute=_outcomes,
        ),
    }
}  # fmt: skip
