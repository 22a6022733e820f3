"""Proof of a training step's gradients: each from those after it, and slopes from the loss alone.

Backward: a step's gradient is the sum, over the equations that read it, of derivative times gradient of the result.
Slope: the loss in float64 on both sides of a group of weights, against the slope by the recorded gradients.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.explain.compare.align import largest_difference
from glassformer.explain.entries import Record, Scope, entry_of
from glassformer.explain.entries.scope import shared_name
from glassformer.explain.recording.walk_data import WalkData
from glassformer.model import Transformer
from glassformer.trace import Trace, tracing

TOLERANCE = 1e-5  # of a gradient, relative to the greatest of its tensor or to the gradients that it is a sum of
SLOPE_TOLERANCE = 1e-4  # of a slope, relative to the norm of the group's gradients
# How far the weights move: so little that hardly a relu passes its kink.
_STEPS = (1e-7, 1e-8)
_ROUNDING = 1e-14  # of a loss in float64, relative


@dataclass(frozen=True)
class GradientCheck:
    """The error of the gradient of a step or of a group of weights."""

    where: str
    error: float
    tolerance: float
    what: str

    @property
    def holds(self) -> bool:
        """Whether they agree."""
        return self.error <= self.tolerance


@dataclass
class _Sum:
    """A gradient as the sum of the equations' parts, and its scale."""

    value: Tensor | None = None
    size: float = 0.0

    def add(self, value: Tensor, given: Tensor) -> None:
        self.value = value if self.value is None else self.value + value
        self.size = max(self.size, float(given.abs().max()))


class _DifferentiableScope(Scope):
    """A scope whose values are leaves of a graph, by place or name."""

    def __init__(self, record: Record, place: int) -> None:
        super().__init__(record, place)
        self.leaves: dict[int | str, Tensor] = {}

    def value(self, place: int) -> Tensor:
        return self._leaf(place, super().value(place))

    def weight(self, name: str) -> Tensor:
        return self._leaf(shared_name(f"{self.module}.{name}", self.config), super().weight(name))

    def _leaf(self, key: int | str, value: Tensor) -> Tensor:
        return self.leaves.setdefault(key, value.detach().requires_grad_()) if value.is_floating_point() else value


def check_backward(trace: Trace, record: Record) -> tuple[list[GradientCheck], dict[str, tuple[Tensor, float]]]:
    """Follow the steps back from the loss: checks, and ``PassContext.weight_gradients``."""
    sums: dict[int | str, _Sum] = defaultdict(_Sum)
    checks = []
    last = next(place for place, step in enumerate(record.steps) if step.address == "loss.mean")
    for place in range(last, -1, -1):
        step = record.steps[place]
        recorded, summed = trace.gradients.get(step.key), sums.pop(place, _Sum())
        if recorded is not None and place < last:
            checks.append(_check(step.address, recorded, summed))
        gradient = summed.value if recorded is None else recorded
        if gradient is not None:
            _add_derivatives(_DifferentiableScope(record, place), gradient, sums)
    return checks[::-1], dict(_weight_gradients(record, sums))


def _check(address: str, recorded: Tensor, summed: _Sum) -> GradientCheck:
    if summed.value is None or summed.value.shape != recorded.shape:
        return GradientCheck(f"gradient of {address}", math.inf, TOLERANCE, "nothing is computed from it")
    size = max(summed.size, float(summed.value.abs().max()), torch.finfo(torch.float32).tiny)
    error, cell = largest_difference(recorded / size, summed.value / size)
    return GradientCheck(f"gradient of {address}", error, TOLERANCE, f"off by {error:.3g} at {cell}")


