"""Beam search: pure functions over a frozen state, all sentences of a batch at once. Section 6.1 of the paper.

At each step the ``2 beam`` best continuations of a sentence are looked at. Those among the first ``beam`` that
end with eos have ended for good; the best ``beam`` of the others live on. A sentence is done when

- ``beam`` hypotheses have ended (so beam 1 is greedy search), or
- no living one can still be among the ``n_best``. This loses nothing: log_prob only falls and the penalty only
  grows with length (α >= 0), so log_prob / penalty(limit) bounds what a living hypothesis may come to, or
- its limit is reached. What then lives is cut short, and fills the places that ended ones left.

The search of one sentence depends on no other sentence of the batch, and its best hypothesis not on ``n_best``.
Equal candidates are taken as ``torch.topk`` takes them: by their own row alone. Knows nothing of text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.config import DecodeConfig
from glassformer.decoding.candidate import Candidate, length_penalty, ranked
from glassformer.decoding.steps import DecoderSteps
from glassformer.model import Transformer
from glassformer.trace import note

_AXES = {
    "sentences": "batch", "limits": "batch", "last_penalty": "batch", "ids": "batch beam tgt",
    "log_probs": "batch beam", "ended": "batch", "ended_ids": "batch n_best tgt",
    "ended_log_probs": "batch n_best", "ended_scores": "batch n_best",
}  # fmt: skip


@dataclass(frozen=True)
class SearchState:
    """The hypotheses of the sentences that are not done, after ``step`` generated ids (bos is none of them).

    Places without a hypothesis have log_prob and score -inf.
    """

    sentences: Tensor  # (sentences)              the source's row in the batch
    limits: Tensor  # (sentences)                 most ids, eos included
    last_penalty: Tensor  # (sentences)           the length penalty at that limit
    ids: Tensor  # (sentences beam step)          living hypotheses, best first
    log_probs: Tensor  # (sentences beam)
    ended: Tensor  # (sentences)                  how many have ended so far, kept below or not
    ended_ids: Tensor  # (sentences n_best step)  the best of them, best first, padded behind eos
    ended_log_probs: Tensor  # (sentences n_best)
    ended_scores: Tensor  # (sentences n_best)

    @property
    def step(self) -> int:
        """Ids that each living hypothesis has."""
        return self.ids.shape[2]

    def select(self, keep: Int[Tensor, "kept"]) -> Self:
        """The state of some of the sentences."""
        return type(self)(*(getattr(self, field.name).index_select(0, keep) for field in fields(self)))


@dataclass(frozen=True)
class Continuations:
    """The best continuations of the living hypotheses, best first: from which, with which id."""

    log_probs: Tensor  # (sentences candidates)
    parents: Tensor  # (sentences candidates)     place in the beam before
    ids: Tensor  # (sentences candidates)

    def at(self, ranks: Int[Tensor, "sentences chosen"]) -> Self:
        """Those at the given ranks of each sentence."""
        return type(self)(*(getattr(self, field.name).gather(1, ranks) for field in fields(self)))

    def note(self) -> None:
        """Show them in a trace."""
        note("search.candidate_log_probs", lambda: self.log_probs, "batch candidate")
        note("search.candidate_parents", lambda: self.parents, "batch candidate")
        note("search.candidate_ids", lambda: self.ids, "batch candidate")

    def prefixed(self, prefixes: Int[Tensor, "sentences beam step"]) -> Int[Tensor, "sentences candidates longer"]:
        """All ids of each: those of its parent, and its own."""
        index = self.parents[:, :, None].expand(-1, -1, prefixes.shape[2])
        return torch.cat([prefixes.gather(1, index), self.ids[:, :, None]], dim=2)


def beam_search(
    model: Transformer, src_ids: Int[Tensor, "batch src"], limits: Sequence[int], options: DecodeConfig
) -> list[list[Candidate]]:
    """The ``n_best`` candidates for each source, complete ones first, each kind by score.

    ``src_ids`` end with eos and are padded on the right; ``limits`` are the most ids, eos included, that each
    output may have, from 1 to the model's max_length. Fewer than ``n_best`` come back where no more exist.
    """
    steps = DecoderSteps(model, src_ids, cached=options.cache)
    state = start(limits, options, src_ids.device)
    _note(state)
    last_ids = torch.full_like(state.sentences, model.config.bos_id)
    found: list[list[Candidate]] = [[] for _ in limits]
    while len(state.sentences):
        next_log_probs = steps.next_log_probs(last_ids).view(*state.log_probs.shape, -1)
        state, rows = advance(state, next_log_probs, options, model.config.eos_id)
        _note(state)
        done = is_done(state, options)
        note("search.done", lambda done=done: done, "batch")  # type: ignore[misc]
        some_done = bool(done.any())
        if some_done:
            for place in done.nonzero().flatten().tolist():
                found[int(state.sentences[place])] = _results(state, place, options, model.config.eos_id)
            keep = (~done).nonzero().flatten()
            state, rows = state.select(keep), rows.index_select(0, keep)
        if some_done or rows.numel() != len(last_ids):
            steps.select(rows.flatten())
        elif options.beam > 1:
            steps.exchange(rows.flatten())
        last_ids = state.ids[:, :, -1].flatten()
    return found


def start(limits: Sequence[int], options: DecodeConfig, device: torch.device) -> SearchState:
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
    )


def advance(
    state: SearchState, next_log_probs: Float[Tensor, "sentences beam vocab"], options: DecodeConfig, eos_id: int
) -> tuple[SearchState, Int[Tensor, "sentences new_beam"]]:
    """The state one id later, and the row of the step before that each living hypothesis continues."""
    best = continuations(state.log_probs, next_log_probs, 2 * options.beam)
    best.note()
    is_eos = best.ids == eos_id
    # At most one continuation of each parent is eos, so that the first two beams hold a beam of others.
    living_ranks = is_eos.to(torch.uint8).argsort(dim=1, stable=True)[:, : options.beam]
    living = best.at(living_ranks)
    places = state.log_probs.shape[1]
    rows = torch.arange(len(living.parents), device=is_eos.device)[:, None] * places + living.parents
    later = replace(
        _with_ended(state, best, is_eos, options),
        ids=living.prefixed(state.ids),
        log_probs=living.log_probs.masked_fill(is_eos.gather(1, living_ranks), -math.inf),
    )
    return later, rows


def continuations(
    log_probs: Float[Tensor, "sentences beam"], next_log_probs: Float[Tensor, "sentences beam vocab"], count: int
) -> Continuations:
    """The ``count`` best continuations of each sentence, or all where there are fewer."""
    vocab = next_log_probs.shape[2]
    sums = (log_probs[:, :, None] + next_log_probs).flatten(1)
    best, index = sums.topk(min(count, sums.shape[1]), dim=1)
    return Continuations(log_probs=best, parents=index // vocab, ids=index % vocab)


def _with_ended(state: SearchState, best: Continuations, is_eos: Tensor, options: DecodeConfig) -> SearchState:
    """The state whose ended hypotheses include those that end now; a column longer, as the living ones will be."""
    ending = is_eos & (best.log_probs > -math.inf)
    ending[:, options.beam :] = False
    longer_ids = pad(state.ended_ids, (0, 1))
    if not ending.any():
        return replace(state, ended_ids=longer_ids)
    log_probs = best.log_probs.masked_fill(~ending, -math.inf)
    scores = log_probs / length_penalty(state.step + 1, options.length_penalty)
    kept_scores, index = torch.cat([state.ended_scores, scores], dim=1).topk(options.n_best, dim=1)
    ids = torch.cat([longer_ids, best.prefixed(state.ids)], dim=1)
    return replace(
        state,
        ended=state.ended + ending.sum(dim=1),
        ended_ids=ids.gather(1, index[:, :, None].expand(-1, -1, ids.shape[2])),
        ended_log_probs=torch.cat([state.ended_log_probs, log_probs], dim=1).gather(1, index),
        ended_scores=kept_scores,
    )


def is_done(state: SearchState, options: DecodeConfig) -> Tensor:
    """Which sentences (sentences) need no further step; the module says why."""
    reachable = state.log_probs.amax(dim=1) / state.last_penalty
    nothing_better = state.ended_scores[:, -1] >= reachable
    return nothing_better | (state.ended >= options.beam) | (state.step >= state.limits)


def _note(state: SearchState) -> None:
    """Show in a trace where the search stands."""
    for name, axes in _AXES.items():
        note(f"search.{name}", lambda name=name: getattr(state, name), axes)  # type: ignore[misc]


def _results(state: SearchState, place: int, options: DecodeConfig, eos_id: int) -> list[Candidate]:
    """What the sentence at ``place``, which is done, has come to."""
    ended = zip(
        state.ended_ids[place].tolist(),
        state.ended_log_probs[place].tolist(),
        state.ended_scores[place].tolist(),
        strict=True,
    )
    candidates = [
        Candidate(ids[: ids.index(eos_id) + 1], log_prob, score, truncated=False)
        for ids, log_prob, score in ended
        if log_prob > -math.inf
    ]
    if len(candidates) < options.n_best:
        penalty = length_penalty(state.step, options.length_penalty)
        living = zip(state.ids[place].tolist(), state.log_probs[place].tolist(), strict=True)
        candidates += [Candidate(ids, log_prob, log_prob / penalty, truncated=True) for ids, log_prob in living]
    return ranked(candidates, options.n_best)
