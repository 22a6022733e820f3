"""The output projection and the training loss fused. Sections 3.4 and 5.4.

The logits of all positions would be by far the largest matrix of a step. They are computed, differentiated and
dropped in chunks that stay in the processor's cache. ``plain_projected_loss`` leaves that to a compiler.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from glassformer.training.objective.loss import p_minus_q, symmetric_kl, token_losses

# Positions per chunk: on a CPU the logits of one fit its cache, elsewhere one is enough to fill the device.
CPU_CHUNK, DEVICE_CHUNK = 512, 8192


class ProjectedLoss(torch.autograd.Function):
    """``SmoothedCrossEntropy`` of x Wᵀ + b, and gradients in the same loop."""

    @staticmethod
    def forward(  # noqa: PLR0917  # autograd passes no keywords
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        real: Tensor | None,
        smoothing: float,
        r_drop: float,
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        """``x`` (position d_model), ``targets`` and ``real`` (position): the smoothed and the plain loss, summed.

        With ``r_drop`` each two adjacent positions are the two passes of one.
        """
        inputs, matrix = _autocast(x), _autocast(weight)
        grad_x, grad_weight = (torch.zeros_like(tensor) if needs_grad else None for tensor in (x, weight))
        grad_bias = torch.zeros_like(bias) if needs_grad and bias is not None else None
        loss_sum, nll_sum = (x.new_zeros((), dtype=torch.float32) for _ in range(2))  # no views: FSDP warns of them
        rows = CPU_CHUNK if x.device.type == "cpu" else DEVICE_CHUNK
        rows += rows % 2 if r_drop else 0
        buffers = x.new_empty(2, min(rows, len(x)), len(weight), dtype=torch.float32)
        for start in range(0, len(x), rows):
            chunk, chunk_targets = inputs[start : start + rows], targets[start : start + rows]
            logits, p = buffers[:, : len(chunk)]
            _matmul_into(chunk, matrix.t(), out=logits)
            if bias is not None:
                logits += bias
            torch.softmax(logits, -1, out=p)
            loss, nll = token_losses(logits, p, chunk_targets, smoothing)
            kl, grad_kl = symmetric_kl(logits, p) if r_drop else (None, None)
            if real is not None:
                counts = real[start : start + rows]
                loss, nll, kl = loss * counts, nll * counts, None if kl is None else kl * counts[::2]
            loss_sum += loss.sum()
            nll_sum += nll.sum()
            if kl is not None:
                loss_sum += r_drop * kl.sum()
            if grad_x is not None and grad_weight is not None:
                grad_logits = p_minus_q(p, chunk_targets, smoothing)
                if grad_kl is not None:
                    grad_logits.add_(grad_kl, alpha=r_drop)
                if real is not None:
                    grad_logits *= real[start : start + rows, None]
                if grad_bias is not None:
                    grad_bias += grad_logits.sum(0)
                grad_logits = grad_logits.to(chunk.dtype)
                _matmul_into(grad_logits, matrix, out=grad_x[start : start + rows])
                if chunk.dtype == grad_weight.dtype:
                    grad_weight.addmm_(grad_logits.t(), chunk)
                else:
                    grad_weight.add_(grad_logits.t() @ chunk)
        passes = 2 if r_drop else 1
        ctx.gradients, ctx.passes = (grad_x, grad_weight, grad_bias), passes
        nll_sum /= passes
        ctx.mark_non_differentiable(nll_sum)
        return loss_sum / passes, nll_sum

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients from ``forward`` times that of the sum. It can be called once."""
        gradients, ctx.gradients = ctx.gradients, None
        scale = grads[0] / ctx.passes
        return (*(None if g is None else g.mul_(scale) for g in gradients), None, None, None, None, None)


def plain_projected_loss(
    x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, real: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The same for autograd and a compiler."""
    logits = linear(x, weight, bias).float()
    log_probs = logits - logits.logsumexp(-1, keepdim=True)
    nll = -log_probs.gather(-1, targets[:, None]).squeeze(-1) * real
    loss = (1 - smoothing) * nll - smoothing * log_probs.mean(-1) * real
    return loss.sum(), nll.sum().detach()


def _autocast(x: Tensor) -> Tensor:
    """``x`` in the type that autocast, if enabled, uses for matrix products."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def _matmul_into(left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """Write a product to ``out``, which may have another type."""
    if left.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left @ right)
