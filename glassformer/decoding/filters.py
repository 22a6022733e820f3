"""Filters: which tokens a draw may choose from, as pure functions on log-probabilities.

Each takes and returns log-probabilities (... vocab) whose exponentials sum to 1; what it leaves out is -inf.
Temperature comes first, and takes those that sum to less, because padding and bos are left out.
Knows nothing of models. The paper has no sampling; top_p is Holtzman et al. 2020 (arXiv 1904.09751), min_p
Nguyen et al. 2024 (arXiv 2407.01082).
"""

import math

from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.config import DecodeConfig

LogProbs = Float[Tensor, "... vocab"]


def filtered(log_probs: LogProbs, options: DecodeConfig) -> LogProbs:
    """The distribution to draw from: temperature, top_k, top_p and min_p, in this order, where they are set."""
    log_probs = with_temperature(log_probs, options.temperature)
    if 0 < options.top_k < log_probs.shape[-1]:
        log_probs = keep_top_k(log_probs, options.top_k)
    if options.top_p < 1.0:
        log_probs = keep_top_p(log_probs, options.top_p)
    if options.min_p > 0.0:
        log_probs = keep_min_p(log_probs, options.min_p)
    return log_probs


def with_temperature(log_probs: LogProbs, temperature: float) -> LogProbs:
    """Probabilities to the power of 1 / ``temperature``: sharper below 1, flatter above."""
    return (log_probs / temperature).log_softmax(dim=-1)


def keep_top_k(log_probs: LogProbs, k: int) -> LogProbs:
    """The ``k`` most probable tokens, and no more where several are equally probable."""
    best = log_probs.topk(k, dim=-1)
    nothing = log_probs.new_full(log_probs.shape, -math.inf)
    return nothing.scatter(-1, best.indices, best.values).log_softmax(dim=-1)


def keep_top_p(log_probs: LogProbs, p: float) -> LogProbs:
    """The smallest set of tokens whose probabilities sum to at least ``p``; always the most probable one."""
    ordered, order = log_probs.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.double().exp()
    before = probabilities.cumsum(dim=-1) - probabilities
    wanted = before < p
    wanted[..., 0] = True
    return _only(log_probs, wanted.new_zeros(wanted.shape).scatter(-1, order, wanted))


def keep_min_p(log_probs: LogProbs, min_p: float) -> LogProbs:
    """The tokens that are at least ``min_p`` times as probable as the most probable one."""
    return _only(log_probs, log_probs >= log_probs.amax(dim=-1, keepdim=True) + math.log(min_p))


def _only(log_probs: LogProbs, wanted: Bool[Tensor, "... vocab"]) -> LogProbs:
    return log_probs.masked_fill(~wanted, -math.inf).log_softmax(dim=-1)
