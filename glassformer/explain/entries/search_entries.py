"""The taps of a beam search. Section 6.1; Wu et al. 2016 (arXiv 1609.08144).

Step k reads the last ids, continues the hypotheses of state k in sentences not done, and makes state k + 1.
"""

import math

import torch
from torch import Tensor

from glassformer.explain.entries.candidate_entries import candidate_ranking, is_eos
from glassformer.explain.entries.entry import NOT_IN_PAPER, add, entry
from glassformer.explain.entries.scope import (
    Scope,
    active_places,
    by_hypothesis,
    has_rules,
    samples_left,
    state_before,
    written_ids,
)
from glassformer.settings import DecodeConfig

_WU = "6.1; Wu et al. 2016, 7"
_COVERAGE = "Wu et al. 2016, 7"
_LEAST = torch.finfo(torch.float32).tiny


@entry("search.tgt_in_ids", "Read at this step", "tᵢ", "3.1")
def _tgt_in_ids(scope: Scope) -> Tensor:
    """The id that each row of the decoder reads: <s> first, then the id that was appended last."""
    step, config, options = scope.step.call, scope.config, scope.context.decode
    if step == 0:
        return torch.full_like(scope.step.value, config.bos_id)
    ids = written_ids(scope, step)  # without a cache all of them are read
    return ids[:, -1:] if options.cache else torch.cat([ids.new_full((len(ids), 1), config.bos_id), ids], dim=1)


@entry("search.next_log_probs", "Log-probability of each next token", "log softmax(logits)", "3.4")
def _next_log_probs(scope: Scope) -> Tensor:
    """The logarithm of the softmax at the last position; <pad> and <s> are never chosen."""
    log_probs = scope.at("output_projection.logits")[:, -1].float().log_softmax(dim=-1)
    log_probs[:, [scope.config.pad_id, scope.config.bos_id]] = -math.inf
    return log_probs


@entry("search.attention", "Where the decoder looked", "pᵢⱼ = Σ_heads α / h", _COVERAGE)
def _attention(scope: Scope) -> Tensor:
    """The last layer's cross-attention at this position, the mean of its heads."""
    last = scope.config.n_decoder_layers - 1
    return scope.at(f"decoder.layers.{last}.cross_attention.weights")[:, :, -1].float().mean(dim=1)


@entry("search.rows", "Rows kept", "row ← rows[i]", NOT_IN_PAPER)
def _decoder_rows(scope: Scope) -> Tensor:
    """Row i of the next step continues this row, with its cache and its memory."""
    # Of a beam the parents of what lives, else what is not done.
    step, options = scope.count("search.next_log_probs"), scope.context.decode
    if step == 0:  # a row for each sample of a source
        return torch.arange(len(scope.step.value), device=scope.step.value.device) // options.n_best
    if options.sample:
        return active_places(scope, step)
    return _parent_rows(scope, step - 1)[active_places(scope, step)].flatten()


def _living(scope: Scope, step: int) -> Tensor:
    """Places of the candidates that become the next beam, in their order."""
    return is_eos(scope, step).int().argsort(dim=1, stable=True)[:, : scope.context.decode.beam]


def _parents(scope: Scope, step: int) -> Tensor:
    return scope.at_call("search.candidate_parents", step).gather(1, _living(scope, step))


def _parent_rows(scope: Scope, step: int) -> Tensor:
    """The decoder row that each hypothesis continues, (sentences beam)."""
    parents, beam = _parents(scope, step), state_before(scope, "ids", step).shape[1]
    return torch.arange(len(parents), device=parents.device)[:, None] * beam + parents


def _of_parents(values: Tensor, parents: Tensor) -> Tensor:
    return values.gather(1, parents[:, :, None].expand(-1, -1, values.shape[2]))


@entry("search.sentences", "Sentences in progress", "rows", "6.1")
def _sentences(scope: Scope) -> Tensor:
    """Which sentences of the batch are still searched."""
    limits = scope.at_call("search.limits", 0)
    return _carried_over(scope) if scope.step.call else torch.arange(len(limits), device=limits.device)


