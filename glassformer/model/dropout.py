"""Dropout, with masks that cost little on a CPU. Srivastava et al. 2014; section 5.4."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.trace import show, tap

_AXES = "batch position d_model"  # wherever the paper drops out
_PER_DRAW = 4
_STEPS = 2**16


class Dropout(nn.Module):
    """In training, zero each element with probability ``p`` and divide the others by 1 - p.

    On a CPU each draw of 64 random bits decides four elements, so ``p`` is rounded to a multiple of 2^-16; elsewhere
    torch's own kernel is used.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        """``x`` itself outside training."""
        if not self.training or self.p == 0.0:
            return x
        if torch.compiler.is_compiling():
            return nn.functional.dropout(x, self.p)
        output = self._on_cpu(x) if x.device.type == "cpu" else self._elsewhere(x)
        return tap(self, "output", output, _AXES)

    def _on_cpu(self, x: Tensor) -> Tensor:
        dropped = round(self.p * _STEPS)
        if dropped == _STEPS:
            return x * 0.0
        kept = self._draw(x, dropped)
        kept = tap(self, "kept", kept, _AXES)
        return x * (kept.to(x.dtype) * (_STEPS / (_STEPS - dropped)))

    def _elsewhere(self, x: Tensor) -> Tensor:
        output, kept = torch.native_dropout(x, self.p, train=True)
        show(self, "kept", lambda: kept, _AXES)
        return output

    @staticmethod
    def _draw(x: Tensor, dropped: int) -> Tensor:
        """1 where an element is kept, else 0; ``dropped`` of 2^16 are not."""
        draws = torch.empty(-(-x.numel() // _PER_DRAW), dtype=torch.int64).random_(-(2**63), None)
        numbers = draws.view(torch.int16)[: x.numel()].view(x.shape)
        # Straight to the type of x, not by way of bool: one pass instead of two.
        return torch.ge(numbers, dropped - _STEPS // 2, out=torch.empty_like(x))
