"""A model made ready to translate: the same modules and the same lines, with other linear maps in them.

Queries, keys and values of self-attention come from one product, and in int8 the rounding of what enters the second
matrix of a feed-forward network is its relu. Small matrices stay float32 in int8 too: with them
rounding the input takes longer than the integer product saves. Knows nothing of search.
"""

import copy

import torch
from torch import Tensor, nn

from glassformer.model.attention import MultiHeadAttention
from glassformer.model.layers import FeedForward
from glassformer.model.linears import LINEARS, Int8Linear, Precision
from glassformer.model.transformer import Transformer

_LEAST_INT8 = 2**18  # weights: from here on int8 pays for many rows; benchmarks/linears.py measures it


@torch.no_grad()
def prepared(model: Transformer, precision: Precision) -> Transformer:
    """A copy of ``model`` in evaluation mode that computes its products in ``precision`` and cannot be trained.

    Raises ``ConfigError`` where this machine has no kernel for it.
    """
    ready = copy.deepcopy(model).eval().requires_grad_(False)

    def linear(weight: Tensor, bias: Tensor | None) -> nn.Module:
        small = precision == Precision.INT8 and weight.numel() < _LEAST_INT8
        return LINEARS[Precision.FLOAT32 if small else precision](weight, bias)

    for attention in [module for module in ready.modules() if isinstance(module, MultiHeadAttention)]:
        if attention.knows_order:
            parts = [attention.w_q, attention.w_k, attention.w_v]
            biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
            weights: list[Tensor] = [part.weight for part in parts]
            attention.w_qkv = linear(torch.cat(weights), torch.cat(biases) if biases else None)
            del attention.w_q, attention.w_k, attention.w_v
    for module in list(ready.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, linear(child.weight, child.bias))
    for feed_forward in [module for module in ready.modules() if isinstance(module, FeedForward)]:
        second: nn.Module = feed_forward.w_2
        if isinstance(second, Int8Linear) and feed_forward.activation is torch.relu:
            second.rectifies, feed_forward.activation = True, _left_to_w_2
    return ready


def _left_to_w_2(inner: Tensor) -> Tensor:
    return inner
