"""The training loss: cross-entropy against the smoothed target distribution. Section 5.4.

Knows nothing of models or of padding ids: it is given the logits of real positions alone.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


class SmoothedCrossEntropy(torch.autograd.Function):
    """-Σ_t q(t) log p(t) with q = (1 - ε) on the target + ε / vocab everywhere, summed over tokens.

    The gradient, p - q, is written down rather than derived, so that only the logits and one number a token
    are kept and the wide matrix is passed over as seldom as possible.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """``logits`` (tokens vocab), ``targets`` (tokens): the smoothed and the plain loss (nats), summed."""
        log_z = logits.logsumexp(-1, keepdim=True)
        nll = (log_z - logits.gather(-1, targets[:, None])).sum()
        uniform = (log_z.sum() - logits.mean(-1).sum()) if smoothing else torch.zeros_like(nll)
        ctx.save_for_backward(logits, log_z, targets)
        ctx.smoothing = smoothing
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """p - q, times the gradient of the sum."""
        logits, log_z, targets = ctx.saved_tensors
        gradient = (logits - log_z).exp_()
        gradient.sub_(ctx.smoothing / logits.shape[-1])
        gradient[torch.arange(len(targets), device=targets.device), targets] -= 1 - ctx.smoothing
        return gradient.mul_(grads[0]), None, None


def smoothed_loss(
    logits: Float[Tensor, "batch tgt vocab"], tgt_out_ids: Int[Tensor, "batch tgt"], pad_id: int, smoothing: float
) -> tuple[Tensor, Tensor, int]:
    """The smoothed loss and the negative log-likelihood (nats, summed over real tokens), and how many tokens.

    Padding positions count in neither; a batch of nothing but padding gives zeros.
    """
    real = tgt_out_ids.flatten() != pad_id
    rows = logits.flatten(0, 1)[real].float()
    targets = tgt_out_ids.flatten()[real]
    loss, nll = SmoothedCrossEntropy.apply(rows, targets, smoothing)  # type: ignore[no-untyped-call]
    return loss, nll, len(targets)
