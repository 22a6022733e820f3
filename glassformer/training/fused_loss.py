"""The output projection and the training loss fused, a chunk of positions at a time. Sections 3.4 and 5.4.

The logits of all positions would be by far the largest matrix of a step. They are computed, differentiated and
dropped in chunks that stay in the processor's cache. While a trace records, ``smoothed_loss`` on all logits runs
instead.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from glassformer.model.transformer import Transformer
from glassformer.trace import is_tracing
from glassformer.training.loss import p_minus_q, smoothed_loss, symmetric_kl, symmetric_kl_sum, token_losses

# Positions per chunk: on a CPU the logits of one fit its cache, elsewhere one is enough to fill the device.
CPU_CHUNK, DEVICE_CHUNK = 512, 8192


class Objective(nn.Module):
    """A model and its loss as one module: an update differentiates it, several processes distribute it."""

    def __init__(self, model: Transformer, smoothing: float, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model, self.smoothing, self.r_drop = model, smoothing, r_drop

    def forward(
        self,
        src_ids: Int[Tensor, "batch src"],
        tgt_in_ids: Int[Tensor, "batch tgt"],
        tgt_out_ids: Int[Tensor, "batch tgt"],
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The smoothed loss and the negative log-likelihood, in nats, summed over real target tokens.

        With R-Drop the batch is passed twice, as the halves of one batch: both losses are means of the two passes,
        and the smoothed one includes the divergence.
        """
        if self.r_drop:
            src_ids, tgt_in_ids, tgt_out_ids = (torch.cat([ids, ids]) for ids in (src_ids, tgt_in_ids, tgt_out_ids))
        real = tgt_out_ids != self.model.config.pad_id
        if is_tracing() or torch.compiler.is_compiling():
            return self._unfused_loss(self.model.hidden(src_ids, tgt_in_ids), tgt_out_ids, real)
        x, targets = self._hidden(src_ids, tgt_in_ids, real), tgt_out_ids[real].long()
        if self.r_drop:
            x, targets = _interleave_halves(x), _interleave_halves(targets)
        linear = self.model.output_projection.linear
        # torch's apply is untyped
        return ProjectedLoss.apply(  # type: ignore[no-any-return,no-untyped-call]
            x, linear.weight, linear.bias, targets, self.smoothing, self.r_drop, torch.is_grad_enabled()
        )

    def _hidden(self, src_ids: Tensor, tgt_in_ids: Tensor, real: Tensor) -> Float[Tensor, "row d_model"]:
        """The projection's input at real positions; computed without padding on a CPU, where the check is cheap."""
        is_prefix = real.device.type == "cpu" and bool((real[:, 1:] <= real[:, :-1]).all())
        if is_prefix and bool(real.any()) and bool((src_ids != self.model.config.pad_id).any()):
            return self.model.hidden_rows(src_ids, tgt_in_ids, real)[0]
        return self.model.hidden(src_ids, tgt_in_ids)[real]

    def _unfused_loss(self, hidden: Tensor, tgt_out_ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model.output_projection(hidden)
        loss, nll, _ = smoothed_loss(logits, tgt_out_ids, self.model.config.pad_id, self.smoothing)
        if not self.r_drop:
            return loss, nll
        return (loss + self.r_drop * symmetric_kl_sum(logits, real.chunk(2)[0])) / 2, nll / 2


def _interleave_halves(rows: Tensor) -> Tensor:
    """Put each row of the second half directly after its counterpart in the first."""
    return torch.stack(rows.chunk(2), 1).flatten(0, 1)


class ProjectedLoss(torch.autograd.Function):
    """``SmoothedCrossEntropy`` of x Wᵀ + b; the gradients are computed in the same loop over chunks as the loss."""

    @staticmethod
    def forward(  # noqa: PLR0917  # autograd passes no keywords
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        r_drop: float,
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        """``x`` (position d_model), ``targets`` (position): the smoothed and the plain loss, summed.

        With ``r_drop`` each two adjacent positions are the two passes of one. ``needs_grad`` is an argument because
        the gradient mode of the caller cannot be seen here.
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
            loss_sum += loss.sum()
            nll_sum += nll.sum()
            kl, grad_kl = symmetric_kl(logits, p) if r_drop else (None, None)
            if kl is not None:
                loss_sum += r_drop * kl.sum()
            if grad_x is not None and grad_weight is not None:
                grad_logits = p_minus_q(p, chunk_targets, smoothing)
                if grad_kl is not None:
                    grad_logits.add_(grad_kl, alpha=r_drop)
                if grad_bias is not None:
                    grad_bias += grad_logits.sum(0)
                grad_logits = grad_logits.to(chunk.dtype)
                _matmul_into(grad_logits, matrix, out=grad_x[start : start + rows])
                _add_matmul(grad_logits.t(), chunk, total=grad_weight)
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
        return (*(None if g is None else g.mul_(scale) for g in gradients), None, None, None, None)


def _autocast(x: Tensor) -> Tensor:
    """``x`` in the type that autocast, if enabled, uses for matrix products."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def _matmul_into(left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """Write the product of ``left`` and ``right`` to ``out``, which may have another type."""
    if left.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left @ right)


def _add_matmul(left: Tensor, right: Tensor, *, total: Tensor) -> None:
    """Add the product of ``left`` and ``right`` to ``total``, which may have another type."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)
