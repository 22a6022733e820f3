"""Taps: each intermediate tensor gets a name and axes, free when idle, recorded inside ``tracing``.

``x = tap(self, "scores", x, "batch heads query key")`` replaces a shape comment. Nothing is hooked, wrapped or
stored on the model: only the current context records, so that threads do not mix.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from glassformer.axes import LEGEND
from glassformer.errors import TraceError, check_type, nearest
from glassformer.trace.record import Step, Trace
from glassformer.trace.weight_edits import Edit, EditedWeights, apply_edit

__all__ = ["Edit", "Step", "Trace", "capture", "is_tracing", "note", "show", "tap", "tracing"]


class _Recorder:
    """The state of one ``tracing`` block: module paths, axis sizes, edits, trace."""

    def __init__(
        self, model: nn.Module, edits: Mapping[str, Edit], only: str, *, gradients: bool, shown: bool
    ) -> None:
        check_type("model", model, nn.Module, "a module, such as a Translator's model", TraceError)
        self.paths = {id(module): path for path, module in model.named_modules(remove_duplicate=False)}
        self.config = getattr(model, "config", None)
        self.edits, self.only, self.gradients = edits, only, gradients
        self.shown: bool = shown
        self.used_edits: set[str] = set()
        self.passed: set[str] = set()  # the addresses, where there are edits
        self.calls: Counter[str] = Counter()
        self.trace = Trace()

    def tap(self, module: nn.Module, name: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        if id(module) not in self.paths:
            return value  # another model, running in the same context
        return self.record(f"{self.paths[id(module)]}.{name}".lstrip("."), value, axes, editable=editable)

    def record(self, address: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        words = tuple(axes.split())
        self._check(address, words, value)
        value = self._apply_edits(address, value, editable=editable)
        if fnmatchcase(address, self.only):
            step = Step(address, words, value.detach().clone(), self.calls[address])
            self.calls[address] += 1
            self.trace.steps.append(step)
            if self.gradients and value.requires_grad:
                value.register_hook(lambda gradient: self._record_gradient(step, gradient))  # type: ignore[no-untyped-call]  # torch's
        return value

    def _record_gradient(self, step: Step, gradient: Tensor) -> None:
        self.trace.gradients[step.key] = gradient.detach().clone()

    def _check(self, address: str, words: tuple[str, ...], value: Tensor) -> None:
        if len(words) != value.ndim:
            raise TraceError(
                f"{address}: the tap names {len(words)} axes {words}, the tensor has {tuple(value.shape)}."
            )
        for word, size in zip(words, value.shape, strict=True):
            if word not in LEGEND:
                raise TraceError(f"{address}: {word!r} is not an axis of the legend.{nearest(word, LEGEND)}")
            expected = self._expected_size(word)
            if expected is not None and size != expected:
                raise TraceError(
                    f"{address}: axis {word} has size {size}, expected {expected} from the configuration."
                )

    def _expected_size(self, word: str) -> int | None:
        if word == "one":
            return 1
        field = LEGEND[word].size
        return getattr(self.config, field, None) if field else None

    def _apply_edits(self, address: str, value: Tensor, *, editable: bool) -> Tensor:
        if self.edits:
            self.passed.add(address)
        for pattern, edit in self.edits.items():
            if not fnmatchcase(address, pattern):
                continue
            if not editable:
                raise TraceError(
                    f"{address}: is shown only; nothing is computed from it, so an edit would have no effect. "
                    "Edit a tap that the computation uses."
                )
            value = apply_edit(address, value, edit)
            self.used_edits.add(pattern)
        return value


class _Capture:
    """The state of one ``capture`` block; values also reach the outer recorder."""

    def __init__(self, module: nn.Module, name: str, outside: "_Recorder | _Capture | None") -> None:
        self.module, self.name, self.outside = module, name, outside
        self.shown: bool = outside is not None and outside.shown
        self.values: list[Tensor] = []

    def tap(self, module: nn.Module, name: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        if self.outside is not None:
            value = self.outside.tap(module, name, value, axes, editable=editable)
        if module is self.module and name == self.name:
            self.values.append(value)
        return value

    def record(self, address: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        return value if self.outside is None else self.outside.record(address, value, axes, editable=editable)


_recorder: ContextVar[_Recorder | _Capture | None] = ContextVar("glassformer_recorder", default=None)


def tap(module: nn.Module, name: str, value: Tensor, axes: str) -> Tensor:
    """Name a tensor and its axes; returns it, or its replacement inside ``tracing``."""
    if is_compiling():
        return value
    recorder = _recorder.get()
    if recorder is None:
        return value
    return recorder.tap(module, name, value, axes, editable=True)


def show(module: nn.Module, name: str, compute: Callable[[], Tensor], axes: str) -> None:
    """Name a tensor that nothing reads; ``compute`` is called only while recording."""
    if is_compiling():
        return
    recorder = _recorder.get()
    if recorder is not None and recorder.shown:
        with torch.no_grad():
            recorder.tap(module, name, compute(), axes, editable=False)


def note(address: str, value: Tensor | Callable[[], Tensor], axes: str) -> None:
    """``show`` for a value, or a function that makes it, of no module, such as a loss."""
    if is_compiling():
        return
    recorder = _recorder.get()
    if recorder is not None and recorder.shown:
        with torch.no_grad():
            recorder.record(address, value() if callable(value) else value, axes, editable=False)


def is_tracing() -> bool:
    """Whether the current context records; guards loops of ``note``."""
    return not is_compiling() and _recorder.get() is not None


@contextmanager
def capture(module: nn.Module, name: str) -> Iterator[list[Tensor]]:
    """The values of one tap inside the block, after edits; a trace is not disturbed."""
    recorder = _Capture(module, name, _recorder.get())
    token = _recorder.set(recorder)
    try:
        yield recorder.values
    finally:
        _recorder.reset(token)


def check_selection(only: str, edits: Mapping[str, Edit] | None) -> None:
    """Raise ``TraceError`` unless ``only`` is a glob and ``edits`` maps globs to functions."""
    check_type("only", only, str, "a glob over addresses, such as 'encoder.*'", TraceError)
    check_type("edits", edits, Mapping | None, "a dict from addresses to functions", TraceError)
    for address, edit in (edits or {}).items():
        if not isinstance(address, str) or not callable(edit):
            raise TraceError(
                f"edits: found {address!r:.60}: {type(edit).__name__}, expected an address and a function."
            )


@contextmanager
def tracing(
    model: nn.Module,
    edits: Mapping[str, Edit] | None = None,
    only: str = "*",
    *,
    gradients: bool = False,
    shown: bool = True,
) -> Iterator[Trace]:
    """Record every tap that ``model`` passes inside the block, in this thread and task only.

    ``edits`` maps globs over addresses of taps, parameters and buffers to functions that return a replacement; one
    that matches nothing is an error. The model itself never changes. ``only`` is a glob over the addresses to store;
    ``*`` stands for any characters, dots too, and ``?`` for one. ``gradients`` stores the gradient of each stored
    tap that a backward pass reaches. ``shown=False`` omits values from which nothing is computed. A compiled model
    has no taps: trace the model itself. Raises ``TraceError`` inside another block that records.
    """
    check_selection(only, edits)
    if _recorder.get() is not None:
        raise TraceError(
            "tracing: found one block inside another, expected one at a time: the outer one would not record what "
            "the inner one does. Record all in the outer block, or end it before the next one begins."
        )
    recorder = _Recorder(model, edits or {}, only, gradients=gradients, shown=shown)
    weights = EditedWeights(model, recorder.edits)
    recorder.used_edits |= weights.used
    token = _recorder.set(recorder)
    try:
        with weights if weights.used else nullcontext():
            yield recorder.trace
    finally:
        _recorder.reset(token)
    unused = sorted(set(recorder.edits) - recorder.used_edits)
    if unused:
        known = [*recorder.passed, *(name for name, _ in model.named_parameters())]
        raise TraceError(
            f"edits: {', '.join(unused)} matched no tap that was passed and no weight.{nearest(unused[0], known)} "
            "See the addresses of a trace, and model.named_parameters()."
        )
