"""Beam search: pure functions over a frozen state, all sentences of a batch at once. Section 6.1 of the paper.

At each step the ``2 beam`` best continuations of a sentence are looked at. Those among the first ``beam`` that
end with eos have ended for good; the best ``beam`` of the others live on. A sentence is done when

- ``beam`` hypotheses have ended (so beam 1 is greedy search), or
- no living one can still be among the ``n_best``. This loses nothing: a score is sum / penalty(length) + coverage.
  The sum only falls, because a log-probability is at most 0 and no rule raises one; the penalty only grows with
  length (α >= 0); and the coverage penalty is at most 0, as the logarithm of what is at most 1 (β >= 0). So
  sum / penalty(limit) bounds what a living hypothesis may come to. Or
- its limit is reached, or nothing lives. What then lives is cut short, and fills the places that ended ones left.

Rules, demands and groups change what is looked at and in which order (``choice``), and nothing of the above. The
sum is that of the log-probabilities that the rules left; log_prob is by the model alone.

The search of one sentence depends on no other sentence of the batch, and its best hypothesis not on ``n_best``.
Equal candidates are taken as ``torch.topk`` takes them: by their own row alone. Knows nothing of text.

Coverage: how much of a source an output has looked at, and what it costs to have looked away.

Equation 14 of Wu et al. 2016 (arXiv 1609.08144), cp = β Σᵢ log(min(Σⱼ pᵢⱼ, 1)), where pᵢⱼ is what output id j gives
to source position i: of the last layer's cross-attention, the mean of its heads. The source's eos is a position too;
padding is none. Knows nothing of search.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.config import DecodeConfig
from glassformer.decoding.beam import (
    Continuations,
    Plan,
    Said,
    SearchState,
    closed_up,
    continuations,
    living_ranks,
    note_choice,
    start,
)
from glassformer.decoding.candidates import Candidate, finished, from_groups, length_penalty
from glassformer.decoding.constraints import Demanded, Demands
from glassformer.decoding.steps import AttendingSteps, Steps, attending
from glassformer.trace import note

# What float32 cannot tell from never looked at still has a logarithm, so that a score stays a number.
_LEAST = torch.finfo(torch.float32).tiny


def uncovered(source_mask: Bool[Tensor, "rows src"]) -> Float[Tensor, "rows src"]:
    """The attention that sources have had before the first id: none, and padding all that it needs."""
    return (~source_mask).float()


def coverage_penalty(covered: Float[Tensor, "... src"], beta: float) -> Float[Tensor, "..."]:
    """What is added to a score: 0 where every position has had its share, less where one has not."""
    return beta * covered.clamp(min=_LEAST, max=1.0).log().sum(dim=-1)


def beam_search(
    steps: Steps, limits: Sequence[int], options: DecodeConfig, demands: Sequence[Demands] | None = None
) -> list[list[Candidate]]:
    """The ``n_best`` candidates for each source: complete ones first, then those that leave least unmet; by score.

    ``steps`` stand at the start, with a row for each source; ``limits`` are the most ids, eos included, that each
    output may have, from 1 to the model's max_length; ``demands`` are one for each source. Fewer than ``n_best``
    come back where no more exist. Raises ``ConfigError`` when a coverage penalty is wanted of steps that do not
    tell where they look, ``InputError`` for demands that no output can meet.
    """
    return finished(beam_steps(steps, limits, options, demands))


def beam_steps(
    steps: Steps, limits: Sequence[int], options: DecodeConfig, demands: Sequence[Demands] | None = None
) -> Generator[SearchState, None, list[list[Candidate]]]:
    """``beam_search``, handing out the state after each step, in which those that are done are still there."""
    demanded = Demanded.of(demands, len(limits), steps.config, steps.device)
    plan = Plan.of(options, steps.config, demanded)
    looks = attending(steps) if options.coverage_penalty > 0.0 else None
    state = _begun(steps, looks, limits, plan)
    last_ids = torch.full_like(state.sentences, steps.config.bos_id)
    found: list[list[Candidate]] = [[] for _ in range(len(limits) * plan.groups)]
    while len(state.sentences):
        log_probs = steps.next_log_probs(last_ids)
        said = Said.at(state, log_probs, None if looks is None else looks.attention(), plan)
        state, rows = advance(state, said, plan)
        state.note()
        yield state
        done = is_done(state, plan.options)
        note("search.done", done, "batch")
        some_done = bool(done.any())
        if some_done:
            for place in done.nonzero().flatten().tolist():
                found[int(state.sentences[place])] = _results(state, place, plan)
            keep = closed_up(~done) if steps.fills_gaps else (~done).nonzero().flatten()
            state, rows = state.select(keep), rows.index_select(0, keep)
        if some_done or rows.numel() != len(last_ids):
            steps.select(rows.flatten())
        elif plan.options.beam > 1:
            steps.exchange(rows.flatten())
        last_ids = state.ids[:, :, -1].flatten()
    return _of_sources(found, plan.groups, options.n_best, demands)


def _begun(steps: Steps, looks: AttendingSteps | None, limits: Sequence[int], plan: Plan) -> SearchState:
    """The first state, and the decoder's rows for it: one for each source, or for each of its groups."""
    if plan.demanded is not None:
        plan.demanded.note()
    sources = torch.arange(len(limits), device=steps.device).repeat_interleave(plan.groups)
    covered = None if looks is None else uncovered(looks.source_mask).index_select(0, sources)
    row_limits = [limit for limit in limits for _ in range(plan.groups)]
    state = start(row_limits, plan.options, steps.device, has_sums=plan.has_rules, covered=covered)
    state.note()
    if plan.groups > 1:
        steps.select(sources)
    return state


