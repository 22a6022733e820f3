"""The output projection and the training loss in one, some positions at a time.

The logits of all positions would be the widest matrix of a step by far: it is made, differentiated and dropped in
parts that stay in the processor's cache. While a trace records, the plain lines run instead. Sections 3.4 and 5.4.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from glassformer.model.transformer import Transformer
from glassformer.trace import is_tracing
from glassformer.training.loss import p_minus_q, smoothed_loss, token_losses

# Positions in one part: on a CPU as many as its cache holds the logits of, elsewhere enough to fill the device.
CPU_PART, DEVICE_PART = 512, 8192


class Objective(nn.Module):
    """A model and its loss as one module: what an update differentiates, and what is spread over processes."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(
        self,
        src_ids: Int[Tensor, "batch src"],
        tgt_in_ids: Int[Tensor, "batch tgt"],
        tgt_out_ids: Int[Tensor, "batch tgt"],
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The smoothed loss and the negative log-likelihood, in nats, summed over real target tokens."""
        hidden = self.model.hidden(src_ids, tgt_in_ids)
        projection, pad_id = self.model.output_projection, self.model.config.pad_id
        if is_tracing() or torch.compiler.is_compiling():
            loss, nll, _ = smoothed_loss(projection(hidden), tgt_out_ids, pad_id, self.smoothing)
            return loss, nll
        real = tgt_out_ids != pad_id
        linear = projection.linear
        return ProjectedLoss.apply(  # type: ignore[no-any-return,no-untyped-call]
            hidden[real], linear.weight, linear.bias, tgt_out_ids[real].long(), self.smoothing,
            torch.is_grad_enabled(),
        )  # fmt: skip


class ProjectedLoss(torch.autograd.Function):
    """``SmoothedCrossEntropy`` of x Wᵀ + b, whose gradients are made together with each part's logits."""

    @staticmethod
    def forward(  # noqa: PLR0917  # autograd knows no keywords
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, learns: bool
    ) -> tuple[Tensor, Tensor]:
        """``x`` (position d_model), ``targets`` (position): the smoothed and the plain loss, summed.

        ``learns`` tells whether gradients are wanted: inside, no gradient mode can be seen.
        """
        factors, matrix = _factor(x), _factor(weight)
        towards = [torch.zeros_like(tensor) for tensor in (x, weight)] if learns else []
        towards_bias = torch.zeros_like(bias) if learns and bias is not None else None
        loss_sum, nll_sum = (x.new_zeros((), dtype=torch.float32) for _ in range(2))  # no views: FSDP warns of them
        rows = CPU_PART if x.device.type == "cpu" else DEVICE_PART
        buffers = x.new_empty(2, min(rows, len(x)), len(weight), dtype=torch.float32)
        for start in range(0, len(x), rows):
            part, aims = factors[start : start + rows], targets[start : start + rows]
            logits, p = buffers[:, : len(part)]
            _multiply(part, matrix.t(), out=logits)
            if bias is not None:
                logits += bias
            torch.softmax(logits, -1, out=p)
            loss, nll = token_losses(logits, p, aims, smoothing)
            loss_sum += loss.sum()
            nll_sum += nll.sum()
            if learns:
                excess = p_minus_q(p, aims, smoothing)
                if towards_bias is not None:
                    towards_bias += excess.sum(0)
                excess = excess.to(part.dtype)
                _multiply(excess, matrix, out=towards[0][start : start + rows])
                _add_product(excess.t(), part, total=towards[1])
        ctx.gradients = (*towards, towards_bias)
        ctx.mark_non_differentiable(nll_sum)
        return loss_sum, nll_sum

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients made in ``forward`` times that of the sum. Can be asked for once."""
        gradients, ctx.gradients = ctx.gradients, None
        return (*(None if g is None else g.mul_(grads[0]) for g in gradients), None, None, None)


def _factor(x: Tensor) -> Tensor:
    """``x`` as autocast has it enter a product."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def _multiply(left: Tensor, right: Tensor, *, out: Tensor) -> None:
    """``left`` times ``right``, both of one type, into ``out`` of perhaps another."""
    if left.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left @ right)


def _add_product(left: Tensor, right: Tensor, *, total: Tensor) -> None:
    """Add ``left`` times ``right`` to ``total``."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)
