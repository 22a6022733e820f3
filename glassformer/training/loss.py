"""The training loss: cross-entropy against the smoothed target distribution. Section 5.4.

Knows nothing of models: it is given logits.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.errors import InputError
from glassformer.model.inputs import check_id_shape, check_id_values
from glassformer.trace import note


class SmoothedCrossEntropy(torch.autograd.Function):
    """-Σ_t q(t) log p(t) with q = (1 - ε) on the target + ε / vocab everywhere, summed over real positions.

    The gradient, p - q, is written down rather than derived, and takes the place of p in memory: the widest
    matrix of the whole step is passed over as seldom as possible.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, real: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """``logits`` (batch tgt vocab), ``targets`` and ``real`` (batch tgt): the smoothed and the plain loss."""
        p = logits.softmax(-1)
        note("loss.log_probs", lambda: logits.log_softmax(-1), "batch tgt vocab")
        loss, nll = (values * real for values in token_losses(logits, p, targets, smoothing))
        note("loss.nll_per_token", nll, "batch tgt")
        note("loss.per_token", loss, "batch tgt")
        ctx.save_for_backward(targets, real)
        ctx.p, ctx.smoothing = p, smoothing
        nll_sum = nll.sum()
        ctx.mark_non_differentiable(nll_sum)
        return loss.sum(), nll_sum

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        """p - q where a position is real, times the gradient of the sum. Can be asked for once."""
        targets, real = ctx.saved_tensors
        p, ctx.p = ctx.p, None
        gradient = p_minus_q(p, targets, ctx.smoothing)
        return gradient.mul_((grads[0] * real)[..., None]), None, None, None


def token_losses(
    logits: Float[Tensor, "*axes vocab"],
    p: Float[Tensor, "*axes vocab"],
    targets: Int[Tensor, "*axes"],
    smoothing: float,
) -> tuple[Float[Tensor, "*axes"], Float[Tensor, "*axes"]]:
    """-Σ_t q(t) log p(t) and -log p(target) at each position, in nats, where ``p`` is the softmax of ``logits``."""
    log_sum = log_sums(logits, p)
    nll = log_sum - logits.gather(-1, targets[..., None]).squeeze(-1)
    return ((1 - smoothing) * nll + smoothing * (log_sum - logits.mean(-1)) if smoothing else nll), nll


def log_sums(logits: Float[Tensor, "*axes vocab"], p: Float[Tensor, "*axes vocab"]) -> Float[Tensor, "*axes"]:
    """log Σ exp logits, for log p = logits - that; known from the greatest logit, whose p is never near 0."""
    return logits.amax(-1) - p.amax(-1).log()


def p_minus_q(
    p: Float[Tensor, "*axes vocab"], targets: Int[Tensor, "*axes"], smoothing: float
) -> Float[Tensor, "*axes vocab"]:
    """The gradient of the smoothed loss with respect to each position's logits; it takes the place of ``p``."""
    gradient = p.sub_(smoothing / p.shape[-1])
    at_target = torch.full_like(targets, smoothing - 1, dtype=gradient.dtype)[..., None]
    return gradient.scatter_add_(-1, targets[..., None], at_target)


def smoothed_loss(
    logits: Float[Tensor, "batch tgt vocab"], tgt_out_ids: Int[Tensor, "batch tgt"], pad_id: int, smoothing: float
) -> tuple[Tensor, Tensor, int]:
    """The smoothed loss and the negative log-likelihood (nats, summed over real tokens), and how many tokens.

    Padding positions count in neither; a batch of nothing but padding gives zeros. Raises ``InputError`` when
    logits and targets are not of the same positions, or the logits are probabilities already.
    """
    _check(logits, tgt_out_ids, pad_id)
    tgt_out_ids = tgt_out_ids.long()
    real = tgt_out_ids != pad_id
    note("loss.target_distribution", lambda: smoothed_targets(tgt_out_ids, real, logits.shape[-1], smoothing),
         "batch tgt vocab")  # fmt: skip
    loss, nll = SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits.float(), tgt_out_ids, real, smoothing
    )
    return loss, nll, int(real.sum())


def smoothed_targets(
    tgt_out_ids: Int[Tensor, "batch tgt"], real: Bool[Tensor, "batch tgt"], vocab: int, smoothing: float
) -> Float[Tensor, "batch tgt vocab"]:
    """q: 1 - ε on the target + ε / vocab everywhere; zeros at padding."""
    q = torch.full((*tgt_out_ids.shape, vocab), smoothing / vocab, device=tgt_out_ids.device)
    q.scatter_add_(-1, tgt_out_ids[..., None], torch.full_like(q[..., :1], 1 - smoothing))
    return q * real[..., None]


def _check(logits: Tensor, tgt_out_ids: Tensor, pad_id: int) -> None:
    if logits.ndim != 3:
        raise InputError(
            f"logits: found {tuple(logits.shape)}, expected (batch, tgt, vocab). "
            "Give what the model returned, neither flattened nor cut."
        )
    check_id_shape("tgt_out_ids", tgt_out_ids)
    for axis, found, expected in zip(("batch", "tgt"), logits.shape, tgt_out_ids.shape, strict=False):
        if found != expected:
            advice = "Cut one target in two: the model reads tgt[:, :-1], the loss tgt[:, 1:]."
            if logits.shape[2] == tgt_out_ids.shape[1]:
                advice = "Give (batch, tgt, vocab), as the model returned it, not transposed."
            raise InputError(
                f"logits: axis {axis} has {found}, tgt_out_ids has {expected}, expected as many. {advice}"
            )
    check_id_values("tgt_out_ids", tgt_out_ids, logits.shape[2], pad_id)
    _refuse_probabilities(logits)


def _refuse_probabilities(logits: Tensor) -> None:
    """The softmax of a softmax is nearly flat: little is learned of it. One row shows it, where looking is free."""
    if torch.compiler.is_compiling() or logits.device.type != "cpu" or logits.numel() == 0:
        return
    row = logits[0].detach().float()
    if row.amin() >= 0 and (row.sum(-1) - 1).abs().amax() < 0.01:
        raise InputError(
            "logits: found probabilities, which sum to 1 over axis vocab; expected logits, of any sum. "
            "Leave the softmax out: the loss takes it itself."
        )
