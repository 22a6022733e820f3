"""Proof of a trace: each step is recomputed from earlier ones and compared.

Exact: all bits agree; close: within 1e-6; given: an input; else off. Differences are relative above one, and for
rates, moments and changes of weights; NaN equals NaN. With a forced target, torch's operations before each step must
be those of its equation, except those that only move numbers or ask about them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.decoding.search.steps import pad_ids
from glassformer.explain.addresses import kind_of
from glassformer.explain.compare.align import largest_difference
from glassformer.explain.compare.compare import compare
from glassformer.explain.compare.difference import Difference
from glassformer.explain.compare.passes import EXACT
from glassformer.explain.compare.production import GRADIENT_UNITS, loss_sides, search_sides
from glassformer.explain.entries import PassContext, Record, Scope, entry_of
from glassformer.explain.gradients import SLOPE_TOLERANCE, GradientCheck, check_backward, check_slopes
from glassformer.explain.recording.walk_data import WalkData
from glassformer.model import Transformer
from glassformer.model.inference import evaluating
from glassformer.settings import DecodeConfig, TrainConfig
from glassformer.trace import Step, Trace, tracing

TOLERANCE = 1e-6

_REPORTED = 5
_MOVES = {
    "alias", "arange", "as_strided", "cat", "clone", "contiguous", "copy_", "detach", "empty", "empty_like", "expand",
    "flatten", "index_select", "lift_fresh", "new_empty", "permute", "reshape", "select", "slice", "split", "squeeze",
    "stack", "t", "transpose", "unbind", "unsqueeze", "view", "_reshape_alias", "_to_copy", "_unsafe_view",
}  # fmt: skip
_QUESTIONS = {"aminmax", "equal", "is_nonzero", "promote_types", "_local_scalar_dense"}


@dataclass(frozen=True)
class StepCheck:
    """A step: exact, close, off or given; ``error`` is at ``cell``."""

    address: str
    call: int
    result: str
    error: float = 0.0
    cell: tuple[int, ...] = ()


@dataclass(frozen=True)
class Verification:
    """The checks of all steps, and of a training step's gradients."""

    steps: tuple[StepCheck, ...]
    gradients: tuple[GradientCheck, ...] = ()

    def count(self, result: str) -> int:
        """How many steps have one result."""
        return sum(step.result == result for step in self.steps)

    @property
    def n_recomputed(self) -> int:
        """How many steps were recomputed."""
        return len(self.steps) - self.count("given")

    @property
    def n_reproduced(self) -> int:
        """How many recomputed steps agree."""
        return self.count("exact") + self.count("close")

    @property
    def holds(self) -> bool:
        """Whether every recomputed step and every gradient agrees."""
        return self.n_recomputed == self.n_reproduced and all(check.holds for check in self.gradients)

    @property
    def largest_error(self) -> float:
        """The greatest difference of a recomputed step."""
        return max((step.error for step in self.steps), default=0.0)

    @property
    def off(self) -> tuple[StepCheck, ...]:
        """The steps that disagree, in order."""
        return tuple(step for step in self.steps if step.result == "off")

    def to_mapping(self) -> dict[str, Any]:
        """The counts, for JSON."""
        results = {result: self.count(result) for result in ("given", "exact", "close", "off")}
        return {
            "holds": self.holds, "independent": self.n_recomputed, **results, "largest_error": self.largest_error,
        }  # fmt: skip

    def gradient_lines(self) -> Iterator[str]:
        """How many gradients follow, and which do not."""
        if not self.gradients:
            return
        slopes = [check for check in self.gradients if check.tolerance == SLOPE_TOLERANCE]
        steps = [check for check in self.gradients if check.tolerance != SLOPE_TOLERANCE]
        worst = [max(check.error for check in checks) for checks in (steps, slopes)]
        yield (
            f"{len(steps):,} gradients of steps recomputed from those after them, largest difference {worst[0]:.1e}; "
            f"slopes in {len(slopes):,} groups of weights, by the loss in float64, largest difference {worst[1]:.1e}"
        )
        for check in [check for check in self.gradients if not check.holds][:_REPORTED]:
            yield f"does not follow: {check.where}: {check.what}"

    def __str__(self) -> str:
        counts = f"{self.n_recomputed:,} steps recomputed, {self.n_reproduced:,} reproduced"
        exact, given = self.count("exact"), self.count("given")
        return f"{counts} ({exact:,} bit for bit), largest error {self.largest_error:.1e}; {given:,} are inputs."


