"""Filters: pure functions that change the distribution before a token is chosen.

Two kinds, with registers at the end of this file. Processors act in every search and in sampling, before the
constraints: on log-probabilities (rows vocab) and the ids so far (rows step). They forbid by -inf and do not
renormalise. Sampling filters choose which tokens may be sampled, and renormalise.

A new filter is a field of ``DecodeConfig``, an entry here, and a check in ``explain/entries``. Sources: top_p,
Holtzman et al. 2020 (arXiv 1904.09751); min_p, Nguyen et al. 2024 (2407.01082); typical_p, Meister et al. 2022
(2202.00666).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.decoding.search.constraints import ConstraintBatch, contains, matched_prefix
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text.tokenizer.kinds import UNK_ID
from glassformer.trace import note

LogProbs = Float[Tensor, "... vocab"]
Prefixes = Int[Tensor, "rows step"]


@dataclass(frozen=True)
class Filter:
    """A filter's setting in ``DecodeConfig`` and its arithmetic.

    Processors: ``apply(log_probs, prefixes, value, config)``; sampling: ``apply(log_probs, value)``.
    """

    setting: str
    apply: Callable[..., LogProbs]
    always: bool = False
    """Whether it also acts at its default."""

    def is_active(self, options: DecodeConfig) -> bool:
        """Whether it acts with these options."""
        return self.always or getattr(options, self.setting) != getattr(type(options), self.setting)


def has_processors(options: DecodeConfig, constraints: ConstraintBatch | None) -> bool:
    """Whether ``process_log_probs`` can change anything."""
    return constraints is not None or any(one.is_active(options) for one in PROCESSORS)


def process_log_probs(
    log_probs: LogProbs,
    prefixes: Prefixes,
    options: DecodeConfig,
    constraints: ConstraintBatch | None,
    config: ModelConfig,
) -> LogProbs:
    """Apply all processors that are set, by row."""
    if not has_processors(options, constraints):
        return log_probs
    processed = log_probs
    for one in PROCESSORS:
        if one.is_active(options):
            processed = one.apply(processed, prefixes, getattr(options, one.setting), config)
    if constraints is not None:
        processed = constrain(processed, log_probs, prefixes, constraints, config)
    note("search.processed_log_probs", processed, "batch vocab")
    return processed


def filter_log_probs(log_probs: LogProbs, options: DecodeConfig) -> LogProbs:
    """The distribution after all sampling filters that are set."""
    for one in SAMPLING_FILTERS:
        if one.is_active(options):
            log_probs = one.apply(log_probs, getattr(options, one.setting))
    return log_probs


def apply_repetition_penalty(
    log_probs: LogProbs, prefixes: Prefixes, penalty: float, _config: ModelConfig
) -> LogProbs:
    """Multiply the log-probability of each id that occurs by ``penalty``, once.

    Keskar et al. 2019 (arXiv 1909.05858) divide logits.
    """
    return log_probs.scatter(1, prefixes, log_probs.gather(1, prefixes) * penalty)


def block_repeated_ngrams(log_probs: LogProbs, prefixes: Prefixes, n: int, _config: ModelConfig) -> LogProbs:
    """Forbid each id that would repeat a sequence of ``n`` ids."""
    if prefixes.shape[1] < n:
        return log_probs
    ngrams = prefixes.unfold(1, n, 1)
    last = prefixes[:, None, prefixes.shape[1] - n + 1 :]
    return _forbid(log_probs, ngrams[:, :, -1], (ngrams[:, :, :-1] == last).all(dim=2))


def forbid_early_end(log_probs: LogProbs, prefixes: Prefixes, least: int, config: ModelConfig) -> LogProbs:
    """Forbid eos while there are fewer than ``least`` ids."""
    if prefixes.shape[1] >= least:
        return log_probs
    return forbid_end(log_probs, torch.ones_like(log_probs[:, 0], dtype=torch.bool), config.eos_id)


def forbid_unknown(log_probs: LogProbs, _prefixes: Prefixes, _allowed: bool, _config: ModelConfig) -> LogProbs:
    """Forbid <unk>."""
    return log_probs.index_fill(1, torch.tensor(UNK_ID, device=log_probs.device), -math.inf)


def constrain(
    log_probs: LogProbs, from_model: LogProbs, prefixes: Prefixes, constraints: ConstraintBatch, config: ModelConfig
) -> LogProbs:
    """Apply each row's constraints; ``from_model``: before processors."""
    unmet = ~contains(prefixes, constraints.required, constraints.starts, config.pad_id).all(dim=1)
    log_probs = forbid_end(log_probs, unmet, config.eos_id)
    log_probs = forbid_banned(log_probs, prefixes, constraints.banned, config.pad_id)
    return force_prefix(log_probs, from_model, constraints.prefixes, prefixes.shape[1], config.pad_id)