@entry("search.limits", "Longest outputs", "min(⌊a · n_src⌋ + b, max_length)", "6.1")
def _limits(scope: Scope) -> Tensor | None:
    """The most ids that each output may have, with </s>; the source's own </s> does not count."""
    if scope.step.call:
        return _carried_over(scope)
    if not scope.has("text.src_ids"):
        return None
    options, config = scope.context.decode, scope.config
    n_src = (scope.at("text.src_ids") != config.pad_id).sum(dim=1) - 1
    limits = (options.max_length_a * n_src.double()).long() + options.max_length_b
    return limits.clamp(max=config.max_length).repeat_interleave(options.n_best if options.sample else 1)


@entry("search.last_penalty", "Penalty at the limit", "((5 + limit) / 6)^α, or limit^α with length_norm power", _WU)
def _last_penalty(scope: Scope) -> Tensor:
    """The length penalty of the longest output; with it, a bound on what a living hypothesis may still score."""
    limits = scope.at_call("search.limits", 0)
    return _carried_over(scope) if scope.step.call else length_penalty(limits, scope.context.decode)


def _carried_over(scope: Scope) -> Tensor:
    """A field that stays as it is while sentences leave."""
    return state_before(scope, scope.step.name, scope.step.call - 1)


@entry("search.ids", "Living hypotheses", "[parent; token]", "6.1")
def _living_ids(scope: Scope) -> Tensor:
    """The ids so far with the new one appended, best first."""
    step = scope.step.call - 1
    if step < 0:
        limits = scope.at_call("search.limits", 0)
        return limits.new_empty(len(limits), 1, 0)
    new = scope.at_call("search.candidate_ids", step).gather(1, _living(scope, step))
    return torch.cat([_of_parents(state_before(scope, "ids", step), _parents(scope, step)), new[:, :, None]], dim=2)


def _living_sums(scope: Scope) -> Tensor:
    """Zero at the start; then the living candidates' sums, else −∞."""
    step = scope.step.call - 1
    if step < 0:
        limits = scope.at_call("search.limits", 0)
        return torch.zeros(len(limits), 1, device=limits.device)
    living = _living(scope, step)
    empty = is_eos(scope, step) | (candidate_ranking(scope, step) == -math.inf)
    sums = scope.at_call(f"search.candidate_{scope.step.name}", step)
    return sums.masked_fill(empty, -math.inf).gather(1, living)


_OF_ALL = "The sum over all their tokens."
add("search.log_probs", "Their log-probabilities", _OF_ALL, "Σ log P", "6.1", compute=_living_sums)
_RANKING = "The sums after the rules; they rank the living hypotheses."
add("search.sums", "Their sums", _RANKING, "Σ log P′", NOT_IN_PAPER, compute=_living_sums)


@entry("search.covered", "Attention received so far", "Σⱼ pᵢⱼ", _COVERAGE)
def _coverage(scope: Scope) -> Tensor:
    """What each source position received from all ids of a hypothesis; padding counts as fully covered."""
    step = scope.step.call - 1
    if step < 0:
        padding = ~scope.at("src_mask")[:, 0, 0]
        return padding.float()[:, None]
    return _of_parents(_coverage_now(scope, step), _parents(scope, step))


def _coverage_now(scope: Scope, step: int) -> Tensor:
    return state_before(scope, "covered", step) + by_hypothesis(scope, "attention", step)


def length_penalty(length: Tensor | int, options: DecodeConfig) -> Tensor:
    """((5 + length) / 6)^α, or length^α."""
    lengths = torch.as_tensor(length).double()
    base = lengths if options.length_norm == "power" else (5 + lengths) / 6
    return (base**options.length_penalty).float()


def coverage(covered: Tensor, options: DecodeConfig) -> Tensor:
    """β Σᵢ log min(Σⱼ pᵢⱼ, 1), over the source positions."""
    return options.coverage_penalty * covered.clamp(min=_LEAST, max=1.0).log().sum(dim=-1)


def _ending(scope: Scope, step: int) -> Tensor:
    """Which candidates end for good: </s> among the first beam."""
    ending = is_eos(scope, step) & (candidate_ranking(scope, step) > -math.inf)
    return ending & (torch.arange(ending.shape[1], device=ending.device) < scope.context.decode.beam)


@entry("search.finished", "How many have finished", "count", "6.1")
def _finished_count(scope: Scope) -> Tensor:
    """Hypotheses that reached </s>."""
    step = scope.step.call - 1
    if step < 0:
        return torch.zeros_like(scope.at_call("search.limits", 0))
    return state_before(scope, "finished", step) + _ending(scope, step).sum(dim=1)


