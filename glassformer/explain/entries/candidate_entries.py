"""The taps of a search step's candidates. Section 6.1; Post and Vilar 2018."""

import math
from collections import Counter

import torch
from torch import Tensor

from glassformer.decoding.search.beam import DROPPED, FINISHED, LIVE
from glassformer.explain.entries.entry import NOT_IN_PAPER, add, entry
from glassformer.explain.entries.rule_entries import Form, occurs, required_forms
from glassformer.explain.entries.scope import Scope, by_hypothesis, has_rules, state_before


def _candidate_places(scope: Scope) -> Tensor:
    """Places in beam · vocab of the 2 · beam candidates; of equal sums, the search's."""
    step, keys = scope.step.call, _all_sums(scope)
    count = min(2 * scope.context.decode.beam, keys[0].numel())
    if scope.has("search.required_ids") and scope.at_call("search.required_ids", 0).numel():
        best = _divided_places(scope, keys, count)
    else:
        best = keys.flatten(1).topk(count, dim=1).indices
    parents, ids = (scope.at_call(f"search.candidate_{name}", step) for name in ("parents", "ids"))
    taken, keys = parents * scope.config.tgt_vocab + ids, keys.flatten(1)
    if taken.shape != best.shape:
        return best
    return torch.where(keys.gather(1, taken) == keys.gather(1, best), taken, best)


def _divided_places(scope: Scope, keys: Tensor, count: int) -> Tensor:
    """The same where a beam is divided among banks of required ids."""
    step = scope.step.call
    written, sources = (state_before(scope, name, step).tolist() for name in ("ids", "sentences"))
    rows = [
        _divide(of_source, ids, required_forms(scope, source), count, scope.context.decode.beam)
        for of_source, ids, source in zip(keys, written, sources, strict=True)
    ]
    return torch.tensor(rows, device=keys.device)


def _divide(keys: Tensor, written: list[list[int]], required: list[Form], count: int, beam: int) -> list[int]:
    """First the best of the highest bank, then each bank's share, then the others."""
    vocab, sums = keys.shape[1], keys.flatten().tolist()
    pool = keys.flatten().topk(count).indices.tolist()
    for slot, ids in enumerate(written):
        further = [_next_id(phrase, start, ids) for phrase, start in required if not occurs(phrase, start, ids)]
        pool += [slot * vocab + new for new in (int(keys[slot].argmax()), *further)]
    pool = sorted(dict.fromkeys(pool), key=lambda place: -sums[place])
    banks = {place: _bank([*written[place // vocab], place % vocab], required) for place in pool}
    highest = max((banks[place] for place in pool if sums[place] > -math.inf), default=0)
    room, turns, taken = beam // (sum(len(phrase) for phrase, _ in required) + 1), dict[int, int](), Counter[int]()
    for place in pool:
        rank = taken[banks[place]]
        taken[banks[place]] += 1
        is_first = bool(required) and rank == 0 and banks[place] == highest
        turns[place] = 3 if sums[place] == -math.inf else 0 if is_first else 1 if rank < room else 2
    return sorted(pool, key=turns.__getitem__)[:count]


def _bank(ids: list[int], required: list[Form]) -> int:
    """How many required ids occur; of an incomplete sequence those at the end."""
    unmet = [form for form in required if not occurs(*form, ids)]
    met = sum(len(phrase) for phrase, _ in required) - sum(len(phrase) for phrase, _ in unmet)
    return met + max((_matching_length(phrase, start, ids) for phrase, start in unmet), default=0)


def _matching_length(phrase: list[int], start: list[int], ids: list[int]) -> int:
    """The length of the longest prefix of ``phrase`` with which ``ids`` end; they may be a part of ``start``."""
    begun = min(len(ids), len(phrase) - 1) if ids == start[: len(ids)] else 0
    return max(begun, *(n for n in range(min(len(phrase), len(ids)) + 1) if ids[len(ids) - n :] == phrase[:n]))


def _next_id(phrase: list[int], start: list[int], ids: list[int]) -> int:
    """What goes on with an incomplete sequence."""
    return start[len(ids)] if ids == start[: len(ids)] else phrase[_matching_length(phrase, start, ids)]


def _all_sums(scope: Scope) -> Tensor:
    """The sum of each continuation, (sentences beam vocab)."""
    past, next_one = ("sums", "processed_log_probs") if has_rules(scope) else ("log_probs", "next_log_probs")
    step = scope.step.call
    return state_before(scope, past, step)[:, :, None] + by_hypothesis(scope, next_one, step)


def _candidate(scope: Scope) -> Tensor:
    places, vocab, name = _candidate_places(scope), scope.config.tgt_vocab, scope.step.name
    if name == "candidate_sums":
        return _without_late(scope, _all_sums(scope).flatten(1).gather(1, places))
    if name == "candidate_log_probs":
        own = by_hypothesis(scope, "next_log_probs", scope.step.call).flatten(1).gather(1, places)
        return _without_late(
            scope, state_before(scope, "log_probs", scope.step.call).gather(1, places // vocab) + own
        )
    return places // vocab if name == "candidate_parents" else places % vocab


def _without_late(scope: Scope, sums: Tensor) -> Tensor:
    """−∞ for candidates behind the width of a beam that shrinks with each hypothesis that has finished."""
    options = scope.context.decode
    if options.early_stopping != "shrink":
        return sums
    width = options.beam - state_before(scope, "finished", scope.step.call)
    return sums.masked_fill(torch.arange(sums.shape[1], device=sums.device) >= width[:, None], -math.inf)


def candidate_ranking(scope: Scope, step: int) -> Tensor:
    """The sums by which the candidates of a step are ranked."""
    return scope.at_call("search.candidate_sums" if has_rules(scope) else "search.candidate_log_probs", step)


def is_eos(scope: Scope, step: int) -> Tensor:
    """Which candidates append </s>."""
    return scope.at_call("search.candidate_ids", step) == scope.config.eos_id


_BEST = "The sums, by the model alone, of the 2·beam best continuations of all living hypotheses."
_TOP = "top-k (log P(past) + log P(next))"
add("search.candidate_log_probs", "Best continuations", _BEST, _TOP, "6.1", compute=_candidate)
_PARENT = "The living hypothesis that each one continues."
add("search.candidate_parents", "Their parents", _PARENT, "⌊index / vocab⌋", "6.1", compute=_candidate)
_TOKEN = "The token that each one appends."
add("search.candidate_ids", "Their tokens", _TOKEN, "index mod vocab", "6.1", compute=_candidate)
_RANKING = "The sums after the rules: these rank the continuations, not the model's own."
add("search.candidate_sums", "Their sums", _RANKING, "Σ log P′", NOT_IN_PAPER, compute=_candidate)


@entry("search.candidate_outcomes", "What became of them", "0, 1 or 2", "6.1")
def _outcomes(scope: Scope) -> Tensor:
    """0 is dropped, 1 lives (of those that do not end, the first beam), 2 ends (</s> among the first beam)."""
    step, beam = scope.step.call, scope.context.decode.beam
    ends = is_eos(scope, step)
    lives = ~ends & ((~ends).cumsum(dim=1) <= beam)
    ends &= torch.arange(ends.shape[1], device=ends.device) < beam
    outcomes = torch.where(lives, LIVE, torch.where(ends, FINISHED, DROPPED))
    return outcomes.masked_fill(candidate_ranking(scope, step) == -math.inf, DROPPED)
