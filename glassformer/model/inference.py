"""A model for translating: the same modules with other linear maps in them, and evaluation mode.

Queries, keys and values of self-attention come from one product. In int8 the rounding of what enters the second
matrix of a feed-forward network is its relu, and small matrices stay float32, which is faster.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.model.attention import MultiHeadAttention
from glassformer.model.layers import FeedForward
from glassformer.model.linears import LINEARS, Int8Linear, Precision, min_int8_weights
from glassformer.model.transformer import Transformer


@torch.no_grad()
def for_inference(model: Transformer, precision: Precision) -> Transformer:
    """A copy of ``model`` in evaluation mode that computes its products in ``precision`` and cannot be trained.

    Linear maps that are not plain ``nn.Linear``, or that have hooks, are copied as they are. Raises ``ConfigError``
    where this machine has no kernel for the precision.
    """
    ready = copy.deepcopy(model).eval().requires_grad_(False)
    least_int8 = min_int8_weights()

    def linear(weight: Tensor, bias: Tensor | None) -> nn.Module:
        is_small = precision == Precision.INT8 and weight.numel() < least_int8
        return LINEARS[Precision.FLOAT32 if is_small else precision](weight, bias)

    for attention in [module for module in ready.modules() if isinstance(module, MultiHeadAttention)]:
        parts = [attention.w_q, attention.w_k, attention.w_v]
        if attention.uses_positions and all(map(_is_plain_linear, parts)):
            biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
            weights: list[Tensor] = [part.weight for part in parts]
            attention.w_qkv = linear(torch.cat(weights), torch.cat(biases) if biases else None)
            del attention.w_q, attention.w_k, attention.w_v
    for module in list(ready.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and _is_plain_linear(child):
                setattr(module, name, linear(child.weight, child.bias))
    for feed_forward in [module for module in ready.modules() if isinstance(module, FeedForward)]:
        second: nn.Module = feed_forward.w_2
        if isinstance(second, Int8Linear) and feed_forward.activation is torch.relu:
            second.applies_relu, feed_forward.activation = True, torch.positive  # returns its argument
    for module in ready.modules():
        vars(module).update(module._modules)  # attribute look-ups find them sooner
    return ready


def _is_plain_linear(module: nn.Module) -> bool:
    """Whether it is exactly ``nn.Linear`` and has no hooks, so that another linear map can replace it."""
    return type(module) is nn.Linear and not (module._forward_hooks or module._forward_pre_hooks)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A block in evaluation mode; a model that is in it already is not changed, so that threads may share it."""
    training = model.training
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()
