"""The training loss: cross-entropy against the smoothed target distribution. Section 5.4.

Knows nothing of models: it is given logits.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


class SmoothedCrossEntropy(torch.autograd.Function):
    """-Σ_t q(t) log p(t) with q = (1 - ε) on the target + ε / vocab everywhere, summed over real positions.

    The gradient, p - q, is written down rather than derived, and takes the place of log p in memory: the widest
    matrix of the whole step is passed over as seldom as possible.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, real: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """``logits`` (positions vocab), ``targets`` and ``real`` (positions): the smoothed and the plain loss."""
        log_p = logits.log_softmax(-1)
        nll = -(log_p.gather(-1, targets[:, None]).squeeze(-1) * real).sum()
        uniform = -(log_p.mean(-1) * real).sum() if smoothing else torch.zeros_like(nll)
        ctx.save_for_backward(targets, real)
        ctx.log_p, ctx.smoothing = log_p, smoothing
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        """p - q where a position is real, times the gradient of the sum. Can be asked for once."""
        targets, real = ctx.saved_tensors
        gradient, ctx.log_p = ctx.log_p.exp_(), None
        gradient.sub_(ctx.smoothing / gradient.shape[-1])
        gradient[torch.arange(len(targets), device=targets.device), targets] -= 1 - ctx.smoothing
        return gradient.mul_((grads[0] * real)[:, None]), None, None, None


def smoothed_loss(
    logits: Float[Tensor, "batch tgt vocab"], tgt_out_ids: Int[Tensor, "batch tgt"], pad_id: int, smoothing: float
) -> tuple[Tensor, Tensor, int]:
    """The smoothed loss and the negative log-likelihood (nats, summed over real tokens), and how many tokens.

    Padding positions count in neither; a batch of nothing but padding gives zeros.
    """
    targets = tgt_out_ids.flatten()
    real = targets != pad_id
    loss, nll = SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits.flatten(0, 1).float(), targets, real, smoothing
    )
    return loss, nll, int(real.sum())
