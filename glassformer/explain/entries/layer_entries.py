"""The taps of layers: feed-forward, Add & Norm, layer norm, dropout, ends of the stacks. Sections 3.1, 3.3, 5.4."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from glassformer.explain.entries.derivatives import layer_norm, linear, relu
from glassformer.explain.entries.entry import add, entry, vary
from glassformer.explain.entries.scope import (
    Scope,
    add_norm_output,
    dropout_input,
    last_layer_output,
    norm_input,
    residual_input,
    sublayer_input,
)

_BA = "3.1; Ba et al. 2016"
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu, "swish": silu}


def _greatest_summand(scope: Scope) -> Tensor:
    """The size by which a mean is rounded: its summands may be large and cancel."""
    return scope.at(norm_input(scope)).abs().amax(dim=-1)


def _greatest_deviation(scope: Scope) -> Tensor:
    """The same in units of the deviation, for the rounding of the subtracted mean."""
    return (_greatest_summand(scope) / (scope.here("variance") + scope.config.norm_eps).sqrt())[..., None]


@entry("feed_forward.inner", "Widened", "z = x W₁ + b₁", "3.3")
def _inner(scope: Scope) -> Tensor:
    """Each position on its own is mapped from d_model to d_ff numbers."""
    x = scope.at(sublayer_input(scope, scope.module.removesuffix(".feed_forward"), "feed_forward"))
    return linear(x, scope.weight("w_1.weight"), scope.bias("w_1"))


@entry("feed_forward.activated", "Activated", "a = max(0, z)", "3.3")
def _activate(scope: Scope) -> Tensor:
    """Negative numbers become zero, the others stay."""
    return _ACTIVATIONS[scope.config.activation](scope.here("inner"))


_GELU = "GELU: each number times the probability that a standard normal one is smaller."
vary("feed_forward.activated", "activation", "gelu", "a = z Φ(z)", _GELU)
_SWISH = "Swish: each number times its logistic sigmoid."
vary("feed_forward.activated", "activation", "swish", "a = z σ(z)", _SWISH)


@entry("feed_forward.output", "Narrowed again", "FFN(x) = a W₂ + b₂", "3.3")
def _output(scope: Scope) -> Tensor:
    """Mapped back to d_model numbers, ready for the residual connection."""
    return linear(scope.here("activated"), scope.weight("w_2.weight"), scope.bias("w_2"))


@entry("add_norm.residual", "Residual sum", "x + Sublayer(x)", "3.1")
def _residual(scope: Scope) -> Tensor:
    """The sublayer's output is added to its input, so that nothing is lost on the way."""
    layer, _, sublayer = scope.module.removesuffix("_add_norm").rpartition(".")
    dropped = f"{scope.module}.dropout.output"
    output = dropped if scope.context.has_dropout else f"{layer}.{sublayer}.output"
    return scope.at(residual_input(scope, layer, sublayer)) + scope.at(output)


vary("add_norm.residual", "norm", "pre", "x + Sublayer(LayerNorm(x))")


@entry("norm.mean", "Mean of the vector", "μ = mean(x)", _BA, error_scale=_greatest_summand)
def _mean(scope: Scope) -> Tensor:
    """One mean for each position, over its d_model numbers."""
    return scope.at(norm_input(scope)).to(scope.step.value.dtype).mean(dim=-1)


@entry("norm.variance", "Variance of the vector", "σ² = mean((x − μ)²)", _BA)
def _variance(scope: Scope) -> Tensor:
    """The mean of the squared distances from the mean."""
    return scope.at(norm_input(scope)).to(scope.step.value.dtype).var(dim=-1, correction=0)


@entry("norm.normalised", "Centred and scaled", "(x − μ) / √(σ² + ε)", _BA, error_scale=_greatest_deviation)
def _normalise(scope: Scope) -> Tensor:
    """Each vector gets mean zero and variance one; ε keeps the root from being zero."""
    deviation = (scope.here("variance") + scope.config.norm_eps).sqrt()
    x = scope.at(norm_input(scope)).to(scope.step.value.dtype)
    return (x - scope.here("mean")[..., None]) / deviation[..., None]


@entry("norm.output", "Layer norm's output", "γ (x − μ) / √(σ² + ε) + β", _BA)
def _norm_output(scope: Scope) -> Tensor:
    """A learned gain and bias for each of the d_model numbers."""
    gain, bias = scope.weight("gain"), scope.weight("bias")
    x = scope.at(norm_input(scope)).to(gain.dtype)
    return layer_norm(x, gain, bias, scope.config.norm_eps)


@entry("dropout.kept", "Elements kept", "m ~ Bernoulli(1 − p)", "5.4")
def _dropout_mask(scope: Scope) -> Tensor | None:
    """In training each element is dropped with probability p."""
    own = scope.step.value
    if scope.context.train is None or own.device.type != "cpu":
        return None  # a GPU's own numbers cannot be drawn again
    # 64 random bits are drawn for four elements, from the update's seed on, one dropout after the other.
    generator = torch.Generator().manual_seed(scope.context.train.seed)
    for size in (*scope.sizes_before("dropout.kept"), own.numel()):
        bits = torch.empty((size + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    sixteen = bits.view(torch.int16)[: own.numel()].view(own.shape).int() + 2**15
    return (sixteen >= round(scope.config.dropout * 2**16)).to(own.dtype)


@entry("dropout.output", "After dropout", "m · x / (1 − p)", "5.4")
def _dropout_output(scope: Scope) -> Tensor:
    """What is kept is divided by 1 − p, so that the mean stays the same."""
    x = scope.at(dropout_input(scope))
    if not scope.has_here("kept"):
        return torch.zeros_like(x)  # everything is dropped
    kept = 2**16 - round(scope.config.dropout * 2**16)
    return x * scope.here("kept") * (2**16 / kept)


def _last_sublayer(scope: Scope) -> Tensor:
    return scope.at(add_norm_output(scope, scope.module, "feed_forward"))


_SEES_ALL = "Each source position after attention to all the others and its feed-forward; the next layer's input."
_LAYER = "x ← EncoderLayer(x)"
add("encoder_layer.output", "Encoder layer's output", _SEES_ALL, _LAYER, "3.1", compute=_last_sublayer)
_SEES_PAST = "Each target position after attention to the target so far and to the source, and its own feed-forward."
_LAYER = "x ← DecoderLayer(x, M)"
add("decoder_layer.output", "Decoder layer's output", _SEES_PAST, _LAYER, "3.1", compute=_last_sublayer)


def _last_layer(scope: Scope) -> Tensor:
    last = last_layer_output(scope, scope.module)
    return scope.at(f"{scope.module}.final_norm.output" if scope.config.norm == "pre" else last)


_READ = "The encoder's result for each source position; every decoder layer reads it."
add("encoder.memory", "Memory", _READ, "M = x after layer N", "3.1", compute=_last_layer)
vary("encoder.memory", "norm", "pre", "M = LayerNorm(x after layer N)")
_PREDICTS = "One vector for each target position, from which its next token is predicted."
add("decoder.output", "Decoder's output", _PREDICTS, "x after layer N", "3.1", compute=_last_layer)
vary("decoder.output", "norm", "pre", "LayerNorm(x after layer N)")
