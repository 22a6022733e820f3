"""One recorded pass of the model: in evaluation mode, without gradients, left as it was found. Knows no text."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.model import Transformer
from glassformer.trace import Trace, tracing


def recorded_pass(
    model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"], only: str = "*"
) -> Trace:
    """The steps whose addresses match ``only`` of one pass with teacher forcing, where the model is."""
    device = next(model.parameters()).device
    with torch.no_grad(), _evaluating(model), tracing(model, only=only) as trace:
        model(src_ids.to(device), tgt_in_ids.to(device))
    return trace


@contextmanager
def _evaluating(model: Transformer) -> Iterator[None]:
    """Without dropout; a model that is in evaluation mode already is not touched, so that threads may share it."""
    training = model.training
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()
