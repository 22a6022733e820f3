"""The taps of sampling: the filtered distribution, the random number and the token that it selects."""

import math

import torch
from torch import Tensor

from glassformer.explain.tap_entries.entry import Entries, add, entry
from glassformer.explain.tap_entries.scope import Scope, active_places, has_rules

_NOT_IN_PAPER = "not in the paper"


def _keep(log_probs: Tensor, wanted: Tensor) -> Tensor:
    return log_probs.masked_fill(~wanted, -math.inf).log_softmax(dim=-1)


def _ranks(key: Tensor, kept: Tensor) -> Tensor:
    """The rank of each token by its key, the greatest first; of equal keys, the tokens that were kept first."""
    order = kept.int().argsort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, key.gather(-1, order).argsort(dim=-1, descending=True, stable=True))
    return order.argsort(dim=-1)


def _smallest_set(log_probs: Tensor, key: Tensor, kept: Tensor, share: float) -> Tensor:
    """The first tokens by their key whose probabilities sum to at least ``share``, and at least one."""
    ranks = _ranks(key, kept)
    probabilities = log_probs.exp().gather(-1, ranks.argsort(dim=-1))
    before = (probabilities.cumsum(dim=-1) - probabilities).gather(-1, ranks)
    return (before < share) | (ranks == 0)


SAMPLING: Entries = {}


@entry(SAMPLING, "search.filtered_log_probs", "The distribution drawn from", "log P′", "Holtzman et al. 2020")
def _filtered_log_probs(scope: Scope) -> Tensor:
    """After temperature, top-k, top-p, min-p and typical-p, where they are set; tokens left out have −∞."""
    # Temperature, then top-k, top-p, min-p and typical-p, in double precision; of equal tokens those kept win.
    options, kept = scope.context.decode, scope.step.value > -math.inf
    own = scope.at("search.processed_log_probs" if has_rules(scope) else "search.next_log_probs")
    log_probs = (own.double() / options.temperature).log_softmax(dim=-1)
    if 0 < options.top_k < log_probs.shape[-1]:
        first = _ranks(log_probs, kept) < options.top_k
        log_probs = _keep(log_probs, first)
    if options.top_p < 1.0:
        log_probs = _keep(log_probs, _smallest_set(log_probs, log_probs, kept, options.top_p))
    if options.min_p > 0.0:
        log_probs = _keep(log_probs, log_probs.exp() >= options.min_p * log_probs.exp().amax(dim=-1, keepdim=True))
    if options.typical_p < 1.0:
        entropy = torch.special.entr(log_probs.exp()).sum(dim=-1, keepdim=True)
        typical = -(-log_probs - entropy).abs()
        log_probs = _keep(log_probs, _smallest_set(log_probs, typical, kept, options.typical_p))
    return log_probs.to(own.dtype)


add(
    SAMPLING,
    "search.uniforms",
    "A random number",
    "It depends on the seed, the sentence and the number of the sample alone.",
    "u ~ Uniform[0, 1)",
    _NOT_IN_PAPER,
)


@entry(SAMPLING, "search.drawn_ids", "The token drawn", "min i : Σ_{j ≤ i} P′ > u", _NOT_IN_PAPER)
def _drawn_ids(scope: Scope) -> Tensor:
    """The first token at which the cumulated probability is above u."""
    # How many tokens lie below u times the whole probability.
    cumulated = scope.at("search.filtered_log_probs").double().exp().cumsum(dim=1)
    below = cumulated <= scope.at("search.uniforms")[:, None] * cumulated[:, -1:]
    return below.sum(dim=1).clamp(max=cumulated.shape[1] - 1)


@entry(SAMPLING, "search.sampled_ids", "Samples so far", "[ids; drawn]", _NOT_IN_PAPER)
def _sampled_ids(scope: Scope) -> Tensor:
    """The drawn token is appended."""
    step, new = scope.step.call, scope.at("search.drawn_ids")[:, None]
    if step == 0:
        return new
    return torch.cat([scope.at_call("search.sampled_ids", step - 1)[active_places(scope, step)], new], dim=1)


@entry(SAMPLING, "search.sampled_log_probs", "Their log-probabilities", "Σ log P", _NOT_IN_PAPER)
def _sampled_log_probs(scope: Scope) -> Tensor:
    """By the model's own distribution, not by the filtered one."""
    step = scope.step.call
    new = scope.at("search.next_log_probs").gather(1, scope.at("search.drawn_ids")[:, None]).squeeze(1)
    if step == 0:
        return new
    return scope.at_call("search.sampled_log_probs", step - 1)[active_places(scope, step)] + new
