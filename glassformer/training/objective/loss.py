"""The training loss of logits: cross-entropy with label smoothing, section 5.4, and the divergence of R-Drop.

R-Drop (Liang et al. 2021, arXiv 2106.14448) passes a batch twice, and adds α ½ (KL(p1 ‖ p2) + KL(p2 ‖ p1)) to the
sum of both cross-entropies of a token. Here it is half of that, to be comparable; Adam's updates are the same.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.errors import InputError
from glassformer.model.checks import check_id_shape, check_id_values
from glassformer.trace import note


class SmoothedCrossEntropy(torch.autograd.Function):
    """-Σ_t q(t) log p(t) with q = (1 - ε) on the target + ε / vocab everywhere, summed over real positions.

    The gradient, p - q, is written by hand and overwrites p: autograd would go over the largest matrix of the step
    more often.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, real: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """Both losses of ``logits`` (batch tgt vocab)."""
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
        """p - q at real positions, times the gradient of the sum. It can be called once."""
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
    """log Σ exp logits, computed from the largest logit, whose p is never near 0."""
    return logits.amax(-1) - p.amax(-1).log()


def p_minus_q(
    p: Float[Tensor, "*axes vocab"], targets: Int[Tensor, "*axes"], smoothing: float
) -> Float[Tensor, "*axes vocab"]:
    """The gradient of the smoothed loss; overwrites ``p``."""
    gradient = p.sub_(smoothing / p.shape[-1])
    at_target = torch.full_like(targets, smoothing - 1, dtype=gradient.dtype)[..., None]
    return gradient.scatter_add_(-1, targets[..., None], at_target)


def smoothed_loss(
    logits: Float[Tensor, "batch tgt vocab"], tgt_out_ids: Int[Tensor, "batch tgt"], pad_id: int, smoothing: float
) -> tuple[Tensor, Tensor, int]:
    """The smoothed loss and the negative log-likelihood, in nats summed over real tokens, and the number of tokens.

    Raises ``InputError`` if the shapes do not fit, or if the logits are probabilities already.
    """
    _check_inputs(logits, tgt_out_ids, pad_id)
    tgt_out_ids = tgt_out_ids.long()
    real = tgt_out_ids != pad_id
    note("loss.target_distribution", lambda: smoothed_targets(tgt_out_ids, real, logits.shape[-1], smoothing),
         "batch tgt vocab")  # fmt: skip
    loss, nll = SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]  # torch leaves apply without types
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


def _check_inputs(logits: Tensor, tgt_out_ids: Tensor, pad_id: int) -> None:
    if logits.ndim != 3:
        raise InputError(
            f"logits: found {tuple(logits.shape)}, expected (batch, tgt, vocab). "
            "Pass what the model returned, neither flattened nor sliced."
        )
    check_id_shape("tgt_out_ids", tgt_out_ids)
    for axis, found, expected in zip(("batch", "tgt"), logits.shape, tgt_out_ids.shape, strict=False):
        if found != expected:
            advice = "Slice one target twice: the model reads tgt[:, :-1], the loss tgt[:, 1:]."
            if logits.shape[2] == tgt_out_ids.shape[1]:
                advice = "Pass (batch, tgt, vocab), as the model returned it, not transposed."
            raise InputError(
                f"logits: axis {axis} has {found}, tgt_out_ids has {expected}, expected the same number. {advice}"
            )
    check_id_values("tgt_out_ids", tgt_out_ids, logits.shape[2], pad_id)
    _refuse_probabilities(logits)


def _refuse_probabilities(logits: Tensor) -> None:
    """The softmax of a softmax is nearly flat, and teaches little."""
    if torch.compiler.is_compiling() or logits.device.type != "cpu" or logits.numel() == 0:
        return
    row = logits[0].detach().float()
    if row.amin() >= 0 and (row.sum(-1) - 1).abs().amax() < 0.01:
        raise InputError(
            "logits: found probabilities, which sum to 1 over axis vocab; expected logits. "
            "Leave the softmax out: the loss computes it."
        )


def symmetric_kl(
    logits: Float[Tensor, "twice vocab"], p: Float[Tensor, "twice vocab"]
) -> tuple[Float[Tensor, " position"], Float[Tensor, "twice vocab"]]:
    """½ (KL(p1 ‖ p2) + KL(p2 ‖ p1)) of each pair of adjacent rows, in nats, and its gradient.

    ``p`` is the softmax of ``logits``. The gradient with respect to the first logits of a pair is
    ½ (p1 (d - KL(p1 ‖ p2)) + p1 - p2) with d = log p1 - log p2; for the second, exchange p1 and p2.
    """
    p1, p2, sums = p[::2], p[1::2], log_sums(logits, p)
    ratio = (logits[::2] - logits[1::2]).sub_((sums[::2] - sums[1::2])[:, None])
    first, second = torch.linalg.vecdot(p1, ratio), -torch.linalg.vecdot(p2, ratio)
    gradient = torch.empty_like(logits)
    torch.sub(ratio, (first - 1)[:, None], out=gradient[::2]).mul_(p1).sub_(p2)
    torch.sub((1 - second)[:, None], ratio, out=gradient[1::2]).mul_(p2).sub_(p1)
    return (first + second) / 2, gradient.div_(2)


def symmetric_kl_sum(logits: Float[Tensor, "twice tgt vocab"], real: Bool[Tensor, "batch tgt"]) -> Float[Tensor, ""]:
    """The same for autograd, summed over the real positions of a batch whose second half repeats its first."""
    log_p1, log_p2 = logits.float().log_softmax(-1).chunk(2)
    per_token = ((log_p1.exp() - log_p2.exp()) * (log_p1 - log_p2)).sum(-1) / 2
    return (per_token * real).sum()