def forbid_end(log_probs: LogProbs, where: Bool[Tensor, "rows"], eos_id: int) -> LogProbs:
    """Forbid eos in the rows that ``where`` marks."""
    return _forbid(log_probs, torch.full((len(where), 1), eos_id, device=where.device), where[:, None])


def forbid_banned(
    log_probs: LogProbs, prefixes: Prefixes, banned: Int[Tensor, "rows phrase tgt"], pad_id: int
) -> LogProbs:
    """Forbid each id that would complete a banned sequence."""
    if not banned.numel():
        return log_probs
    before = (banned != pad_id).sum(dim=2) - 1  # -1: no sequence
    last = banned.gather(2, before.clamp(min=0)[:, :, None]).squeeze(2)
    past = banned.masked_fill(torch.arange(banned.shape[2], device=banned.device) == before[:, :, None], pad_id)
    return _forbid(log_probs, last, matched_prefix(prefixes, past, pad_id) == before)


def force_prefix(
    log_probs: LogProbs, from_model: LogProbs, prefix_ids: Int[Tensor, "rows tgt"], step: int, pad_id: int
) -> LogProbs:
    """Allow only the next id of an incomplete prefix."""
    if step >= prefix_ids.shape[1]:
        return log_probs
    ids = prefix_ids[:, step, None]
    alone = torch.full_like(from_model, -math.inf).scatter(1, ids, from_model.gather(1, ids))
    return torch.where(ids == pad_id, log_probs, alone)


def _forbid(log_probs: LogProbs, ids: Int[Tensor, "rows some"], where: Bool[Tensor, "rows some"]) -> LogProbs:
    marked = torch.zeros_like(log_probs).scatter_add(1, ids, where.to(log_probs.dtype))
    return log_probs.masked_fill(marked > 0, -math.inf)


def apply_temperature(log_probs: LogProbs, temperature: float) -> LogProbs:
    """Probabilities to the power of 1 / ``temperature``."""
    return (log_probs / temperature).log_softmax(dim=-1)


def keep_top_k(log_probs: LogProbs, k: int) -> LogProbs:
    """The ``k`` most probable tokens, never more for ties."""
    if k >= log_probs.shape[-1]:
        return log_probs
    best = log_probs.topk(k, dim=-1)
    nothing = log_probs.new_full(log_probs.shape, -math.inf)
    return nothing.scatter(-1, best.indices, best.values).log_softmax(dim=-1)


def keep_top_p(log_probs: LogProbs, p: float) -> LogProbs:
    """The smallest set, of one or more, with a probability of ``p``."""
    return _keep_first(log_probs, log_probs.argsort(dim=-1, descending=True, stable=True), p)


def keep_min_p(log_probs: LogProbs, min_p: float) -> LogProbs:
    """The tokens at least ``min_p`` times as probable as the best."""
    return _keep(log_probs, log_probs >= log_probs.amax(dim=-1, keepdim=True) + math.log(min_p))


def keep_typical_p(log_probs: LogProbs, p: float) -> LogProbs:
    """The smallest set of most typical tokens with a probability of at least ``p``.

    Typical: the information -log_prob is close to the entropy.
    """
    entropy = torch.special.entr(log_probs.double().exp()).sum(dim=-1, keepdim=True)
    return _keep_first(log_probs, (entropy + log_probs).abs().argsort(dim=-1, stable=True), p)


def _keep_first(log_probs: LogProbs, order: Int[Tensor, "... vocab"], p: float) -> LogProbs:
    probabilities = log_probs.double().exp().gather(-1, order)
    kept = probabilities.cumsum(dim=-1) - probabilities < p
    kept[..., 0] = True
    return _keep(log_probs, kept.new_zeros(kept.shape).scatter(-1, order, kept))


def _keep(log_probs: LogProbs, kept: Bool[Tensor, "... vocab"]) -> LogProbs:
    return log_probs.masked_fill(~kept, -math.inf).log_softmax(dim=-1)


# In order of application.
PROCESSORS = (
    Filter("repetition_penalty", apply_repetition_penalty),
    Filter("no_repeat_ngram", block_repeated_ngrams),
    Filter("min_length", forbid_early_end),
    Filter("allow_unk", forbid_unknown),
)
SAMPLING_FILTERS = (
    Filter("temperature", apply_temperature, always=True),  # renormalises
    Filter("top_k", keep_top_k),
    Filter("top_p", keep_top_p),
    Filter("min_p", keep_min_p),
    Filter("typical_p", keep_typical_p),
)
