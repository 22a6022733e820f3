"""Beam search: pure functions over a frozen state, for a whole batch. Section 6.1.

Each step considers the ``2 beam`` best candidates of a sentence. Of the first ``beam``, those that end with eos are
finished; the best ``beam`` of the others stay live. A sentence is done when

- ``beam`` hypotheses have finished (so beam 1 is greedy search), or
- no live one can still enter the ``n_best``: sum / penalty(limit) bounds its score, since log-probabilities and
  coverage penalty are at most 0 and the length penalty only grows, or
- its length limit is reached. Live ones are truncated, and rank after finished ones.

That is ``early_stopping`` "beam". The other two keep ``beam`` finished hypotheses, not ``n_best``, and drop the
first condition; "heuristic" takes live ones to end at their present length, as in Hugging Face.
With "shrink", as in Marian, each finished one makes the beam narrower, and the search ends when it is empty;
truncated ones compete by their scores.

Sums are of processed log-probabilities; log_prob is the model's own.
"""

import math
from collections.abc import Generator
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.decoding.search.beam import (
    Continuations,
    Plan,
    SearchState,
    expand_beam,
    fill_gaps,
    live_ranks,
    outcomes,
    process_beam,
    start_state,
)
from glassformer.decoding.search.constraints import ConstraintBatch
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output, rank_outputs, run_to_end
from glassformer.decoding.search.steps import Steps
from glassformer.settings import DecodeConfig
from glassformer.trace import note

# The smallest attention, so that scores stay finite.
_LEAST = torch.finfo(torch.float32).tiny


def coverage_penalty(covered: Float[Tensor, "... src"], beta: float) -> Float[Tensor, "..."]:
    """β Σᵢ log(min(Σⱼ pᵢⱼ, 1)), Wu et al. 2016 (arXiv 1609.08144), equation 14.

    pᵢⱼ: the last layer's mean attention of output id j to source position i.
    """
    return beta * covered.clamp(min=_LEAST, max=1.0).log().sum(dim=-1)


def beam_search(steps: Steps, job: SearchJob) -> list[list[Output]]:
    """The ``n_best`` candidates of each source, or as many as exist."""
    return run_to_end(beam_steps(steps, job))


def beam_steps(steps: Steps, job: SearchJob) -> Generator[SearchState, None, list[list[Output]]]:
    """``beam_search`` that yields each step's state, done sentences included."""
    plan = Plan(job.options, steps.config, ConstraintBatch.from_job(job, steps.config, steps.device))
    if plan.constraints is not None:
        plan.constraints.note()
    covered = (~steps.source_mask).float() if job.options.coverage_penalty > 0.0 else None  # padding needs nothing
    state = start_state(job.limits, plan, steps.device, covered)
    state.note()
    last_ids = torch.full_like(state.sentences, steps.config.bos_id)
    found: list[list[Output]] = [[] for _ in job.limits]
    while len(state.sentences):
        log_probs = steps.next_log_probs(last_ids)
        attention = None if state.covered is None else steps.attention()
        state, rows = advance(state, log_probs, attention, plan)
        state.note()
        yield state
        done = is_done(state, plan.options)
        note("search.done", done, "batch")
        some_done = bool(done.any())
        if some_done:
            ended = state.select(done.nonzero().flatten()).to_cpu()  # each look makes a GPU wait
            for place, sentence in enumerate(ended.sentences.tolist()):
                found[sentence] = _results(ended, place, plan)
            keep = fill_gaps(~done) if steps.fills_gaps else (~done).nonzero().flatten()
            state, rows = state.select(keep), rows.index_select(0, keep)
        same_sources = not some_done and rows.numel() == len(last_ids)
        if not same_sources or plan.options.beam > 1:
            steps.select(rows.flatten(), same_sources=same_sources)
        last_ids = state.ids[:, :, -1].flatten()
    if job.constraints is not None:
        found = [
            [replace(one, unmet=of_source.unmet(one.ids)) for one in candidates]
            for candidates, of_source in zip(found, job.constraints, strict=True)
        ]
    complete_first = job.options.early_stopping != "shrink"
    return [rank_outputs(candidates, job.options.n_best, complete_first=complete_first) for candidates in found]


