"""The equations of layers: feed-forward, Add & Norm, layer norm, dropout, the ends of both stacks."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, silu

from glassformer.explain.equations.entry import Equation, Table
from glassformer.explain.equations.scope import Scope
from glassformer.explain.equations.stream import (
    after_sublayer,
    dropout_input,
    last_layer_output,
    norm_input,
    stream_before,
    sublayer_input,
)

_ACTIVATIONS = {"relu": torch.relu, "gelu": gelu, "swish": silu}


def _inner(scope: Scope) -> Tensor:
    x = scope.at(sublayer_input(scope, scope.module.removesuffix(".feed_forward"), "feed_forward"))
    return linear(x, scope.weight("w_1.weight"), scope.bias("w_1"))


def _narrowed(scope: Scope) -> Tensor:
    return linear(scope.here("activated"), scope.weight("w_2.weight"), scope.bias("w_2"))


def _residual(scope: Scope) -> Tensor:
    layer, _, sublayer = scope.module.removesuffix("_add_norm").rpartition(".")
    found = f"{scope.module}.dropout.output" if scope.setting.drops else f"{layer}.{sublayer}.output"
    return scope.at(stream_before(scope, layer, sublayer)) + scope.at(found)


def _normed(part: int) -> Equation:
    """One of what the norm's kernel gives: 0 the output, 1 the mean, 2 one over the deviation."""

    def equation(scope: Scope) -> Tensor:
        gain, bias = scope.weight("gain"), scope.weight("bias")
        x = scope.at(norm_input(scope)).to(gain.dtype)
        return torch.native_layer_norm(x, gain.shape, gain, bias, scope.config.norm_eps)[part]

    return equation


def _mean(scope: Scope) -> Tensor:
    return scope.at(norm_input(scope)).to(scope.step.value.dtype).mean(dim=-1)


def _greatest_summand(scope: Scope) -> Tensor:
    """What the rounding of a mean goes by: its summands may be large and cancel."""
    return scope.at(norm_input(scope)).abs().amax(dim=-1)


def _greatest_deviation(scope: Scope) -> Tensor:
    """The same in units of the deviation, for what is left of the mean's rounding once it has been taken off."""
    return (_greatest_summand(scope) / (scope.here("variance") + scope.config.norm_eps).sqrt())[..., None]


def _variance(scope: Scope) -> Tensor:
    return scope.at(norm_input(scope)).to(scope.step.value.dtype).var(dim=-1, correction=0)


def _normalised(scope: Scope) -> Tensor:
    deviation = (scope.here("variance") + scope.config.norm_eps).sqrt()
    x = scope.at(norm_input(scope)).to(scope.step.value.dtype)
    return (x - scope.here("mean")[..., None]) / deviation[..., None]


def _stack_output(scope: Scope) -> Tensor:
    last = last_layer_output(scope, scope.module)
    return scope.at(f"{scope.module}.final_norm.output" if scope.config.norm == "pre" else last)


def _dropped(scope: Scope) -> Tensor:
    x = scope.at(dropout_input(scope))
    if not scope.has_here("kept"):
        return torch.zeros_like(x)  # everything is dropped
    kept = 2**16 - round(scope.config.dropout * 2**16)
    return x * scope.here("kept") * (2**16 / kept)


def _layer_output(scope: Scope) -> Tensor:
    return scope.at(after_sublayer(scope, scope.module, "feed_forward"))


LAYERS: dict[str, Table] = {
    "feed_forward": {
        "inner": _inner,
        "activated": lambda scope: _ACTIVATIONS[scope.config.activation](scope.here("inner")),
        "output": _narrowed,
    },
    "add_norm": {"residual": _residual},
    "norm": {"output": _normed(0), "mean": _mean, "variance": _variance, "normalised": _normalised},
    "encoder_layer": {"output": _layer_output},
    "decoder_layer": {"output": _layer_output},
    "encoder": {"memory": _stack_output},
    "decoder": {"output": _stack_output},
    "dropout": {"output": _dropped},
}

# By what a step's error is measured where its own numbers are too small for that.
NORM_SCALES: dict[str, Callable[[Scope], Tensor]] = {"mean": _greatest_summand, "normalised": _greatest_deviation}
