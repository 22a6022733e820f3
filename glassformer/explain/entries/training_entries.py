"""The taps of a training step: loss, clipping, Adam, Muon. Sections 5.3 and 5.4."""

import math

import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.explain.entries.derivatives import log_softmax
from glassformer.explain.entries.entry import NOT_IN_PAPER, add, entry
from glassformer.explain.entries.scope import Scope, shared_name
from glassformer.settings import TrainConfig
from glassformer.training.loop.muon import ADAM_STEP, COEFFICIENTS, ITERATIONS, MOMENTUM

_TINY = 1e-30  # what rates, moments and changes of weights are measured by at least
_LAST_BITS = 2 * 2**-23 / 1e-6  # of a weight, in units of the tolerance
_ADAM, _MUON = "5.3; Kingma and Ba 2015", "Jordan et al. 2024; Liu et al. 2025"


def _options(scope: Scope) -> TrainConfig:
    if scope.context.train is None:
        raise TraceError(
            f"{scope.step.address}: belongs to a training step, but no TrainConfig was given. Give the one it used."
        )
    return scope.context.train


@entry("loss.target_distribution", "Smoothed target", "q = (1 − ε) δ + ε / vocab", "5.4")
def _target_distribution(scope: Scope) -> Tensor:
    """1 − ε on the right token, ε spread evenly over the vocabulary."""
    smoothing, targets = _options(scope).label_smoothing, scope.at("text.tgt_out_ids")
    vocab = scope.config.tgt_vocab
    one_hot = torch.nn.functional.one_hot(targets, vocab).to(scope.step.value.dtype)
    q = one_hot * (1 - smoothing) + smoothing / vocab
    return q * (targets != scope.config.pad_id)[..., None]


@entry("loss.log_probs", "Log-probabilities", "log p = log softmax(logits)", "5.4")
def _log_probs(scope: Scope) -> Tensor:
    """Of every token at every position."""
    return log_softmax(scope.at("output_projection.logits").float(), -1)


@entry("loss.nll_per_token", "Negative log-likelihood", "−log p(tgt_out)", "5.4")
def _nll_per_token(scope: Scope) -> Tensor:
    """How improbable the right token was to the model; zero at padding."""
    targets = scope.at("text.tgt_out_ids")
    log_probs = scope.at("loss.log_probs").gather(-1, targets[..., None]).squeeze(-1)
    return -log_probs * (targets != scope.config.pad_id)


@entry("loss.per_token", "Loss of each token", "−Σ q log p", "5.4")
def _per_token(scope: Scope) -> Tensor:
    """The cross-entropy with the smoothed target; zero at padding."""
    return -(scope.at("loss.target_distribution") * scope.at("loss.log_probs")).sum(dim=-1)


@entry("loss.mean", "Loss", "Σ loss / ntokens", "5.4")
def _mean(scope: Scope) -> Tensor:
    """The mean over all target tokens without padding; training lowers it."""
    return scope.at("loss.per_token").sum() / (scope.at("text.tgt_out_ids") != scope.config.pad_id).sum()


@entry("update.gradient_norm", "Norm of the gradient", "‖g‖₂", NOT_IN_PAPER, floor=_TINY)
def _gradient_norm(scope: Scope) -> Tensor:
    """Of all weights together, before clipping."""
    return torch.nn.utils.get_total_norm(scope.all_named("gradient"))


def _counter(scope: Scope, name: str) -> int:
    return int(scope.context.counters.get(name, 0))


@entry("update.cooldown", "Cooldown", "c", NOT_IN_PAPER)
def _cooldown(scope: Scope) -> Tensor:
    """The share of the learning rate that the cooldown leaves: 1 before it begins, almost 0 at its end."""
    first, last = _counter(scope, "cooldown_from"), _counter(scope, "cooldown_to")
    made = min(max(_counter(scope, "update") + 1 - first, 0), last - first)  # of its updates, with this one
    return torch.full_like(scope.step.value, 1 - made / (last - first + 1))


