"""Proof of a trace: every step recomputed by its equation from the steps before it, and compared.

A step is exact when all its bits agree, close when every number agrees to 1e-6 (absolute, or relative where it is
greater than one; a mean relative to the greatest of its summands, whose rounding it keeps), given when it is an input
of the pass, and off otherwise. What is no number follows from what is none. Knows no renderer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.config import DecodeConfig
from glassformer.errors import TraceError
from glassformer.explain.equations import EQUATIONS, GIVEN, SCALES, Record, Scope, Setting
from glassformer.explain.story import kind_of
from glassformer.explain.walk import Walk
from glassformer.model import Transformer
from glassformer.trace import Step

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Checked:
    """One step held against its equation: ``exact``, ``close``, ``given`` or ``off``.

    ``error`` is the greatest difference, at ``cell``, as a share of the number there where that is above one, of a
    mean's greatest summand where that is.
    """

    address: str
    call: int
    kind: str
    error: float = 0.0
    cell: tuple[int, ...] = ()


@dataclass(frozen=True)
class Verification:
    """Every step of a trace, checked, in order."""

    steps: tuple[Checked, ...]

    def count(self, kind: str) -> int:
        """How many steps are of one kind."""
        return sum(step.kind == kind for step in self.steps)

    @property
    def checked(self) -> int:
        """Steps that were recomputed."""
        return len(self.steps) - self.count("given")

    @property
    def reproduced(self) -> int:
        """Recomputed steps that agree."""
        return self.count("exact") + self.count("close")

    @property
    def holds(self) -> bool:
        """Whether every recomputed step agrees."""
        return self.checked == self.reproduced

    @property
    def largest_error(self) -> float:
        """The greatest difference in any recomputed step."""
        return max((step.error for step in self.steps), default=0.0)

    @property
    def off(self) -> tuple[Checked, ...]:
        """The steps that do not agree, first first."""
        return tuple(step for step in self.steps if step.kind == "off")

    def __str__(self) -> str:
        counts = f"{self.checked:,} steps recomputed, {self.reproduced:,} reproduced"
        exact, given = self.count("exact"), self.count("given")
        return f"{counts} ({exact:,} bit for bit), largest error {self.largest_error:.1e}; {given:,} given."


def verify_walk(walk: Walk, model: Transformer) -> Verification:
    """Recompute every step of a walk that was made with ``model``; see ``verify``."""
    device = next(model.parameters()).device
    derived = {"text.src_ids": walk.sentences.derived_src_ids.to(device)}
    setting = Setting(model, walk.decode or DecodeConfig(), walk.train, derived)
    return verify([replace(step, value=step.value.to(device)) for step in walk.trace], setting)


def verify(steps: Sequence[Step], setting: Setting) -> Verification:
    """Recompute every step of a whole trace.

    Raises ``TraceError`` when a step has no equation, or an equation lacks a step because only some were recorded.
    """
    record = Record(steps, setting)
    with torch.no_grad():
        return Verification(tuple(_checked(Scope(record, place)) for place in range(len(steps))))


def _checked(scope: Scope) -> Checked:
    step = scope.step
    computed = recompute(scope)
    if computed is None:
        return Checked(step.address, step.call, "given")
    if computed.shape != step.value.shape:
        return Checked(step.address, step.call, "off", float("inf"))
    if torch.equal(computed, step.value):
        return Checked(step.address, step.call, "exact")
    size = computed.double().abs()
    if (scale := SCALES.get(kind_of(step.address), {}).get(step.name)) is not None:
        size = torch.maximum(size, scale(scope).double())
    size = size.nan_to_num(nan=1.0, posinf=1.0).clamp(min=1.0)
    both_nan = step.value.isnan() & computed.isnan()
    error, cell = largest_difference(*((value / size).masked_fill(both_nan, 0.0) for value in (step.value, computed)))
    return Checked(step.address, step.call, "close" if error <= TOLERANCE else "off", error, cell)


def recompute(scope: Scope) -> Tensor | None:
    """What the step's equation makes of the steps before it; None where the step is given."""
    kind, name = kind_of(scope.step.address), scope.step.name
    equation = EQUATIONS.get(kind, {}).get(name)
    if equation is not None:
        return equation(scope)
    if name not in GIVEN.get(kind, ()):
        raise TraceError(f"{scope.step.address}: has no equation. Every tap needs one, as it needs a story.")
    return None


def largest_difference(first: Tensor, second: Tensor) -> tuple[float, tuple[int, ...]]:
    """The greatest absolute difference of two tensors of one shape, and its cell; equal infinities do not differ."""
    left, right = first.double(), second.double()
    difference = torch.where(left == right, 0.0, (left - right).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)
    if difference.numel() == 0:
        return 0.0, ()
    place = int(difference.argmax())
    cell = torch.unravel_index(torch.tensor(place), difference.shape)
    return float(difference.flatten()[place]), tuple(int(index) for index in cell)
