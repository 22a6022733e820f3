"""Proof of a trace: every step recomputed by its equation from the steps before it, and compared.

A step is exact when all its bits agree, close when every number agrees to 1e-6 (absolute, or relative where it is
greater than one; a mean relative to the greatest of its summands, whose rounding it keeps), given when it is an input
of the pass, and off otherwise. What is no number follows from what is none. Knows no renderer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.config import DecodeConfig
from glassformer.errors import TraceError
from glassformer.explain.addresses import kind_of
from glassformer.explain.equations import EQUATIONS, GIVEN, SCALES, Record, Scope, Setting
from glassformer.explain.walk_data import WalkData
from glassformer.model import Transformer
from glassformer.model.evaluating import evaluating
from glassformer.trace import Step, Trace, tracing

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


def verify_walk(walk: WalkData, model: Transformer) -> Verification:
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


_MOVES = {
    "alias", "as_strided", "cat", "clone", "contiguous", "copy_", "detach", "empty", "empty_like", "expand",
    "flatten", "index_select", "lift_fresh", "new_empty", "permute", "reshape", "select", "slice", "split", "squeeze",
    "stack", "t", "transpose", "unbind", "unsqueeze", "view", "_reshape_alias", "_to_copy", "_unsafe_view",
}  # fmt: skip
_CHECKS = {"aminmax", "_local_scalar_dense", "equal", "is_nonzero"}


class OperationLog(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own is untyped
    """Counts the operations that compute, under the number of steps that ``trace`` held when each was done."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own is untyped
        self.trace = trace
        self.before: dict[int, Counter[str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry the operation out and count it."""
        name = func.overloadpacket.__name__
        if name not in _MOVES | _CHECKS:
            self.before.setdefault(len(self.trace), Counter())[name] += 1
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Entry:
    """The operations that led to one step: those that the model did, and those that its equation needs."""

    address: str
    done: Counter[str]
    stated: Counter[str]

    @property
    def balances(self) -> bool:
        """Whether they are the same operations, each as often."""
        return self.done == self.stated


@dataclass(frozen=True)
class Ledger:
    """An entry for each recorded step, and what was done after the last: nothing, or it is hidden."""

    entries: tuple[Entry, ...]
    left_over: Counter[str]

    @property
    def operations(self) -> int:
        """How many operations the model carried out."""
        return sum(entry.done.total() for entry in self.entries) + self.left_over.total()

    @property
    def accounted(self) -> int:
        """How many of them the equations state."""
        return sum((entry.done & entry.stated).total() for entry in self.entries)

    @property
    def odd(self) -> tuple[Entry, ...]:
        """The entries that do not balance."""
        return tuple(entry for entry in self.entries if not entry.balances)

    @property
    def balances(self) -> bool:
        """Whether every operation is accounted for, and no equation states one that was not done."""
        return not self.odd and not self.left_over

    def __str__(self) -> str:
        return f"{self.operations:,} operations carried out, {self.accounted:,} stated by the equations of the taps."


def ledger(model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]) -> Ledger:
    """Run one pass with teacher forcing, without what is shown beside the way, and account for every operation."""
    device = next(model.parameters()).device
    src_ids, tgt_in_ids = src_ids.to(device), tgt_in_ids.to(device)
    with torch.no_grad(), evaluating(model), tracing(model, shown=False) as trace, OperationLog(trace) as log:
        model(src_ids, tgt_in_ids)
    given = [Step("text.src_ids", ("batch", "src"), src_ids), Step("text.tgt_in_ids", ("batch", "tgt"), tgt_in_ids)]
    record = Record([*given, *trace], Setting(model))
    entries = []
    for place, step in enumerate(trace):
        with torch.no_grad(), OperationLog(Trace()) as stated:
            recompute(Scope(record, place + len(given)))
        entries.append(Entry(step.address, log.before.get(place, Counter()), stated.before.get(0, Counter())))
    return Ledger(tuple(entries), log.before.get(len(trace), Counter()))


_MOST = 5


@dataclass(frozen=True)
class Proof:
    """A verification of every step; and for a forced walk, the ledger of the model's operations."""

    verification: Verification
    ledger: Ledger | None

    @property
    def holds(self) -> bool:
        """Whether every step follows, and no operation is hidden."""
        return self.verification.holds and (self.ledger is None or self.ledger.balances)

    def lines(self) -> Iterator[str]:
        """The report: by kind of module, then in all, then whatever does not follow."""
        yield from _by_kind(self.verification.steps)
        yield str(self.verification)
        for step in self.verification.off[:_MOST]:
            yield f"does not follow: {step.address}, call {step.call}: off by {step.error:.3g} at {step.cell}"
        if self.ledger is not None:
            yield str(self.ledger)
            for entry in self.ledger.odd[:_MOST]:
                yield f"does not balance: {entry.address}: done {dict(entry.done)}, stated {dict(entry.stated)}"
        yield "Everything follows." if self.holds else "Not everything follows."


def prove(walk: WalkData, model: Transformer) -> Proof:
    """Verify a whole walk that was made with ``model``."""
    batch = walk.sentences.batch
    forced = walk.kind == "forced"
    return Proof(verify_walk(walk, model), ledger(model, batch.src_ids, batch.tgt_in_ids) if forced else None)


def _by_kind(steps: tuple[Checked, ...]) -> Iterator[str]:
    """One line for each kind of module: steps recomputed, exact among them, largest error."""
    kinds = list(dict.fromkeys(kind_of(step.address) for step in steps))
    width = max(map(len, kinds), default=0)
    yield f"{'':{width}}  recomputed  exact  off  largest error"
    for kind in kinds:
        own = [step for step in steps if kind_of(step.address) == kind]
        count = Counter(step.kind for step in own)
        error = max(step.error for step in own)
        done = len(own) - count["given"]
        if done:
            yield f"{kind:{width}}  {done:10,}  {count['exact']:5,}  {count['off']:3}  {error:.1e}"
