"""What an update minimises: a model and its loss as one module. Section 5.4.

Output projection and loss run fused, but not while a trace records. Weights and sums are float32, products bfloat16
if chosen.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.model.transformer import Transformer
from glassformer.trace import is_tracing
from glassformer.training.objective.fused_loss import ProjectedLoss, plain_projected_loss
from glassformer.training.objective.loss import smoothed_loss, symmetric_kl_sum


class Objective(nn.Module):
    """A model and its loss as one module."""

    def __init__(self, model: Transformer, smoothing: float, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model, self.smoothing, self.r_drop = model, smoothing, r_drop
        self.is_compiled = False

    def forward(
        self,
        src_ids: Int[Tensor, "batch src"],
        tgt_in_ids: Int[Tensor, "batch tgt"],
        tgt_out_ids: Int[Tensor, "batch tgt"],
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The smoothed loss and the negative log-likelihood, in nats, summed over real target tokens.

        With R-Drop both are means of two passes, and the smoothed one includes the divergence.
        """
        if self.r_drop:
            src_ids, tgt_in_ids, tgt_out_ids = (torch.cat([ids, ids]) for ids in (src_ids, tgt_in_ids, tgt_out_ids))
        real = tgt_out_ids != self.model.config.pad_id
        if is_tracing() or torch.compiler.is_compiling():
            return self._unfused_loss(self.model.hidden(src_ids, tgt_in_ids), tgt_out_ids, real)
        is_real: Tensor | None = None
        if real.device.type == "cpu" and not self.is_compiled:
            x, targets = self._hidden(src_ids, tgt_in_ids, real), tgt_out_ids[real].long()
        else:  # to find the real positions would make the CPU wait for a GPU
            hidden = self.model.hidden(src_ids, tgt_in_ids)
            x, targets, is_real = (one.flatten(0, 1) for one in (hidden, tgt_out_ids.long(), real))
        if self.r_drop:
            x, targets = _interleave_halves(x), _interleave_halves(targets)
            is_real = None if is_real is None else _interleave_halves(is_real)
        linear = self.model.output_projection.linear
        if self.is_compiled and not self.r_drop:
            return _compiled_loss()(x, linear.weight, linear.bias, targets, real=is_real, smoothing=self.smoothing)
        # torch's apply is untyped
        return ProjectedLoss.apply(  # type: ignore[no-any-return,no-untyped-call]
            x, linear.weight, linear.bias, targets, is_real, self.smoothing, self.r_drop, torch.is_grad_enabled()
        )

    def compile_layers(self) -> None:
        """Compile layers and loss at the first update; compiled layers have no taps."""
        self.is_compiled = True
        layers = [*self.model.encoder.layers]
        if self.model.config.autoregressive_sublayer == "self_attention":
            layers += self.model.decoder.layers  # an SSRU's loop would be compiled anew for each length
        for layer in layers:
            layer.compile(dynamic=True)

    def _hidden(self, src_ids: Tensor, tgt_in_ids: Tensor, real: Tensor) -> Float[Tensor, "row d_model"]:
        """The projection's input at real positions, computed without padding."""
        is_prefix = bool((real[:, 1:] <= real[:, :-1]).all())
        if is_prefix and bool(real.any()) and bool((src_ids != self.model.config.pad_id).any()):
            return self.model.hidden_rows(src_ids, tgt_in_ids, real)[0]
        return self.model.hidden(src_ids, tgt_in_ids)[real]

    def _unfused_loss(self, hidden: Tensor, tgt_out_ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model.output_projection(hidden)
        loss, nll, _ = smoothed_loss(logits, tgt_out_ids, self.model.config.pad_id, self.smoothing)
        if not self.r_drop:
            return loss, nll
        return (loss + self.r_drop * symmetric_kl_sum(logits, real.chunk(2)[0])) / 2, nll / 2


@cache
def _compiled_loss() -> Callable[..., tuple[Tensor, Tensor]]:
    return torch.compile(plain_projected_loss, dynamic=True)


def _interleave_halves(rows: Tensor) -> Tensor:
    """Put each row of the second half directly after its counterpart in the first."""
    return torch.stack(rows.chunk(2), 1).flatten(0, 1)


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Autocast to bfloat16, if chosen and computed by the GPU."""
    is_bf16 = computes_in_bf16(precision, device)
    return torch.autocast(device.type, dtype=torch.bfloat16) if is_bf16 else nullcontext()


def computes_in_bf16(precision: str, device: torch.device) -> bool:
    """Whether products are of bfloat16: if chosen, or by itself on a GPU that has it."""
    if precision == "auto" and device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return precision == "bf16"


@cache
def cpu_has_bf16() -> bool:
    """Whether this CPU computes products of bfloat16, several times as fast as those of float32."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return bool({"avx512_bf16", "amx_bf16"} & set(flags.split()))