def _best_finished(scope: Scope) -> Tensor:
    """The best by score of those that ended before and those that end now."""
    step, name = scope.step.call - 1, scope.step.name
    if step < 0:
        return _nothing_ended(scope, name)
    before = state_before(scope, name, step)
    if name == "finished_ids":
        before = torch.nn.functional.pad(before, (0, 1), value=scope.config.pad_id)
    if not _ending(scope, step).any():
        return before
    now, best = _ending_now(scope, step, name), _best_ended(scope, step)
    both = torch.cat([before, now], dim=1)
    return _of_parents(both, best) if name == "finished_ids" else both.gather(1, best)


def _nothing_ended(scope: Scope, name: str) -> Tensor:
    """The start: no ids, and −∞ for each place among the best."""
    limits, options = scope.at_call("search.limits", 0), scope.context.decode
    n_best = options.n_best if options.early_stopping == "beam" else options.beam
    if name == "finished_ids":
        return limits.new_empty(len(limits), n_best, 0)
    return torch.full((len(limits), n_best), -math.inf, device=limits.device)


def _ending_now(scope: Scope, step: int, name: str) -> Tensor:
    """One field of the candidates, −∞ where they do not end."""
    parents = scope.at_call("search.candidate_parents", step)
    if name == "finished_ids":
        ids = scope.at_call("search.candidate_ids", step)[:, :, None]
        return torch.cat([_of_parents(state_before(scope, "ids", step), parents), ids], dim=2)
    if name == "finished_log_probs":
        return scope.at_call("search.candidate_log_probs", step).masked_fill(~_ending(scope, step), -math.inf)
    options, length = scope.context.decode, state_before(scope, "ids", step).shape[2] + 1
    ranking = candidate_ranking(scope, step)
    scores = (ranking - options.word_penalty * length) / length_penalty(length, options).to(ranking.device)
    if options.coverage_penalty:
        scores = scores + coverage(_coverage_now(scope, step), options).gather(1, parents)
    return scores.masked_fill(~_ending(scope, step), -math.inf)


def _best_ended(scope: Scope, step: int) -> Tensor:
    """Places of the best scores, of hypotheses that have ended or end now."""
    before = state_before(scope, "finished_scores", step)
    scores = torch.cat([before, _ending_now(scope, step, "finished_scores")], dim=1)
    return scores.topk(before.shape[1], dim=1).indices


_PADDED = "Padded after </s>; a hypothesis that has ended is not continued."
add("search.finished_ids", "The best that finished", _PADDED, "… </s>", "6.1", compute=_best_finished)
_WITH_EOS = "The sum over all their tokens, with </s>."
add("search.finished_log_probs", "Their log-probabilities", _WITH_EOS, "Σ log P", "6.1", compute=_best_finished)
_SCORES = "Divided by the length penalty, so that long outputs may win; the coverage penalty is added, if it is set."
SCORE = "(Σ log P − w · length) / ((5 + length) / 6)^α + β Σᵢ log min(Σⱼ pᵢⱼ, 1); length^α with length_norm power"
add("search.finished_scores", "Their scores", _SCORES, SCORE, _WU, compute=_best_finished)


@entry("search.done", "Done", "no better one is possible, or all are drawn", "6.1")
def _done(scope: Scope) -> Tensor:
    """Sentences that no further step can improve, and samples that are complete."""
    step, options = scope.step.call, scope.context.decode
    if options.sample:
        ids, limits = scope.at("search.sampled_ids"), scope.at_call("search.limits", 0)
        limits = limits[samples_left(scope, step)]
        return (ids[:, -1] == scope.config.eos_id) | (ids.shape[1] >= limits)
    after = {
        name: scope.at_call(f"search.{name}", step + 1)
        for name in ("ids", "limits", "last_penalty", "finished", "finished_scores")
    }
    sums = scope.at_call("search.sums" if has_rules(scope) else "search.log_probs", step + 1)
    if options.early_stopping == "shrink":
        return (sums.amax(dim=1) == -math.inf) | (after["ids"].shape[2] >= after["limits"])
    length = after["ids"].shape[2]
    stopping = options.early_stopping if options.beam > 1 else "beam"
    penalty = length_penalty(length, options).to(sums.device) if stopping == "heuristic" else after["last_penalty"]
    done = (after["finished_scores"][:, -1] >= sums.amax(dim=1) / penalty) | (length >= after["limits"])
    return done | (after["finished"] >= options.beam) if stopping == "beam" else done
