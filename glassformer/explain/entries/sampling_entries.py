"""The taps of sampling: filtered distribution, random number and drawn token."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.explain.entries.entry import NOT_IN_PAPER, add, entry
from glassformer.explain.entries.scope import Scope, active_places, has_rules, samples_left
from glassformer.settings import DecodeConfig

_BORDER = 1e-5
_LOG_PROB = 10.0  # the size of the numbers whose sum each log-probability is rounded by


def _filtered_log_probs(scope: Scope) -> Tensor:
    """The filters that are set, in float64; ties are as in the search."""
    options, kept = scope.context.decode, scope.step.value > -math.inf
    own = scope.at("search.processed_log_probs" if has_rules(scope) else "search.next_log_probs")
    log_probs = own.double()
    for setting, apply in FILTER_EQUATIONS.items():
        value = getattr(options, setting)
        if setting == "temperature" or value != getattr(DecodeConfig, setting):
            log_probs = apply(log_probs, value, kept)
    return log_probs.to(own.dtype)


# What each sampling filter leaves, by its setting and in the same order; ``kept`` are the tokens that it did leave.
FILTER_EQUATIONS: dict[str, Callable[[Tensor, Any, Tensor], Tensor]] = {
    "temperature": lambda log_probs, temperature, kept: (log_probs / temperature).log_softmax(dim=-1),
    "top_k": lambda log_probs, k, kept: _keep(log_probs, _ranks(log_probs, kept) < k),
    "top_p": lambda log_probs, p, kept: _keep(log_probs, _smallest_set(log_probs, log_probs, kept, p)),
    "min_p": lambda log_probs, p, kept: _keep(
        log_probs, log_probs - log_probs.amax(-1, True) + _in_favour(kept) >= math.log(p)
    ),
    "typical_p": lambda log_probs, p, kept: _keep(
        log_probs, _smallest_set(log_probs, -(-log_probs - _entropy(log_probs)).abs(), kept, p)
    ),
}


def _entropy(log_probs: Tensor) -> Tensor:
    return torch.special.entr(log_probs.exp()).sum(dim=-1, keepdim=True)  # type: ignore[no-any-return]  # entr has no types


def _keep(log_probs: Tensor, wanted: Tensor) -> Tensor:
    return log_probs.masked_fill(~wanted, -math.inf).log_softmax(dim=-1)


def _in_favour(kept: Tensor) -> Tensor:
    """A margin for rounding: a token on the border is as in the search."""
    return torch.where(kept, _BORDER, -_BORDER).double()


def _ranks(key: Tensor, kept: Tensor) -> Tensor:
    """The rank of each token by its key, greatest first; kept ones win ties."""
    return (key + _in_favour(kept)).argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)


def _smallest_set(log_probs: Tensor, key: Tensor, kept: Tensor, share: float) -> Tensor:
    """The first tokens by key whose probabilities sum to ``share``, at least one."""
    ranks = _ranks(key, kept)
    probabilities = log_probs.exp().gather(-1, ranks.argsort(dim=-1))
    before = (probabilities.cumsum(dim=-1) - probabilities).gather(-1, ranks)
    return (before - _in_favour(kept) < share) | (ranks == 0)


_NAMES = [setting.replace("_", "-") for setting in FILTER_EQUATIONS]
_FILTERED = f"After {', '.join(_NAMES[:-1])} and {_NAMES[-1]}, where they are set; tokens left out have −∞."
_TITLE, _SOURCE = "The distribution drawn from", "Holtzman et al. 2020"
add("search.filtered_log_probs", _TITLE, _FILTERED, "log P′", _SOURCE, compute=_filtered_log_probs, floor=_LOG_PROB)
_UNIFORM = "It depends on the seed, the sentence and the number of the sample alone."


def _uniforms(scope: Scope) -> Tensor:
    """This step's number of each stream: PCG64, seeded by seed, source and sample."""
    step, options = scope.step.call, scope.context.decode
    rows = samples_left(scope, step).tolist()
    seeds = ([options.seed, row // options.n_best, row % options.n_best] for row in rows)
    streams = (np.random.Generator(np.random.PCG64(seed)).random(step + 1) for seed in seeds)
    return scope.step.value.new_tensor([float(stream[step]) for stream in streams])


add("search.uniforms", "A random number", _UNIFORM, "u ~ Uniform[0, 1)", NOT_IN_PAPER, compute=_uniforms)


@entry("search.drawn_ids", "The token drawn", "min i : Σ_{j ≤ i} P′ > u", NOT_IN_PAPER)
def _drawn_ids(scope: Scope) -> Tensor:
    """The first token at which the cumulated probability is above u."""
    cumulated = scope.at("search.filtered_log_probs").double().exp().cumsum(dim=1)
    below = cumulated <= scope.at("search.uniforms")[:, None] * cumulated[:, -1:]
    return below.sum(dim=1).clamp(max=cumulated.shape[1] - 1)


@entry("search.sampled_ids", "Samples so far", "[ids; drawn]", NOT_IN_PAPER)
def _sampled_ids(scope: Scope) -> Tensor:
    """The drawn token is appended."""
    step, new = scope.step.call, scope.at("search.drawn_ids")[:, None]
    if step == 0:
        return new
    return torch.cat([scope.at_call("search.sampled_ids", step - 1)[active_places(scope, step)], new], dim=1)


@entry("search.sampled_log_probs", "Their log-probabilities", "Σ log P", NOT_IN_PAPER)
def _sampled_log_probs(scope: Scope) -> Tensor:
    """By the model's own distribution, not by the filtered one."""
    step = scope.step.call
    new = scope.at("search.next_log_probs").gather(1, scope.at("search.drawn_ids")[:, None]).squeeze(1)
    if step == 0:
        return new
    return scope.at_call("search.sampled_log_probs", step - 1)[active_places(scope, step)] + new