def advance(
    state: SearchState, log_probs: Float[Tensor, "rows vocab"], attention: Tensor | None, plan: Plan
) -> tuple[SearchState, Int[Tensor, "sentences new_beam"]]:
    """The state after one more id, and each live hypothesis's previous row."""
    processed, beam = process_beam(state, log_probs, plan), plan.options.beam
    best = expand_beam(state, log_probs.view(*state.log_probs.shape, -1), processed, plan)
    if plan.options.early_stopping == "shrink":
        best = best.first(beam - state.finished)
    is_eos = best.ids == plan.config.eos_id
    best.note()
    note("search.candidate_outcomes", lambda: outcomes(best.ranking, is_eos, beam), "batch candidate")
    covered = state.covered
    if covered is not None and attention is not None:
        covered = covered + attention.view(*state.log_probs.shape, -1)
    ranks = live_ranks(is_eos, beam)
    live, finished = best.at(ranks), is_eos.gather(1, ranks)
    if live.sums is not None:
        finished = finished | (live.sums == -math.inf)
    rows = torch.arange(len(live.parents), device=is_eos.device)[:, None] * state.ids.shape[1] + live.parents
    later = replace(
        _add_finished(state, best, is_eos, covered, plan.options),
        ids=live.append_to(state.ids),
        log_probs=live.log_probs.masked_fill(finished, -math.inf),
        sums=None if live.sums is None else live.sums.masked_fill(finished, -math.inf),
        covered=None if covered is None else covered.flatten(0, 1)[rows],
    )
    return later, rows


def _add_finished(
    state: SearchState,
    best: Continuations,
    is_eos: Bool[Tensor, "sentences candidates"],
    covered: Tensor | None,
    options: DecodeConfig,
) -> SearchState:
    """The state with newly finished hypotheses."""
    finishes = is_eos & (best.ranking > -math.inf)
    finishes[:, options.beam :] = False
    longer_ids = pad(state.finished_ids, (0, 1))
    if finishes.device.type == "cpu" and not finishes.any():  # not on a GPU, which would wait
        return replace(state, finished_ids=longer_ids)
    scores = options.score(best.ranking, state.step + 1)
    if covered is not None:
        scores = scores + coverage_penalty(covered, options.coverage_penalty).gather(1, best.parents)
    scores = scores.masked_fill(~finishes, -math.inf)
    kept_scores, index = torch.cat([state.finished_scores, scores], dim=1).topk(options.pool, dim=1)
    ids = torch.cat([longer_ids, best.append_to(state.ids)], dim=1)
    log_probs = best.log_probs.masked_fill(~finishes, -math.inf)
    return replace(
        state,
        finished=state.finished + finishes.sum(dim=1),
        finished_ids=ids.gather(1, index[:, :, None].expand(-1, -1, ids.shape[2])),
        finished_log_probs=torch.cat([state.finished_log_probs, log_probs], dim=1).gather(1, index),
        finished_scores=kept_scores,
    )


def is_done(state: SearchState, options: DecodeConfig) -> Tensor:
    """Which sentences are done, by the module's conditions."""
    best = state.ranking.amax(dim=1)
    at_limit = state.step >= state.limits
    if options.early_stopping == "shrink":
        return (best == -math.inf) | at_limit
    if options.early_stopping == "heuristic" and options.beam > 1:
        now: float = options.penalty(state.step)
        return (state.finished_scores[:, -1] >= best / now) | at_limit
    nothing_better = state.finished_scores[:, -1] >= best / state.last_penalty
    if options.early_stopping == "never" and options.beam > 1:
        return nothing_better | at_limit
    return nothing_better | (state.finished >= options.beam) | at_limit


def _results(state: SearchState, place: int, plan: Plan) -> list[Output]:
    candidates, options = [], plan.options
    finished = (state.finished_ids[place], state.finished_log_probs[place], state.finished_scores[place])
    for ids, log_prob, score in zip(*(one.tolist() for one in finished), strict=True):
        if score > -math.inf:
            end = ids.index(plan.config.eos_id) + 1
            candidates.append(Output(ids[:end], log_prob, score, truncated=False))
    if len(candidates) < options.n_best or state.step >= int(state.limits[place]):
        scores = options.score(state.ranking[place].double(), state.step)
        if state.covered is not None:
            scores = scores + coverage_penalty(state.covered[place], options.coverage_penalty)
        live = (state.ids[place], state.log_probs[place], scores)
        for ids, log_prob, score in zip(*(one.tolist() for one in live), strict=True):
            candidates.append(Output(ids, log_prob, score, truncated=True))
    return candidates
