"""Rounds matrices to int8 rows, the form in which a checkpoint takes a quarter of the space."""

from collections.abc import Mapping

import torch
from torch import Tensor

from glassformer.checkpoint import SCALE


def quantize_rows(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights with each matrix as int8 rows, and a float32 scale a row: its greatest absolute value / 127.

    Vectors stay as they are. Raises ``ValueError`` for a matrix with a value that is not finite.
    """
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.dim() != 2:
            found[name] = weight
            continue
        if not weight.isfinite().all():
            raise ValueError(f"{name}: has a value that is not finite.")
        scales = weight.float().abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        found[name] = (weight.float() / scales[:, None]).round().to(torch.int8)
        found[f"{SCALE}{name}"] = scales
    return found