def _add_derivatives(scope: _DifferentiableScope, gradient: Tensor, sums: dict[int | str, _Sum]) -> None:
    compute = entry_of(scope.step.address).compute
    if compute is None:
        return
    with torch.enable_grad():
        value = compute(scope)
    if value is None or not value.requires_grad:
        return
    keys, leaves = list(scope.leaves), list(scope.leaves.values())
    found = torch.autograd.grad(value, leaves, gradient.to(value.dtype), allow_unused=True)
    for key, derivative in zip(keys, found, strict=True):
        if derivative is not None:
            sums[key].add(derivative, gradient)


def _weight_gradients(record: Record, sums: Mapping[int | str, _Sum]) -> Iterator[tuple[str, tuple[Tensor, float]]]:
    """Zero for a weight that is frozen or that no equation reads."""
    frozen = record.context.frozen
    for name, weight in record.weights.items():
        found = sums.get(name)
        if found is None or found.value is None or name in frozen:
            yield name, (torch.zeros_like(weight), 0.0)
        else:
            yield name, (found.value, max(found.size, float(found.value.abs().max())))


def check_slopes(walk: WalkData, model: Transformer) -> list[GradientCheck]:
    """A check for each group of weights, with the walk's dropout masks."""
    double = copy.deepcopy(model).cpu().double().train()
    groups: dict[str, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    for name, weight in double.named_parameters():
        gradient = walk.trace[f"{name}.gradient"].cpu().double()
        if gradient.any() or not walk.train or not walk.train.freeze:
            groups[_group(name)].append((weight.data, gradient))
    draw = torch.Generator().manual_seed(0)
    return [_check_slope(group, pairs, double, walk, draw) for group, pairs in groups.items()]


def _group(weight: str) -> str:
    """A weight's embedding, projection, norm or sublayer, in all layers."""
    parts = weight.split(".")
    return f"{parts[0]}.layers.*.{parts[3]}" if parts[1] == "layers" else ".".join(parts[:2])


def _check_slope(
    group: str, pairs: list[tuple[Tensor, Tensor]], double: Transformer, walk: WalkData, draw: torch.Generator
) -> GradientCheck:
    before, norms = [weight.clone() for weight, _ in pairs], [float(gradient.norm()) for _, gradient in pairs]
    random = [torch.randn(weight.shape, generator=draw, dtype=weight.dtype) for weight in before]
    ways = [
        one / one.norm() + (gradient / norm if norm else 0.0)
        for one, norm, (_, gradient) in zip(random, norms, pairs, strict=True)
    ]
    stated = sum(float((gradient * way).sum()) for (_, gradient), way in zip(pairs, ways, strict=True))
    checks = []
    for step in _STEPS:
        losses = []
        for distance in (step, -step):
            for (weight, _), start, way in zip(pairs, before, ways, strict=True):
                weight.copy_(start + distance * way)
            losses.append(_loss(double, walk))
        found = (losses[0] - losses[1]) / (2 * step)
        error = abs(stated - found) / max(sum(norms), _ROUNDING * losses[0] / step / SLOPE_TOLERANCE)
        what = f"slope {stated:.6g}, of the loss {found:.6g}"
        checks.append(GradientCheck(f"gradients of {group}", error, SLOPE_TOLERANCE, what))
        if checks[-1].holds:
            break
    for (weight, _), start in zip(pairs, before, strict=True):
        weight.copy_(start)
    return checks[-1]


def _loss(double: Transformer, walk: WalkData) -> float:
    kept = iter([step.value for step in walk.trace if step.name == "kept"])
    edits = (
        {"*dropout.kept": lambda drawn: next(kept).to(drawn)} if "src_embedding.dropout.kept" in walk.trace else {}
    )
    batch = walk.sentences.batch
    with torch.no_grad(), torch.random.fork_rng([]), tracing(double, edits, "output_projection.logits") as trace:
        double(batch.src_ids, batch.tgt_in_ids)
    q = walk.trace["loss.target_distribution"].cpu().double()
    log_p = trace["output_projection.logits"].log_softmax(-1)
    return float(-(q * log_p).sum() / batch.target_tokens)
