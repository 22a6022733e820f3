"""Muon: a step whose singular values are all near one (Jordan et al. 2024, kellerjordan.github.io/posts/muon).

It moves the matrices of the layers, which map vectors to vectors; Adam moves all other weights. Its rate is scaled so
that a step is as long as one of Adam (Liu et al. 2025, arXiv 2502.16982), and both have the same rate.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Adam

from glassformer.trace import note

MOMENTUM = 0.95
COEFFICIENTS, ITERATIONS = (3.4445, -4.7750, 2.0315), 5  # Jordan's: small singular values grow by 3.4 in each
ADAM_STEP = 0.2  # the root of the mean square of one of Adam's steps, over the rate
_EPS = 1e-7


class Muon(Adam):
    """Adam for ``weights``, Muon for ``matrices`` by name, with products in ``dtype``."""

    def __init__(
        self, weights: Sequence[Tensor], matrices: Mapping[str, Tensor], dtype: torch.dtype, **adam: Any
    ) -> None:
        super().__init__([{"params": weights}], **adam)
        self.names = {matrix: name for name, matrix in matrices.items()}
        self._dtype, self._shapes = dtype, defaultdict[torch.Size, list[Tensor]](list)
        for matrix in matrices.values():
            self._shapes[matrix.shape].append(matrix)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # no closure here
        """Move every weight that has a gradient."""
        super().step(closure)
        for matrices in self._shapes.values():
            self._move([one for one in matrices if one.grad is not None])

    def zero_grad(self, set_to_none: bool = True) -> None:  # as torch has it
        """Clear the gradients."""
        super().zero_grad(set_to_none)
        for matrix in self.names:
            matrix.grad = None

    def _move(self, matrices: list[Tensor]) -> None:
        """Move matrices of one shape."""
        if not matrices:
            return
        for one in matrices:
            if not self.state[one]:
                self.state[one] = {"step": torch.zeros(()), "exp_avg": torch.zeros_like(one)}
            self.state[one]["step"] += 1
        means = [self.state[one]["exp_avg"] for one in matrices]
        gradients = [one.grad for one in matrices if one.grad is not None]
        torch._foreach_lerp_(means, gradients, 1 - MOMENTUM)
        ahead = torch.stack(torch._foreach_lerp(gradients, means, MOMENTUM))  # Nesterov: as the next mean would be
        steps = orthogonalise(ahead.to(self._dtype)).to(ahead.dtype).unbind()
        rate = self.param_groups[0]["lr"] * ADAM_STEP * math.sqrt(max(matrices[0].shape))
        torch._foreach_add_(matrices, steps, alpha=-rate)
        for one, moved in zip(matrices, steps, strict=True):
            note(f"{self.names[one]}.orthogonal", moved, "row column")


def layer_matrices(model: nn.Module) -> dict[str, Tensor]:
    """The matrices of the linear maps in the layers, by name, those that are trained."""
    linears = {name: one for name, one in model.named_modules() if isinstance(one, nn.Linear) and ".layers." in name}
    return {f"{name}.weight": one.weight for name, one in linears.items() if one.weight.requires_grad}


def orthogonalise(matrices: Float[Tensor, "matrix row column"]) -> Float[Tensor, "matrix row column"]:
    """Each U S Vᵀ as about U Vᵀ, by Newton and Schulz: singular values end near one, most from 0.7 to 1.2."""
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=_EPS)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
