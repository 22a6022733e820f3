"""Dropout, with masks that cost little on a CPU. Srivastava et al. 2014; its places in the paper: section 5.4."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

_PER_DRAW = 4
_STEPS = 2**16


class Dropout(nn.Module):
    """In training, zero each element with probability ``p``, independently, and divide the others by 1 - p.

    On a CPU each draw of 64 random bits decides four elements, 16 bits each, so that ``p`` is rounded to a
    multiple of 2^-16; elsewhere torch's own kernel is used.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        """``x`` itself outside training."""
        if not self.training or self.p == 0.0:
            return x
        if torch.compiler.is_compiling() or x.device.type != "cpu":
            return nn.functional.dropout(x, self.p)
        dropped = round(self.p * _STEPS)
        if dropped == _STEPS:
            return x * 0.0
        draws = torch.empty(-(-x.numel() // _PER_DRAW), dtype=torch.int64).random_(-(2**63), None)
        numbers = draws.view(torch.int16)[: x.numel()].view(x.shape)
        kept = numbers >= dropped - _STEPS // 2
        return x * kept.to(x.dtype).mul_(_STEPS / (_STEPS - dropped))
