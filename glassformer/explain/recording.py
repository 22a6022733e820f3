"""One recorded pass of the model: in evaluation mode, without gradients, left as it was found. Knows no text."""

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.model import Transformer
from glassformer.model.inference import evaluating
from glassformer.trace import Trace, tracing
from glassformer.trace.taps import Edit


def recorded_pass(
    model: Transformer,
    src_ids: Int[Tensor, "batch src"],
    tgt_in_ids: Int[Tensor, "batch tgt"],
    only: str = "*",
    *,
    edits: Mapping[str, Edit] | None = None,
) -> Trace:
    """The steps whose addresses match ``only`` of one pass with teacher forcing, where the model is."""
    device = next(model.parameters()).device
    with torch.no_grad(), evaluating(model), tracing(model, edits, only) as trace:
        model(src_ids.to(device), tgt_in_ids.to(device))
    return trace