@entry("update.restarts", "Restarts", "c ← c / 2ʳ", NOT_IN_PAPER)
def _restarts(scope: Scope) -> Tensor:
    """How often the training went back after it had diverged; each halves the learning rate."""
    return torch.full_like(scope.step.value, _counter(scope, "restarts"))


@entry("update.rate", "Learning rate", "c · equation 3", "5.3", floor=_TINY)
def _rate(scope: Scope) -> Tensor:
    """Of this update, by the schedule."""
    # Equation 3, d_model^-0.5 · min(t^-0.5, t · warmup^-1.5); with a peak of its own, the same curve up to it, or
    # one that stays there.
    options, t = _options(scope), _counter(scope, "update") + 1
    curve = min(options.warmup**-0.5 if options.schedule == "constant" else t**-0.5, t * options.warmup**-1.5)
    height = scope.config.d_model**-0.5 if options.schedule == "noam" else options.peak_rate * options.warmup**0.5
    rate: Tensor = scope.at("update.cooldown") * float(height * curve) / 2 ** _counter(scope, "restarts")
    return rate


@entry("update.count_before", "Updates before", "t − 1", _ADAM)
def _count_before(scope: Scope) -> Tensor:
    """The most that the moments of any weight to be trained have seen, as the checkpoint says, else none."""
    saved, frozen = scope.context.saved, scope.context.frozen
    steps = {key.removeprefix("step/"): value for key, value in saved.items() if key.startswith("step/")}
    counts = [int(value) for name, value in steps.items() if name not in frozen]
    return torch.full_like(scope.step.value, max(counts, default=0))


@entry("update.count", "Number of this update", "t", _ADAM)
def _count(scope: Scope) -> Tensor:
    """Adam corrects its moments by it."""
    return scope.at("update.count_before") + 1


def _gradient_size(scope: Scope) -> Tensor:
    """The scale of a gradient's error."""
    computed, size = scope.context.weight_gradients[shared_name(scope.module, scope.config)]
    return torch.full_like(computed, 10 * size)


@entry("weight.gradient", "Gradient", "g = ∂loss / ∂w", "5.3", error_scale=_gradient_size, floor=_TINY)
def _gradient(scope: Scope) -> Tensor | None:
    """How the loss changes with each weight: the sum over the steps that read it."""
    found = scope.context.weight_gradients.get(shared_name(scope.module, scope.config))
    return None if found is None else found[0]


@entry("weight.clipped_gradient", "Clipped gradient", "g · min(1, clip / ‖g‖)", NOT_IN_PAPER, floor=_TINY)
def _clipped_gradient(scope: Scope) -> Tensor:
    """Scaled down when the norm of all gradients together is above the limit."""
    longest, norm = _options(scope).clip_norm or math.inf, scope.at("update.gradient_norm")
    return scope.here("gradient") * (longest / (norm + 1e-6)).clamp(max=1.0)


@entry("weight.value_before", "Weight before", "w", _ADAM)
def _value_before(scope: Scope) -> Tensor:
    """As the forward pass used it."""
    return scope.weight("")


def _moment_before(scope: Scope) -> Tensor:
    """Zeros where the checkpoint holds none, or where the weight is frozen."""
    moment = "exp_avg" if scope.step.name == "first_moment_before" else "exp_avg_sq"
    found = scope.context.saved.get(f"{moment}/{scope.module}")
    if found is None or scope.module in scope.context.frozen:
        return torch.zeros_like(scope.step.value)
    return found.to(scope.step.value.device)


_SAVED = "As the checkpoint holds it; zero in the first update."
add("weight.first_moment_before", "First moment before", _SAVED, "m", _ADAM, compute=_moment_before)
add("weight.second_moment_before", "Second moment before", _SAVED, "v", _ADAM, compute=_moment_before)


def _is_muon(scope: Scope) -> bool:
    """Whether this weight is a matrix of the layers that Muon moves."""
    is_matrix = scope.step.value.ndim == 2 and ".layers." in scope.module and scope.module.endswith(".weight")
    return is_matrix and _options(scope).optimizer == "muon" and scope.module not in scope.context.frozen


