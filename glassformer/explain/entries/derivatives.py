"""The derivatives that are stated by hand: linear map, softmax, layer norm, relu, sigmoid; g is the result's."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


class _Stated(torch.autograd.Function):
    """A function and its derivative, of the gradient, the result and the arguments."""

    @staticmethod
    def forward(
        ctx: Any, function: Callable[..., Tensor], derivative: Callable[..., Gradients], *args: Any
    ) -> Tensor:
        result = function(*args)
        ctx.derivative, ctx.args = derivative, args
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Gradients:
        return None, None, *ctx.derivative(grads[0], ctx.saved_tensors[0], *ctx.args)


def _linear(g: Tensor, _: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Gradients:
    """∂x = g W, ∂W = Σ gᵀ x, ∂b = Σ g, over all positions."""
    rows = g.flatten(0, -2)
    return g @ weight, rows.t() @ x.flatten(0, -2), None if bias is None else rows.sum(dim=0)


def _softmax(g: Tensor, a: Tensor, *_: Any) -> Gradients:
    """∂x = A (g − Σ g A), where A is the result."""
    return a * (g - (g * a).sum(dim=-1, keepdim=True)), None


def _log_softmax(g: Tensor, log_p: Tensor, *_: Any) -> Gradients:
    """∂x = g − p Σ g."""
    return g - log_p.exp() * g.sum(dim=-1, keepdim=True), None


def _relu(g: Tensor, _: Tensor, x: Tensor) -> Gradients:
    """∂x = g where x > 0, else 0."""
    return (g * (x > 0),)


def _sigmoid(g: Tensor, f: Tensor, _: Tensor) -> Gradients:
    """∂x = g f (1 − f), where f is the result."""
    return (g * f * (1 - f),)


def _layer_norm(g: Tensor, _: Tensor, x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Gradients:
    """∂γ = Σ g n, ∂β = Σ g; with h = g γ, ∂x = (h − mean(h) − n mean(h n)) / √(σ² + ε)."""
    deviation = (x.var(dim=-1, keepdim=True, correction=0) + eps).sqrt()
    n, h = (x - x.mean(dim=-1, keepdim=True)) / deviation, g * gain
    into = (h - h.mean(dim=-1, keepdim=True) - n * (h * n).mean(dim=-1, keepdim=True)) / deviation
    return into, (g * n).flatten(0, -2).sum(dim=0), g.flatten(0, -2).sum(dim=0), None


def _normalise(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return torch.native_layer_norm(x, gain.shape, gain, bias, eps)[0]


_apply: Callable[..., Tensor] = _Stated.apply
linear = partial(_apply, torch.nn.functional.linear, _linear)
softmax = partial(_apply, torch.softmax, _softmax)
log_softmax = partial(_apply, torch.log_softmax, _log_softmax)
layer_norm = partial(_apply, _normalise, _layer_norm)
relu = partial(_apply, torch.relu, _relu)
sigmoid = partial(_apply, torch.sigmoid, _sigmoid)