def advance(state: SearchState, said: Said, plan: Plan) -> tuple[SearchState, Int[Tensor, "sentences new_beam"]]:
    """The state one id later, and the row of the step before that each living hypothesis continues."""
    best, beam = continuations(state, said, plan), plan.options.beam
    is_eos = best.ids == plan.config.eos_id
    note_choice(best, is_eos, beam)
    covered = None if state.covered is None or said.attention is None else state.covered + said.attention
    ranks = living_ranks(is_eos, beam)
    living, dead = best.at(ranks), is_eos.gather(1, ranks)
    if living.sums is not None:
        dead = dead | (living.sums == -math.inf)
    rows = torch.arange(len(living.parents), device=is_eos.device)[:, None] * state.ids.shape[1] + living.parents
    later = replace(
        _with_ended(state, best, is_eos, covered, plan.options),
        ids=living.prefixed(state.ids),
        log_probs=living.log_probs.masked_fill(dead, -math.inf),
        sums=None if living.sums is None else living.sums.masked_fill(dead, -math.inf),
        covered=None if covered is None else covered.flatten(0, 1)[rows],
    )
    return later, rows


def _with_ended(
    state: SearchState,
    best: Continuations,
    is_eos: Bool[Tensor, "sentences candidates"],
    covered: Tensor | None,
    options: DecodeConfig,
) -> SearchState:
    """The state whose ended hypotheses include those that end now; a column longer, as the living ones will be."""
    ending = is_eos & (best.ranking > -math.inf)
    ending[:, options.beam :] = False
    longer_ids = pad(state.ended_ids, (0, 1))
    if not ending.any():
        return replace(state, ended_ids=longer_ids)
    scores = best.ranking / length_penalty(state.step + 1, options.length_penalty)
    if covered is not None:
        scores = scores + coverage_penalty(covered, options.coverage_penalty).gather(1, best.parents)
    scores = scores.masked_fill(~ending, -math.inf)
    kept_scores, index = torch.cat([state.ended_scores, scores], dim=1).topk(options.n_best, dim=1)
    ids = torch.cat([longer_ids, best.prefixed(state.ids)], dim=1)
    log_probs = best.log_probs.masked_fill(~ending, -math.inf)
    return replace(
        state,
        ended=state.ended + ending.sum(dim=1),
        ended_ids=ids.gather(1, index[:, :, None].expand(-1, -1, ids.shape[2])),
        ended_log_probs=torch.cat([state.ended_log_probs, log_probs], dim=1).gather(1, index),
        ended_scores=kept_scores,
    )


def is_done(state: SearchState, options: DecodeConfig) -> Tensor:
    """Which sentences (sentences) need no further step; the module says why."""
    reachable = state.ranking.amax(dim=1) / state.last_penalty
    nothing_better = state.ended_scores[:, -1] >= reachable
    return nothing_better | (state.ended >= options.beam) | (state.step >= state.limits)


def _results(state: SearchState, place: int, plan: Plan) -> list[Candidate]:
    """What the sentence at ``place``, which is done, has come to: as many as there are, unsorted."""
    ended = zip(
        state.ended_ids[place].tolist(),
        state.ended_log_probs[place].tolist(),
        state.ended_scores[place].tolist(),
        strict=True,
    )
    candidates = [
        Candidate(ids[: ids.index(plan.config.eos_id) + 1], log_prob, score, truncated=False)
        for ids, log_prob, score in ended
        if score > -math.inf
    ]
    if len(candidates) < plan.options.n_best:
        candidates += _cut_short(state, place, plan.options)
    return candidates


def _cut_short(state: SearchState, place: int, options: DecodeConfig) -> list[Candidate]:
    """What lives of the sentence at ``place`` when it is done."""
    penalty, ranking = length_penalty(state.step, options.length_penalty), state.ranking[place]
    coverage = torch.zeros_like(ranking)
    if state.covered is not None:
        coverage = coverage_penalty(state.covered[place], options.coverage_penalty)
    living = zip(
        state.ids[place].tolist(), state.log_probs[place].tolist(), ranking.tolist(), coverage.tolist(), strict=True
    )
    return [Candidate(ids, log_prob, rank / penalty + more, truncated=True) for ids, log_prob, rank, more in living]


def _of_sources(
    found: Sequence[list[Candidate]], groups: int, n_best: int, demands: Sequence[Demands] | None
) -> list[list[Candidate]]:
    """The ``n_best`` of each source from what its groups found, and what of its demands each leaves unmet."""
    results = []
    for place, first in enumerate(range(0, len(found), groups)):
        of_groups = found[first : first + groups]
        if demands is not None:
            of_groups = [[_with_unmet(one, demands[place]) for one in group] for group in of_groups]
        results.append(from_groups(of_groups, n_best))
    return results


def _with_unmet(candidate: Candidate, demands: Demands) -> Candidate:
    return replace(candidate, unmet=demands.unmet(candidate.ids))
