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
from glassformer.training.loss import divergence, p_minus_q, plain_divergence, smoothed_loss, token_losses

# Positions in one part: on a CPU as many as its cache holds the logits of, elsewhere enough to fill the device.
CPU_PART, DEVICE_PART = 512, 8192


class Objective(nn.Module):
    """A model and its loss as one module: what an update differentiates, and what a strategy distributes."""

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

        With R-Drop the batch passes twice, as one batch of two halves: means of both passes, and the divergence.
        """
        if self.r_drop:
            src_ids, tgt_in_ids, tgt_out_ids = (torch.cat([ids, ids]) for ids in (src_ids, tgt_in_ids, tgt_out_ids))
        real = tgt_out_ids != self.model.config.pad_id
        if is_tracing() or torch.compiler.is_compiling():
            return self._all_at_once(self.model.hidden(src_ids, tgt_in_ids), tgt_out_ids, real)
        x, targets = self._hidden(src_ids, tgt_in_ids, real), tgt_out_ids[real].long()
        if self.r_drop:
            x, targets = _side_by_side(x), _side_by_side(targets)
        linear = self.model.output_projection.linear
        # torch leaves apply without types
        return ProjectedLoss.apply(  # type: ignore[no-any-return,no-untyped-call]
            x, linear.weight, linear.bias, targets, self.smoothing, self.r_drop, torch.is_grad_enabled()
        )

    def _hidden(self, src_ids: Tensor, tgt_in_ids: Tensor, real: Tensor) -> Float[Tensor, "row d_model"]:
        """The projection's input at real positions; without padding on a CPU, where looking costs no wait."""
        is_prefix = real.device.type == "cpu" and bool((real[:, 1:] <= real[:, :-1]).all())
        if is_prefix and bool(real.any()) and bool((src_ids != self.model.config.pad_id).any()):
            return self.model.hidden_rows(src_ids, tgt_in_ids, real)[0]
        return self.model.hidden(src_ids, tgt_in_ids)[real]

    def _all_at_once(self, hidden: Tensor, tgt_out_ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model.output_projection(hidden)
        loss, nll, _ = smoothed_loss(logits, tgt_out_ids, self.model.config.pad_id, self.smoothing)
        if not self.r_drop:
            return loss, nll
        return (loss + self.r_drop * plain_divergence(logits, real.chunk(2)[0])) / 2, nll / 2


def _side_by_side(rows: Tensor) -> Tensor:
    """The rows of the second half each behind its like in the first."""
    return torch.stack(rows.chunk(2), 1).flatten(0, 1)


class ProjectedLoss(torch.autograd.Function):
    """``SmoothedCrossEntropy`` of x Wᵀ + b, whose gradients are made together with each part's logits."""

    @staticmethod
    def forward(  # noqa: PLR0917  # autograd knows no keywords
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        r_drop: float,
        learns: bool,
    ) -> tuple[Tensor, Tensor]:
        """``x`` (position d_model), ``targets`` (position): the smoothed and the plain loss, summed.

        With ``r_drop`` every two neighbours are one position, passed twice. ``learns`` tells whether gradients are
        wanted: inside, no gradient mode can be seen.
        """
        factors, matrix = _factor(x), _factor(weight)
        towards = [torch.zeros_like(tensor) for tensor in (x, weight)] if learns else []
        towards_bias = torch.zeros_like(bias) if learns and bias is not None else None
        loss_sum, nll_sum = (x.new_zeros((), dtype=torch.float32) for _ in range(2))  # no views: FSDP warns of them
        rows = CPU_PART if x.device.type == "cpu" else DEVICE_PART
        rows += rows % 2 if r_drop else 0
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
            apart, towards_apart = divergence(logits, p) if r_drop else (None, None)
            if apart is not None:
                loss_sum += r_drop * apart.sum()
            if learns:
                excess = p_minus_q(p, aims, smoothing)
                if towards_apart is not None:
                    excess.add_(towards_apart, alpha=r_drop)
                if towards_bias is not None:
                    towards_bias += excess.sum(0)
                excess = excess.to(part.dtype)
                _multiply(excess, matrix, out=towards[0][start : start + rows])
                _add_product(excess.t(), part, total=towards[1])
        passes = 2 if r_drop else 1
        ctx.gradients, ctx.passes = (*towards, towards_bias), passes
        nll_sum /= passes
        ctx.mark_non_differentiable(nll_sum)
        return loss_sum / passes, nll_sum

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients made in ``forward`` times that of the sum. Can be asked for once."""
        gradients, ctx.gradients = ctx.gradients, None
        scale = grads[0] / ctx.passes
        return (*(None if g is None else g.mul_(scale) for g in gradients), None, None, None, None)


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
