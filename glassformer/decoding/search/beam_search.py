"""Beam search: pure functions over a frozen state, all sentences of a batch at once. Section 6.1 of the paper.

At each step the ``2 beam`` best candidates of a sentence are considered. Those among the first ``beam`` that end with
eos are finished; the best ``beam`` of the others stay live. A sentence is done when

- ``beam`` hypotheses have finished (so beam 1 is greedy search), or
- no live one can still enter the ``n_best``. Log-probabilities are at most 0 and no filter raises one, the length
  penalty only grows, and the coverage penalty is at most 0: sum / penalty(limit) bounds what a live one can reach. Or
- its length limit is reached, or no hypothesis is live. Live ones are then truncated, and take the free places: none
  of them wins over a finished one, which says if the best of them was better.

That is ``early_stopping`` "beam". With the others, ``beam`` finished hypotheses are kept instead of ``n_best``, and
the first condition is dropped; with "heuristic" a live one is taken to end at its present length, as in Hugging Face.
With "shrink", as in Marian, each finished one makes the beam narrower, and the search ends when it is empty;
truncated ones compete by their scores.

Sums are of processed log-probabilities; log_prob is the model's own. The search of a sentence does not depend on the
other sentences of its batch, nor its best hypothesis on ``n_best``.

The coverage penalty is equation 14 of Wu et al. 2016 (arXiv 1609.08144), cp = β Σᵢ log(min(Σⱼ pᵢⱼ, 1)), where pᵢⱼ is
the attention of output id j to source position i, eos included: the mean of the heads of the last layer.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.decoding.search.beam import (
    Continuations,
    NextLogProbs,
    Plan,
    SearchState,
    expand_beam,
    fill_gaps,
    live_ranks,
    outcomes,
    start_state,
)
from glassformer.decoding.search.constraints import ConstraintBatch
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output, rank_outputs, run_to_end
from glassformer.decoding.search.steps import Steps
from glassformer.settings import DecodeConfig
from glassformer.trace import note

# The smallest attention that counts, so that a score stays finite for a position without any.
_LEAST = torch.finfo(torch.float32).tiny


def initial_coverage(source_mask: Bool[Tensor, "rows src"]) -> Float[Tensor, "rows src"]:
    """The attention that source positions have received before the first id: none, and 1 for padding."""
    return (~source_mask).float()


def coverage_penalty(covered: Float[Tensor, "... src"], beta: float) -> Float[Tensor, "..."]:
    """What is added to a score: 0 if every position received attention 1, less otherwise."""
    return beta * covered.clamp(min=_LEAST, max=1.0).log().sum(dim=-1)


def beam_search(steps: Steps, job: SearchJob) -> list[list[Output]]:
    """The ``n_best`` candidates of each source: complete ones first, then by unmet constraints, then by score.

    ``steps`` are at the start, with a row for each source. Fewer than ``n_best`` are returned if no more exist.
    Raises ``InputError`` for constraints that no output can meet.
    """
    return run_to_end(beam_steps(steps, job))


def beam_steps(steps: Steps, job: SearchJob) -> Generator[SearchState, None, list[list[Output]]]:
    """``beam_search`` that yields the state after each step, before the sentences that are done are removed."""
    plan = Plan(job.options, steps.config, ConstraintBatch.from_job(job, steps.config, steps.device))
    if plan.constraints is not None:
        plan.constraints.note()
    covered = initial_coverage(steps.source_mask) if job.options.coverage_penalty > 0.0 else None
    state = start_state(job.limits, plan, steps.device, covered)
    state.note()
    last_ids = torch.full_like(state.sentences, steps.config.bos_id)
    found: list[list[Output]] = [[] for _ in job.limits]
    while len(state.sentences):
        log_probs = steps.next_log_probs(last_ids)
        attention = None if state.covered is None else steps.attention()
        following = NextLogProbs.from_model(state, log_probs, attention, plan)
        state, rows = advance(state, following, plan)
        state.note()
        yield state
        done = is_done(state, plan.options)
        note("search.done", done, "batch")
        some_done = bool(done.any())
        if some_done:
            ended = state.select(done.nonzero().flatten()).to_cpu()  # read at once: each look makes a GPU wait
            for place, sentence in enumerate(ended.sentences.tolist()):
                found[sentence] = _results(ended, place, plan)
            keep = fill_gaps(~done) if steps.fills_gaps else (~done).nonzero().flatten()
            state, rows = state.select(keep), rows.index_select(0, keep)
        if some_done or rows.numel() != len(last_ids):
            steps.select(rows.flatten())
        elif plan.options.beam > 1:
            steps.reorder_within_sources(rows.flatten())
        last_ids = state.ids[:, :, -1].flatten()
    return _rank_sources(found, job)


def advance(
    state: SearchState, following: NextLogProbs, plan: Plan
) -> tuple[SearchState, Int[Tensor, "sentences new_beam"]]:
    """The state after one more id, and the row of the previous step that each live hypothesis continues."""
    best, beam = expand_beam(state, following, plan), plan.options.beam
    if plan.options.early_stopping == "shrink":
        best = best.first(beam - state.finished)
    is_eos = best.ids == plan.config.eos_id
    best.note()
    note("search.candidate_outcomes", lambda: outcomes(best.ranking, is_eos, beam), "batch candidate")
    covered = None if state.covered is None or following.attention is None else state.covered + following.attention
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
    """The state with the hypotheses that finish now; ``finished_ids`` get the column that live ones get, too."""
    finishes = is_eos & (best.ranking > -math.inf)
    finishes[:, options.beam :] = False
    longer_ids = pad(state.finished_ids, (0, 1))
    if finishes.device.type == "cpu" and not finishes.any():  # a GPU would have to be waited for
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
    """Which sentences (sentences) are done; the module's docstring gives the conditions."""
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
    """The candidates of row ``place``, whose sentence is done, unsorted."""
    finished = zip(
        state.finished_ids[place].tolist(),
        state.finished_log_probs[place].tolist(),
        state.finished_scores[place].tolist(),
        strict=True,
    )
    candidates = [
        Output(ids[: ids.index(plan.config.eos_id) + 1], log_prob, score, truncated=False)
        for ids, log_prob, score in finished
        if score > -math.inf
    ]
    if len(candidates) < plan.options.n_best or state.step >= int(state.limits[place]):
        candidates += _truncated_candidates(state, place, plan.options)
    return candidates


def _truncated_candidates(state: SearchState, place: int, options: DecodeConfig) -> list[Output]:
    """The live hypotheses of row ``place``, whose sentence is done."""
    ranking = options.score(state.ranking[place], state.step)
    coverage = torch.zeros_like(ranking)
    if state.covered is not None:
        coverage = coverage_penalty(state.covered[place], options.coverage_penalty)
    live = zip(
        state.ids[place].tolist(), state.log_probs[place].tolist(), ranking.tolist(), coverage.tolist(), strict=True
    )
    return [Output(ids, log_prob, score + more, truncated=True) for ids, log_prob, score, more in live]


def _rank_sources(found: Sequence[list[Output]], job: SearchJob) -> list[list[Output]]:
    """The ``n_best`` of each source, each with its unmet constraints."""
    if job.constraints is not None:
        found = [
            [replace(one, unmet=of_source.unmet(one.ids)) for one in candidates]
            for candidates, of_source in zip(found, job.constraints, strict=True)
        ]
    complete_first = job.options.early_stopping != "shrink"
    return [rank_outputs(candidates, job.options.n_best, complete_first=complete_first) for candidates in found]
