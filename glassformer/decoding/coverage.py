"""Coverage: how much of a source an output has looked at, and what it costs to have looked away.

Equation 14 of Wu et al. 2016 (arXiv 1609.08144), cp = β Σᵢ log(min(Σⱼ pᵢⱼ, 1)), where pᵢⱼ is what output id j gives
to source position i: of the last layer's cross-attention, the mean of its heads. The source's eos is a position too;
padding is none. Knows nothing of search.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# What float32 cannot tell from never looked at still has a logarithm, so that a score stays a number.
_LEAST = torch.finfo(torch.float32).tiny


def uncovered(source_mask: Bool[Tensor, "rows src"]) -> Float[Tensor, "rows src"]:
    """The attention that sources have had before the first id: none, and padding all that it needs."""
    return (~source_mask).float()


def coverage_penalty(covered: Float[Tensor, "... src"], beta: float) -> Float[Tensor, "..."]:
    """What is added to a score: 0 where every position has had its share, less where one has not."""
    return beta * covered.clamp(min=_LEAST, max=1.0).log().sum(dim=-1)