def _beta1(scope: Scope) -> float:
    return MOMENTUM if _is_muon(scope) else _options(scope).adam_beta1


def _greatest_term(scope: Scope) -> Tensor:
    """Of the two that the first moment adds up, and which may cancel."""
    beta = _beta1(scope)
    return torch.maximum(
        beta * scope.here("first_moment_before").abs(), (1 - beta) * scope.here("clipped_gradient").abs()
    )


_FIRST = "m ← β₁ m + (1 − β₁) g"


@entry("weight.first_moment", "First moment", _FIRST, _ADAM, error_scale=_greatest_term, floor=_TINY)
def _first_moment(scope: Scope) -> Tensor:
    """A running mean of the gradient; Muon's β₁ is 0.95."""
    beta = _beta1(scope)
    return beta * scope.here("first_moment_before") + (1 - beta) * scope.here("clipped_gradient")


def _growth(scope: Scope) -> Tensor:
    """Each iteration lets the rounding of small singular values grow as these do."""
    return torch.full_like(scope.step.value, COEFFICIENTS[0] ** ITERATIONS)


@entry("weight.orthogonal", "Orthogonal step", "O ≈ U Vᵀ of (1 − β) g + β m = U S Vᵀ", _MUON, error_scale=_growth)
def _orthogonal(scope: Scope) -> Tensor:
    """Muon's step, by five iterations of Newton and Schulz, X ← a X + (b A + c A²) X with A = X Xᵀ."""
    gradient, (a, b, c) = scope.here("clipped_gradient").double(), COEFFICIENTS
    mean = MOMENTUM * scope.here("first_moment_before").double() + (1 - MOMENTUM) * gradient
    x = MOMENTUM * mean + (1 - MOMENTUM) * gradient
    x /= torch.linalg.matrix_norm(x).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.t() if x.shape[0] <= x.shape[1] else x.t() @ x
        polynomial = b * gram + c * gram @ gram
        x = a * x + (polynomial @ x if x.shape[0] <= x.shape[1] else x @ polynomial)
    return x.to(scope.step.value.dtype)


@entry("weight.second_moment", "Second moment", "v ← β₂ v + (1 − β₂) g²", _ADAM, floor=_TINY)
def _second_moment(scope: Scope) -> Tensor:
    """A running mean of the squared gradient."""
    beta = _options(scope).adam_beta2
    return beta * scope.here("second_moment_before") + (1 - beta) * scope.here("clipped_gradient") ** 2


def _change(scope: Scope) -> Tensor:
    """rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε), the two corrections taken together, as the kernel does.

    t is the weight's own: one that was frozen in earlier updates has seen fewer. By Muon: rate · 0.2 √width · O.
    """
    if _is_muon(scope):
        width = max(scope.step.value.shape)
        return float(scope.at("update.rate")) * ADAM_STEP * math.sqrt(width) * scope.here("orthogonal")
    options, count = _options(scope), int(scope.context.saved.get(f"step/{scope.module}", 0)) + 1
    step_size = float(scope.at("update.rate")) / (1 - options.adam_beta1**count)
    deviation = scope.here("second_moment").sqrt() / math.sqrt(1 - options.adam_beta2**count)
    return step_size * scope.here("first_moment") / (deviation + options.adam_eps)


def _last_bits_and_change(scope: Scope) -> Tensor:
    """Two of the last bits of the weight and a millionth of its change."""
    return _LAST_BITS * scope.here("value_before").abs() + 2 * _change(scope).abs()


_VALUE = "w ← w − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)"


@entry("weight.value", "Weight after", _VALUE, _ADAM, error_scale=_last_bits_and_change, floor=_TINY)
def _value(scope: Scope) -> Tensor:
    """Moved against the first moment, with a step that the second moment scales; by Muon by rate · 0.2 √width · O."""
    return scope.here("value_before") - _change(scope)


@entry("update.gradients_left", "Gradients left", "0", NOT_IN_PAPER)
def _gradients_left(scope: Scope) -> Tensor:
    """How many weights keep their gradient, to which the next update would add its own: none."""
    return torch.zeros_like(scope.step.value)