def verify_walk(walk: WalkData, model: Transformer) -> Verification:
    """Recompute all steps of a walk; see ``verify``."""
    device = next(model.parameters()).device
    derivations = {"src": walk.sentences.src_derivations, "tgt_out": walk.sentences.tgt_derivations}
    derived = {name: texts.to(device) for name, texts in walk.sentences.derived_texts().items()} | {
        f"text.{side}_ids": pad_ids([[*one.ids, walk.config.eos_id] for one in found], walk.config.pad_id, device)
        for side, found in derivations.items()
        if found
    }
    context = PassContext(model, walk.decode or DecodeConfig(), walk.train, derived, saved=walk.saved,
                          counters=walk.counters)  # fmt: skip
    steps = [replace(step, value=step.value.to(device)) for step in walk.trace]
    if walk.kind != "training":
        return verify(steps, context)
    checks, weights = check_backward(walk.trace, Record(steps, context))
    verification = verify(steps, replace(context, weight_gradients=weights))
    return replace(verification, gradients=(*checks, *check_slopes(walk, model)))


def verify(steps: Sequence[Step], context: PassContext, prefix: str = "") -> Verification:
    """Recompute steps below ``prefix``; ``TraceError`` if one is missing."""
    record = Record(steps, context)
    places = [place for place, step in enumerate(steps) if step.address.startswith(prefix)]
    with torch.no_grad():
        return Verification(tuple(_check(Scope(record, place)) for place in places))


def _check(scope: Scope) -> StepCheck:
    step, entry = scope.step, entry_of(scope.step.address)
    computed = entry.recompute(scope)
    if computed is None:
        return StepCheck(step.address, step.call, "given")
    if computed.shape != step.value.shape:
        return StepCheck(step.address, step.call, "off", float("inf"))
    if torch.equal(computed, step.value):
        return StepCheck(step.address, step.call, "exact")
    size = computed.double().abs() if entry.error_scale is None else entry.error_scale(scope).double()
    size = size.nan_to_num(nan=1.0, posinf=1.0).clamp(min=entry.floor)
    both_nan = step.value.isnan() & computed.isnan()
    error, cell = largest_difference(*((value / size).masked_fill(both_nan, 0.0) for value in (step.value, computed)))
    return StepCheck(step.address, step.call, "close" if error <= TOLERANCE else "off", error, cell)


