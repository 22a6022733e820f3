"""A model for translating: the same modules with other linear maps, in evaluation mode.

Queries, keys and values of self-attention come from one product.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.transformer import Transformer


class Precision(StrEnum):
    """The number format in which translating computes products."""

    FLOAT32 = "float32"
    BF16 = "bf16"


def read_precision(name: str | None) -> Precision | None:
    """The precision of that name, None for no conversion; else ``ConfigError``."""
    if name is None:
        return None
    if name not in list(Precision):
        raise ConfigError(
            f"precision: found {name!r}, expected one of {', '.join(Precision)}, which PyTorch has here. Choose one, "
            'or use CTranslate2: Translator.load(run, engine="ctranslate2", precision="int8").'
        )
    return Precision(name)


class Float32Linear(nn.Module):
    """With the weight transposed: for few rows about twice as fast on a CPU."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "out into"], bias: Float[Tensor, "out"] | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.t().contiguous())
        self.register_buffer("bias", bias)

    def forward(self, x: Float[Tensor, "*axes into"]) -> Float[Tensor, "*axes out"]:
        """x Wᵀ + b."""
        # self.weight takes longer, and a step of a search needs some twenty weights.
        weight, bias = cast(tuple[Tensor, Tensor | None], self._buffers.values())
        product = x @ weight
        return product if bias is None else product.add_(bias)


class Bf16Linear(nn.Module):
    """With bfloat16 factors; sums and what goes in and out stay float32."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "out into"], bias: Float[Tensor, "out"] | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.bfloat16())
        self.register_buffer("bias", bias)

    def forward(self, x: Float[Tensor, "*axes into"]) -> Float[Tensor, "*axes out"]:
        """x Wᵀ + b."""
        product = nn.functional.linear(x.bfloat16(), self.weight).float()
        return product if self.bias is None else product.add_(self.bias)


@torch.no_grad()
def for_inference(model: Transformer, precision: Precision) -> Transformer:
    """A copy of ``model`` in evaluation mode that computes in ``precision`` and cannot be trained.

    Linear maps that are not plain ``nn.Linear``, or that have hooks, are copied as they are.
    """
    linear = Bf16Linear if precision == Precision.BF16 else Float32Linear
    ready = copy.deepcopy(model).eval().requires_grad_(False)
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
    for module in ready.modules():
        vars(module).update(module._modules)  # attribute look-ups find them sooner
    return ready


def _is_plain_linear(module: nn.Module) -> bool:
    """Whether it is exactly ``nn.Linear`` without hooks."""
    return type(module) is nn.Linear and not (module._forward_hooks or module._forward_pre_hooks)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A block in evaluation mode; a model already in it is not changed, so threads may share it."""
    training = model.training
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()
