"""Filters: which tokens a draw may choose from, as pure functions on log-probabilities.

Each takes and returns log-probabilities (... vocab) whose exponentials sum to 1; what it leaves out is -inf.
Temperature comes first, and takes those that sum to less, because padding and bos are left out.
Knows nothing of models. The paper has no sampling; top_p is Holtzman et al. 2020 (arXiv 1904.09751), min_p
Nguyen et al. 2024 (arXiv 2407.01082), typical_p Meister et al. 2022 (arXiv 2202.00666).
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config import DecodeConfig

LogProbs = Float[Tensor, "... vocab"]


def filtered(log_probs: LogProbs, options: DecodeConfig) -> LogProbs:
    """The distribution to draw from: temperature, top_k, top_p, min_p and typical_p, in this order, if set."""
    log_probs = with_temperature(log_probs, options.temperature)
    if 0 < options.top_k < log_probs.shape[-1]:
        log_probs = keep_top_k(log_probs, options.top_k)
    if options.top_p < 1.0:
        log_probs = keep_top_p(log_probs, options.top_p)
    if options.min_p > 0.0:
        log_probs = keep_min_p(log_probs, options.min_p)
    if options.typical_p < 1.0:
        log_probs = keep_typical_p(log_probs, options.typical_p)
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
    return _first(log_probs, log_probs.argsort(dim=-1, descending=True, stable=True), p)


def keep_min_p(log_probs: LogProbs, min_p: float) -> LogProbs:
    """The tokens that are at least ``min_p`` times as probable as the most probable one."""
    return _only(log_probs, log_probs >= log_probs.amax(dim=-1, keepdim=True) + math.log(min_p))


def keep_typical_p(log_probs: LogProbs, p: float) -> LogProbs:
    """The smallest set, the most typical tokens first, whose probabilities sum to at least ``p``.

    How typical a token is says the distance of its information, -log_prob, from what is expected of a token here:
    the distribution's entropy. So the most probable token may be left out, where it would say too little.
    """
    entropy = torch.special.entr(log_probs.double().exp()).sum(dim=-1, keepdim=True)
    return _first(log_probs, (entropy + log_probs).abs().argsort(dim=-1, stable=True), p)


def _first(log_probs: LogProbs, order: Int[Tensor, "... vocab"], p: float) -> LogProbs:
    """The first tokens in ``order`` up to a sum of at least ``p``, and at least one."""
    probabilities = log_probs.double().exp().gather(-1, order)
    wanted = probabilities.cumsum(dim=-1) - probabilities < p
    wanted[..., 0] = True
    return _only(log_probs, wanted.new_zeros(wanted.shape).scatter(-1, order, wanted))


def _only(log_probs: LogProbs, wanted: Bool[Tensor, "... vocab"]) -> LogProbs:
    return log_probs.masked_fill(~wanted, -math.inf).log_softmax(dim=-1)