class OperationLog(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Counts operations by the number of steps in ``trace`` so far."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.trace = trace
        self.before: dict[int, Counter[str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry the operation out and count it."""
        name = func.overloadpacket.__name__
        if name not in _MOVES | _QUESTIONS:
            self.before.setdefault(len(self.trace), Counter())[name] += 1
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class StepOperations:
    """One step's operations: the model's and its equation's."""

    address: str
    done: Counter[str]
    stated: Counter[str]


@dataclass(frozen=True)
class OperationAudit:
    """Each step's operations; ``left_over`` follow the last."""

    steps: tuple[StepOperations, ...]
    left_over: Counter[str]

    @property
    def n_operations(self) -> int:
        """Operations of the model."""
        return sum(step.done.total() for step in self.steps) + self.left_over.total()

    @property
    def n_accounted(self) -> int:
        """Those that the equations state."""
        return sum((step.done & step.stated).total() for step in self.steps)

    @property
    def mismatches(self) -> tuple[StepOperations, ...]:
        """Steps whose equation states other operations."""
        return tuple(step for step in self.steps if step.done != step.stated)

    @property
    def complete(self) -> bool:
        """Whether the equations state exactly these operations."""
        return not self.mismatches and not self.left_over

    def __str__(self) -> str:
        return (
            f"{self.n_operations:,} operations carried out, {self.n_accounted:,} stated by the equations of the taps."
        )


def audit_operations(
    model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]
) -> OperationAudit:
    """Run a pass with teacher forcing and account for its operations."""
    device = next(model.parameters()).device
    src_ids, tgt_in_ids = src_ids.to(device), tgt_in_ids.to(device)
    with torch.no_grad(), evaluating(model), tracing(model, shown=False) as trace, OperationLog(trace) as log:
        model(src_ids, tgt_in_ids)
    given = [Step("text.src_ids", ("batch", "src"), src_ids), Step("text.tgt_in_ids", ("batch", "tgt"), tgt_in_ids)]
    record = Record([*given, *trace], PassContext(model))
    steps = []
    for place, step in enumerate(trace):
        with torch.no_grad(), OperationLog(Trace()) as stated:
            entry_of(step.address).recompute(Scope(record, place + len(given)))
        ran = log.before.get(place, Counter())
        steps.append(StepOperations(step.address, ran, stated.before.get(0, Counter())))
    return OperationAudit(tuple(steps), log.before.get(len(trace), Counter()))


@dataclass(frozen=True)
class Agreement:
    """Translating and training against the plain pass over ``tokens``."""

    translated: Difference
    trained: Difference
    searches: Verification
    tokens: int

    @property
    def holds(self) -> bool:
        """Whether they agree, and every search step follows."""
        return self.translated.agrees and self.trained.agrees and self.searches.holds

    def lines(self) -> Iterator[str]:
        """What does not agree."""
        for step in self.searches.off[:_REPORTED]:
            error = f"off by {step.error:.3g} at {step.cell}"
            yield f"does not follow: {step.address} of a search, call {step.call}: {error}"
        yield from self.translated.first_lines()
        yield from self.trained.first_lines()

    def __str__(self) -> str:
        log_probs = max(tap.size for tap in self.translated.taps if tap.address.endswith(".next_log_probs"))
        same = not any(tap.differs for tap in self.translated.taps if "result" in tap.address)
        loss, *gradients = self.trained.taps
        share = max(GRADIENT_UNITS * tap.size / tap.unit for tap in gradients)
        return (
            f"As translate computes it: {self.tokens:,} tokens, log-probabilities within {log_probs:.1e}, "
            f"{'the same' if same else 'another'} beam; as training computes it: loss within {loss.size:.1e}, "
            f"gradients within {share:.1e}."
        )


@dataclass(frozen=True)
class Proof:
    """All checks of a walk; without a forced target no ``audit``."""

    verification: Verification
    audit: OperationAudit | None
    agreement: Agreement | None

    @property
    def holds(self) -> bool:
        """Whether steps follow, none is hidden, and real use agrees."""
        others = [self.audit is None or self.audit.complete, self.agreement is None or self.agreement.holds]
        return self.verification.holds and all(others)

    def to_mapping(self) -> dict[str, Any]:
        """The counts, for JSON; null where operations were not counted."""
        audit = self.audit
        counts = {"operations": audit and audit.n_operations, "accounted": audit and audit.n_accounted}
        return {**self.verification.to_mapping(), "holds": self.holds, **counts}

    def lines(self) -> Iterator[str]:
        """A table by kind, totals, and what does not follow."""
        yield from _lines_by_kind(self.verification.steps)
        yield str(self.verification)
        yield from self.verification.gradient_lines()
        for step in self.verification.off[:_REPORTED]:
            yield f"does not follow: {step.address}, call {step.call}: off by {step.error:.3g} at {step.cell}"
        if self.audit is not None:
            yield str(self.audit)
            for entry in self.audit.mismatches[:_REPORTED]:
                yield f"does not agree: {entry.address}: carried out {dict(entry.done)}, stated {dict(entry.stated)}"
        yield from self.agreement.lines() if self.agreement is not None else ()
        agreement = self.agreement or "Its weights are no finite numbers, so it neither translates nor trains."
        yield f"{agreement} {'All checks passed.' if self.holds else 'Some checks failed.'}"


def prove(walk: WalkData, model: Transformer, decode: DecodeConfig | None = None) -> Proof:
    """Verify a whole walk; ``decode``: options that it lacks."""
    batch = walk.sentences.batch
    forced = walk.kind == "forced"
    audit = audit_operations(model, batch.src_ids, batch.tgt_in_ids) if forced else None
    finite = all(bool(weight.isfinite().all()) for weight in model.parameters())
    return Proof(verify_walk(walk, model), audit, check_agreement(walk, model, decode) if finite else None)


def check_agreement(walk: WalkData, model: Transformer, decode: DecodeConfig | None = None) -> Agreement:
    """Translate and train on a walk's sentences untraced."""
    results = walk.trace["search.results"][:, 0] if walk.kind == "generation" else walk.sentences.batch.tgt_out_ids
    sources, targets = (
        [row[row != walk.config.pad_id].tolist() for row in ids] for ids in (walk.sentences.batch.src_ids, results)
    )
    decode = walk.decode or decode or DecodeConfig()
    searched = search_sides(model, model, sources, decode, max(map(len, targets)))
    trained = loss_sides(model, model, sources, targets, walk.train or TrainConfig())
    # The search is held to the plain pass.
    checks = [verify(trace.steps, PassContext(model, options), "search.") for trace, options in searched.records]
    return Agreement(
        compare(*searched.sides, EXACT, names=("traced", "translate")),
        compare(*trained, EXACT, names=("plain", "training")),
        Verification(tuple(step for verification in checks for step in verification.steps)),
        searched.tokens,
    )


def _lines_by_kind(steps: tuple[StepCheck, ...]) -> Iterator[str]:
    kinds = list(dict.fromkeys(kind_of(step.address) for step in steps))
    width = max(map(len, kinds), default=0)
    yield f"{'':{width}}  recomputed  exact  off  largest error"
    for kind in kinds:
        own = [step for step in steps if kind_of(step.address) == kind]
        count = Counter(step.result for step in own)
        recomputed = len(own) - count["given"]
        if recomputed:
            error = max(step.error for step in own)
            yield f"{kind:{width}}  {recomputed:10,}  {count['exact']:5,}  {count['off']:3}  {error:.1e}"
