"""Filters: which tokens a draw may choose from, as pure functions on log-probabilities.

Each takes and returns log-probabilities (... vocab) whose exponentials sum to 1; what it leaves out is -inf.
Temperature comes first, and takes those that sum to less, because padding and bos are left out.
Knows nothing of models. The paper has no sampling; top_p is Holtzman et al. 2020 (arXiv 1904.09751), min_p
Nguyen et al. 2024 (arXiv 2407.01082), typical_p Meister et al. 2022 (arXiv 2202.00666).

Rules: what changes the model's distribution before an id is chosen, as pure functions on log-probabilities.

Each takes log-probabilities (rows vocab) and the ids written so far (rows step), and returns log-probabilities; what
it forbids is -inf. Nothing is scaled back to a sum of 1, so that no rule makes an id likelier than the model does:
a sum over ids still only falls, which the end of beam search rests on. Knows nothing of models.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding.constraints import Demanded, all_met, ending

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


Prefixes = Int[Tensor, "rows step"]


def has_rules(options: DecodeConfig, demanded: Demanded | None) -> bool:
    """Whether ``ruled`` can change anything."""
    wanted = options.repetition_penalty > 1.0 or options.no_repeat_ngram > 0 or options.min_length > 0
    return wanted or demanded is not None


def ruled(
    log_probs: LogProbs, prefixes: Prefixes, options: DecodeConfig, demanded: Demanded | None, config: ModelConfig
) -> LogProbs:
    """All rules that are set, in this order; ``demanded`` has a row for each row. A prefix goes alone."""
    own = log_probs
    if options.repetition_penalty > 1.0:
        log_probs = less_repeated(log_probs, prefixes, options.repetition_penalty)
    if options.no_repeat_ngram:
        log_probs = without_ngrams(log_probs, prefixes, options.no_repeat_ngram)
    if prefixes.shape[1] < options.min_length:
        log_probs = without_end(log_probs, torch.ones_like(log_probs[:, 0], dtype=torch.bool), config.eos_id)
    if demanded is not None:
        unmet = ~all_met(prefixes, demanded.required, config.pad_id)
        log_probs = without_end(log_probs, unmet, config.eos_id)
        log_probs = without_banned(log_probs, prefixes, demanded.banned, config.pad_id)
        log_probs = forced(log_probs, own, demanded.prefixes, prefixes.shape[1], config.pad_id)
    return log_probs


def less_repeated(log_probs: LogProbs, prefixes: Prefixes, penalty: float) -> LogProbs:
    """The log-probability of each id that was written before times ``penalty``, once however often it was.

    Keskar et al. 2019 (arXiv 1909.05858) divide logits, which rewards a repetition where they are negative.
    Log-probabilities are never positive: multiplied, they only fall.
    """
    return log_probs.scatter(1, prefixes, log_probs.gather(1, prefixes) * penalty)


def without_ngrams(log_probs: LogProbs, prefixes: Prefixes, n: int) -> LogProbs:
    """No id that would end a sequence of ``n`` ids that is there already."""
    if prefixes.shape[1] < n:
        return log_probs
    ngrams = prefixes.unfold(1, n, 1)
    last = prefixes[:, None, prefixes.shape[1] - n + 1 :]
    return _without(log_probs, ngrams[:, :, -1], (ngrams[:, :, :-1] == last).all(dim=2))


def without_end(log_probs: LogProbs, where: Bool[Tensor, "rows"], eos_id: int) -> LogProbs:
    """No end in the rows that are True."""
    ends = torch.full((len(where), 1), eos_id, device=where.device)
    return _without(log_probs, ends, where[:, None])


def without_banned(
    log_probs: LogProbs, prefixes: Prefixes, banned: Int[Tensor, "rows phrase tgt"], pad_id: int
) -> LogProbs:
    """No id that would complete a sequence that its row must not hold."""
    lengths = (banned != pad_id).sum(dim=2)
    if not banned.numel():
        return log_probs
    last = banned.gather(2, (lengths - 1).clamp(min=0)[:, :, None]).squeeze(2)
    past = banned.masked_fill(torch.arange(banned.shape[2], device=banned.device) == lengths[:, :, None] - 1, pad_id)
    return _without(log_probs, last, ending(prefixes, past, pad_id) & (lengths > 0))


def forced(
    log_probs: LogProbs, own: LogProbs, forced_ids: Int[Tensor, "rows tgt"], step: int, pad_id: int
) -> LogProbs:
    """The next id of a prefix alone, as the model sees it, in rows whose prefix goes on; the others as they are."""
    if step >= forced_ids.shape[1]:
        return log_probs
    ids = forced_ids[:, step, None]
    alone = torch.full_like(own, -math.inf).scatter(1, ids, own.gather(1, ids))
    return torch.where(ids == pad_id, log_probs, alone)


def _without(log_probs: LogProbs, ids: Int[Tensor, "rows some"], where: Bool[Tensor, "rows some"]) -> LogProbs:
    """-inf at each row's ``ids`` that ``where`` marks."""
    marked = torch.zeros_like(log_probs).scatter_add(1, ids, where.to(log_probs.dtype))
    return log_probs.masked_fill(marked > 0, -math.inf)
