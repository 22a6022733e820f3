"""The equations of a training step: the smoothed loss, clipping, and Adam. Sections 5.3 and 5.4."""

import math

import torch
from torch import Tensor

from glassformer.config import TrainConfig
from glassformer.errors import TraceError
from glassformer.explain.equations.entry import Table
from glassformer.explain.equations.scope import Scope
from glassformer.training.schedule import learning_rate


def _settings(scope: Scope) -> TrainConfig:
    if scope.setting.train is None:
        raise TraceError(f"{scope.step.address}: belongs to a training step, but no TrainConfig was given. Give one.")
    return scope.setting.train


def _target_distribution(scope: Scope) -> Tensor:
    """(1 - ε) on the target + ε / vocab, as a mixture of the target and the even distribution."""
    smoothing, targets = _settings(scope).label_smoothing, scope.at("text.tgt_out_ids")
    vocab = scope.config.tgt_vocab
    one_hot = torch.nn.functional.one_hot(targets, vocab).to(scope.step.value.dtype)
    q = one_hot * (1 - smoothing) + smoothing / vocab
    return q * (targets != scope.config.pad_id)[..., None]


def _nll_per_token(scope: Scope) -> Tensor:
    targets = scope.at("text.tgt_out_ids")
    log_probs = scope.at("loss.log_probs").gather(-1, targets[..., None]).squeeze(-1)
    return -log_probs * (targets != scope.config.pad_id)


def _per_token(scope: Scope) -> Tensor:
    return -(scope.at("loss.target_distribution") * scope.at("loss.log_probs")).sum(dim=-1)


def _mean(scope: Scope) -> Tensor:
    tokens = (scope.at("text.tgt_out_ids") != scope.config.pad_id).sum()
    return scope.at("loss.per_token").sum() / tokens


def _gradient_norm(scope: Scope) -> Tensor:
    return torch.nn.utils.get_total_norm(scope.all_named("gradient"))


def _clipped_gradient(scope: Scope) -> Tensor:
    longest, norm = _settings(scope).clip_norm or math.inf, scope.at("update.gradient_norm")
    return scope.here("gradient") * (longest / (norm + 1e-6)).clamp(max=1.0)


def _rate(scope: Scope) -> Tensor:
    count = int(scope.at_call("update.count_before", 0)) + 1
    rate = learning_rate(count, _settings(scope), scope.config.d_model)
    return rate * scope.at("update.cooldown")


def _first_moment(scope: Scope) -> Tensor:
    beta = _settings(scope).adam_beta1
    return beta * scope.here("first_moment_before") + (1 - beta) * scope.here("clipped_gradient")


def _second_moment(scope: Scope) -> Tensor:
    beta = _settings(scope).adam_beta2
    return beta * scope.here("second_moment_before") + (1 - beta) * scope.here("clipped_gradient") ** 2


def _value(scope: Scope) -> Tensor:
    """w - rate · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε), the two corrections taken together, as the kernel does."""
    settings, count = _settings(scope), int(scope.at("update.count_before")) + 1
    step_size = float(scope.at("update.rate")) / (1 - settings.adam_beta1**count)
    deviation = scope.here("second_moment").sqrt() / math.sqrt(1 - settings.adam_beta2**count)
    return scope.here("value_before") - step_size * scope.here("first_moment") / (deviation + settings.adam_eps)


TRAINING: dict[str, Table] = {
    "loss": {
        "target_distribution": _target_distribution,
        "log_probs": lambda scope: scope.at("output_projection.logits").float().log_softmax(-1),
        "nll_per_token": _nll_per_token,
        "per_token": _per_token,
        "mean": _mean,
    },
    "update": {
        "gradient_norm": _gradient_norm,
        "rate": _rate,
        "count": lambda scope: scope.at("update.count_before") + 1,
    },
    "weight": {
        "clipped_gradient": _clipped_gradient,
        "first_moment": _first_moment,
        "second_moment": _second_moment,
        "value": _value,
    },
}
