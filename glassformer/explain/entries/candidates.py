"""The taps of the candidates of a search step: the best continuations, their order, and what becomes of each.

Stated anew from the recorded state; only where a beam is divided among required sequences, the search's own function
is repeated. Section 6.1.
"""

import math
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from glassformer.decoding.search.beam import (
    DROPPED,
    FINISHED,
    LIVE,
    NextLogProbs,
    Plan,
    SearchState,
    expand_beam,
)
from glassformer.decoding.search.constraints import ConstraintBatch
from glassformer.explain.entries.entry import add, entry
from glassformer.explain.entries.scope import Scope, by_hypothesis, has_rules, state_before

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
    past, next_one = ("sums", "processed_log_probs") if has_rules(scope) else ("log_probs", "next_log_probs")
    step = scope.step.call
    return state_before(scope, past, step)[:, :, None] + by_hypothesis(scope, next_one, step)


def _candidate(scope: Scope) -> Tensor | None:
    """One field of the candidates, at the places of the best sums."""
    places, vocab, name = _candidate_places(scope), scope.config.tgt_vocab, scope.step.name
    if places is None:
        return None
    if name == "candidate_sums":
        return _all_sums(scope).flatten(1).gather(1, places)
    if name == "candidate_log_probs":
        own = by_hypothesis(scope, "next_log_probs", scope.step.call).flatten(1).gather(1, places)
        return state_before(scope, "log_probs", scope.step.call).gather(1, places // vocab) + own
    return places // vocab if name == "candidate_parents" else places % vocab


def _repeated_candidate(scope: Scope) -> Tensor:
    """One field of the candidates by the search's own function, from the recorded state."""
    step = scope.step.call
    prefixes, required, banned = (
        scope.at_call(f"search.{name}", 0) for name in ("prefix_ids", "required_ids", "banned_ids")
    )
    plan = Plan(scope.context.decode, scope.config, ConstraintBatch(prefixes, required, banned))
    absent = () if scope.context.decode.coverage_penalty else ("covered",)
    names = [field.name for field in fields(SearchState) if field.name not in absent]
    state = SearchState(**{name: state_before(scope, name, step) for name in names})
    own, processed = (by_hypothesis(scope, name, step) for name in ("next_log_probs", "processed_log_probs"))
    found = expand_beam(state, NextLogProbs(own, processed), plan)
    value: Tensor = getattr(found, scope.step.name.removeprefix("candidate_"))
    return value


def candidate_ranking(scope: Scope, step: int) -> Tensor:
    """The sums by which the candidates of a step are ranked."""
    return scope.at_call("search.candidate_sums" if has_rules(scope) else "search.candidate_log_probs", step)


def is_eos(scope: Scope, step: int) -> Tensor:
    """Which candidates append </s>."""
    return scope.at_call("search.candidate_ids", step) == scope.config.eos_id


_CHECKED: dict[str, Any] = {"compute": _candidate, "repeat": _repeated_candidate}
_BEST = "The sums, by the model alone, of the 2·beam best continuations of all living hypotheses."
_TOP = "top-k (log P(past) + log P(next))"
add("search.candidate_log_probs", "Best continuations", _BEST, _TOP, "6.1", **_CHECKED)
_PARENT = "The living hypothesis that each one continues."
add("search.candidate_parents", "Their parents", _PARENT, "⌊index / vocab⌋", "6.1", **_CHECKED)
add("search.candidate_ids", "Their tokens", "The token that each one appends.", "index mod vocab", "6.1", **_CHECKED)
_RANKING = "The sums after the rules: these rank the continuations, not the model's own."
add("search.candidate_sums", "Their sums", _RANKING, "Σ log P′", _NOT_IN_PAPER, **_CHECKED)


@entry("search.candidate_outcomes", "What became of them", "0, 1 or 2", "6.1")
def _outcomes(scope: Scope) -> Tensor:
    """0 is dropped, 1 lives (of those that do not end, the first beam), 2 ends (</s> among the first beam)."""
    step, beam = scope.step.call, scope.context.decode.beam
    ends = is_eos(scope, step)
    lives = ~ends & ((~ends).cumsum(dim=1) <= beam)
    ends &= torch.arange(ends.shape[1], device=ends.device) < beam
    outcomes = torch.where(lives, LIVE, torch.where(ends, FINISHED, DROPPED))
    return outcomes.masked_fill(candidate_ranking(scope, step) == -math.inf, DROPPED)
