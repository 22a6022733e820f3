"""The taps of layers: feed-forward, Add & Norm, layer norm, dropout, ends of the stacks. Sections 3.1, 3.3, 5.4."""

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, silu

from glassformer.explain.tap_entries.entry import Entries, TapEntry, Variant
from glassformer.explain.tap_entries.scope import (
    Scope,
    add_norm_output,
    dropout_input,
    last_layer_output,
    norm_input,
    residual_input,
    sublayer_input,
)

_NORM = "3.1; Ba et al. 2016"
_ACTIVATIONS = {"relu": torch.relu, "gelu": gelu, "swish": silu}


def _inner(scope: Scope) -> Tensor:
    x = scope.at(sublayer_input(scope, scope.module.removesuffix(".feed_forward"), "feed_forward"))
    return linear(x, scope.weight("w_1.weight"), scope.bias("w_1"))


def _residual(scope: Scope) -> Tensor:
    layer, _, sublayer = scope.module.removesuffix("_add_norm").rpartition(".")
    dropped = f"{scope.module}.dropout.output"
    output = dropped if scope.context.has_dropout else f"{layer}.{sublayer}.output"
    return scope.at(residual_input(scope, layer, sublayer)) + scope.at(output)


def _norm_output(scope: Scope) -> Tensor:
    gain, bias = scope.weight("gain"), scope.weight("bias")
    x = scope.at(norm_input(scope)).to(gain.dtype)
    return torch.native_layer_norm(x, gain.shape, gain, bias, scope.config.norm_eps)[0]


def _mean(scope: Scope) -> Tensor:
    return scope.at(norm_input(scope)).to(scope.step.value.dtype).mean(dim=-1)


def _greatest_summand(scope: Scope) -> Tensor:
    """The size by which a mean is rounded: its summands may be large and cancel."""
    return scope.at(norm_input(scope)).abs().amax(dim=-1)


def _greatest_deviation(scope: Scope) -> Tensor:
    """The same in units of the deviation, for the rounding of the mean that is left after it was subtracted."""
    return (_greatest_summand(scope) / (scope.here("variance") + scope.config.norm_eps).sqrt())[..., None]


def _normalise(scope: Scope) -> Tensor:
    deviation = (scope.here("variance") + scope.config.norm_eps).sqrt()
    x = scope.at(norm_input(scope)).to(scope.step.value.dtype)
    return (x - scope.here("mean")[..., None]) / deviation[..., None]


def _stack_output(scope: Scope) -> Tensor:
    last = last_layer_output(scope, scope.module)
    return scope.at(f"{scope.module}.final_norm.output" if scope.config.norm == "pre" else last)


def _dropout_output(scope: Scope) -> Tensor:
    x = scope.at(dropout_input(scope))
    if not scope.has_here("kept"):
        return torch.zeros_like(x)  # everything is dropped
    kept = 2**16 - round(scope.config.dropout * 2**16)
    return x * scope.here("kept") * (2**16 / kept)


def _layer_output(scope: Scope) -> Tensor:
    return scope.at(add_norm_output(scope, scope.module, "feed_forward"))


LAYERS: Entries = {
    "feed_forward": {
        "inner": TapEntry(
            "Widened",
            "Each position on its own is mapped from d_model to d_ff numbers.",
            "z = x W₁ + b₁",
            "3.3",
            compute=_inner,
        ),
        "activated": TapEntry(
            "Activated",
            "Negative numbers become zero, the others stay.",
            "a = max(0, z)",
            "3.3",
            compute=lambda scope: _ACTIVATIONS[scope.config.activation](scope.here("inner")),
            variants=(
                Variant(
                    "activation",
                    "gelu",
                    "a = z Φ(z)",
                    "GELU: each number times the probability that a standard normal one is smaller.",
                ),
                Variant("activation", "swish", "a = z σ(z)", "Swish: each number times its logistic sigmoid."),
            ),
        ),
        "output": TapEntry(
            "Narrowed again",
            "Mapped back to d_model numbers, ready for the residual connection.",
            "FFN(x) = a W₂ + b₂",
            "3.3",
            compute=lambda scope: linear(scope.here("activated"), scope.weight("w_2.weight"), scope.bias("w_2")),
        ),
    },
    "add_norm": {
        "residual": TapEntry(
            "Residual sum",
            "The sublayer's output is added to its input, so that nothing is lost on the way.",
            "x + Sublayer(x)",
            "3.1",
            compute=_residual,
            variants=(Variant("norm", "pre", "x + Sublayer(LayerNorm(x))"),),
        ),
    },
    "norm": {
        "mean": TapEntry(
            "Mean of the vector",
            "One mean for each position, over its d_model numbers.",
            "μ = mean(x)",
            _NORM,
            compute=_mean,
            error_scale=_greatest_summand,
        ),
        "variance": TapEntry(
            "Variance of the vector",
            "The mean of the squared distances from the mean.",
            "σ² = mean((x − μ)²)",
            _NORM,
            compute=lambda scope: scope.at(norm_input(scope)).to(scope.step.value.dtype).var(dim=-1, correction=0),
        ),
        "normalised": TapEntry(
            "Centred and scaled",
            "Each vector gets mean zero and variance one; ε keeps the root from being zero.",
            "(x − μ) / √(σ² + ε)",
            _NORM,
            compute=_normalise,
            error_scale=_greatest_deviation,
        ),
        "output": TapEntry(
            "Layer norm's output",
            "A learned gain and bias for each of the d_model numbers.",
            "γ (x − μ) / √(σ² + ε) + β",
            _NORM,
            compute=_norm_output,
        ),
    },
    "dropout": {
        "kept": TapEntry(
            "Elements kept",
            "In training each element is dropped with probability p.",
            "m ~ Bernoulli(1 − p)",
            "5.4",
        ),
        "output": TapEntry(
            "After dropout",
            "What is kept is divided by 1 − p, so that the mean stays the same.",
            "m · x / (1 − p)",
            "5.4",
            compute=_dropout_output,
        ),
    },
    "encoder_layer": {
        "output": TapEntry(
            "Encoder layer's output",
            "Each source position after attention to all the others and its feed-forward; the next layer's input.",
            "x ← EncoderLayer(x)",
            "3.1",
            compute=_layer_output,
        )
    },
    "decoder_layer": {
        "output": TapEntry(
            "Decoder layer's output",
            "Each target position after attention to the target so far and to the source, and its own feed-forward.",
            "x ← DecoderLayer(x, M)",
            "3.1",
            compute=_layer_output,
        )
    },
    "encoder": {
        "memory": TapEntry(
            "Memory",
            "The encoder's result for each source position; every decoder layer reads it.",
            "M = x after layer N",
            "3.1",
            compute=_stack_output,
            variants=(Variant("norm", "pre", "M = LayerNorm(x after layer N)"),),
        )
    },
    "decoder": {
        "output": TapEntry(
            "Decoder's output",
            "One vector for each target position, from which its next token is predicted.",
            "x after layer N",
            "3.1",
            compute=_stack_output,
            variants=(Variant("norm", "pre", "LayerNorm(x after layer N)"),),
        )
    },
}
