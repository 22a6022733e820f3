"""Taps: a name and axes for every tensor on the way, free when idle, recorded inside ``tracing``.

``x = tap(self, "scores", x, "batch heads query key")`` stands where a shape comment would stand. Nothing
is hooked, wrapped or stored on the model: only the current context records, so two threads do not mix.
Knows nothing of transformers.
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
from glassformer.errors import TraceError, nearest
from glassformer.trace.record import Step, Trace
from glassformer.trace.weight_edits import Edit, EditedWeights, edited

__all__ = ["Edit", "Step", "Trace", "hearing", "is_tracing", "note", "show", "tap", "tracing"]


class _Recorder:
    """What one ``tracing`` block knows: the model's module paths, its axis sizes, the edits and the trace."""

    def __init__(
        self, model: nn.Module, edits: Mapping[str, Edit], only: str, *, gradients: bool, shown: bool
    ) -> None:
        self.paths = {id(module): path for path, module in model.named_modules(remove_duplicate=False)}
        self.config = getattr(model, "config", None)
        self.edits = edits
        self.only = only
        self.gradients = gradients
        self.shown: bool = shown
        self.used_edits: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.trace = Trace()

    def tap(self, module: nn.Module, name: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        if id(module) not in self.paths:
            return value  # another model, running in the same context
        return self.record(f"{self.paths[id(module)]}.{name}".lstrip("."), value, axes, editable=editable)

    def record(self, address: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        words = tuple(axes.split())
        self._check(address, words, value)
        value = self._edited(address, value, editable=editable)
        if fnmatchcase(address, self.only):
            step = Step(address, words, value.detach().clone(), self.calls[address])
            self.calls[address] += 1
            self.trace.steps.append(step)
            if self.gradients and value.requires_grad:
                value.register_hook(lambda gradient: self._keep_gradient(step, gradient))  # type: ignore[no-untyped-call]
        return value

    def _keep_gradient(self, step: Step, gradient: Tensor) -> None:
        self.trace.gradients[step.key] = gradient.detach().clone()

    def _check(self, address: str, words: tuple[str, ...], value: Tensor) -> None:
        if len(words) != value.ndim:
            raise TraceError(
                f"{address}: the tap names {len(words)} axes {words}, the tensor has {tuple(value.shape)}."
            )
        for word, size in zip(words, value.shape, strict=True):
            if word not in LEGEND:
                raise TraceError(f"{address}: {word!r} is no axis of the legend.{nearest(word, LEGEND)}")
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

    def _edited(self, address: str, value: Tensor, *, editable: bool) -> Tensor:
        for pattern, edit in self.edits.items():
            if not fnmatchcase(address, pattern):
                continue
            if not editable:
                raise TraceError(
                    f"{address}: is shown beside the way, so an edit would change nothing. Edit a tap on it."
                )
            value = edited(address, value, edit)
            self.used_edits.add(pattern)
        return value


class _Listener:
    """What one ``hearing`` block knows: the tap it waits for. All else goes on to the recorder outside, if any."""

    def __init__(self, module: nn.Module, name: str, outside: "_Recorder | _Listener | None") -> None:
        self.module, self.name, self.outside = module, name, outside
        self.shown: bool = outside is not None and outside.shown
        self.heard: list[Tensor] = []

    def tap(self, module: nn.Module, name: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        if self.outside is not None:
            value = self.outside.tap(module, name, value, axes, editable=editable)
        if module is self.module and name == self.name:
            self.heard.append(value)
        return value

    def record(self, address: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        return value if self.outside is None else self.outside.record(address, value, axes, editable=editable)


_recorder: ContextVar[_Recorder | _Listener | None] = ContextVar("glassformer_recorder", default=None)


def tap(module: nn.Module, name: str, value: Tensor, axes: str) -> Tensor:
    """Name a tensor on the way and its axes; the value itself, or its edit inside ``tracing``."""
    if is_compiling():
        return value
    recorder = _recorder.get()
    if recorder is None:
        return value
    return recorder.tap(module, name, value, axes, editable=True)


def show(module: nn.Module, name: str, compute: Callable[[], Tensor], axes: str) -> None:
    """Name a tensor that stands beside the way, computed for the reader alone and only while recording."""
    if is_compiling():
        return
    recorder = _recorder.get()
    if recorder is not None and recorder.shown:
        with torch.no_grad():
            recorder.tap(module, name, compute(), axes, editable=False)


def note(address: str, value: Tensor | Callable[[], Tensor], axes: str) -> None:
    """``show`` for what belongs to no module, such as a search or a loss, under an address of its own.

    What has yet to be computed is given as a function.
    """
    if is_compiling():
        return
    recorder = _recorder.get()
    if recorder is not None and recorder.shown:
        with torch.no_grad():
            recorder.record(address, value() if callable(value) else value, axes, editable=False)


def is_tracing() -> bool:
    """Whether the current context records; for loops of notes that would take time when idle."""
    return not is_compiling() and _recorder.get() is not None


@contextmanager
def hearing(module: nn.Module, name: str) -> Iterator[list[Tensor]]:
    """The values of one tap inside the block, as edits outside left them, while a trace outside goes on as it was.

    For code that needs a value which only passes by, such as a search that looks at attention.
    """
    listener = _Listener(module, name, _recorder.get())
    token = _recorder.set(listener)
    try:
        yield listener.heard
    finally:
        _recorder.reset(token)


@contextmanager
def tracing(
    model: nn.Module,
    edits: Mapping[str, Edit] | None = None,
    only: str = "*",
    *,
    gradients: bool = False,
    shown: bool = True,
) -> Iterator[Trace]:
    """Record every tap that ``model`` passes inside the block, in this thread and task alone.

    ``edits`` maps globs over the addresses of taps, weights and tables to functions from the tensor to its
    replacement; an edit that meets neither is an error, so that a misspelt address cannot pass for an edit
    without effect. A weight is replaced where it is read and nowhere else: the model itself is never changed.
    ``only`` is a glob over the addresses to keep; the others are still checked, but not stored. ``gradients``
    keeps the gradient of each kept tap that a backward pass inside or after the block reaches. ``shown=False``
    leaves out what stands beside the way: the inner values of norms, probabilities, what a search or an update
    notes. A compiled model holds no taps: trace the model itself, not what ``torch.compile`` returned.
    """
    recorder = _Recorder(model, edits or {}, only, gradients=gradients, shown=shown)
    weights = EditedWeights(model, recorder.edits)
    recorder.used_edits |= weights.used
    token = _recorder.set(recorder)
    try:
        with weights if weights.used else nullcontext():
            yield recorder.trace
    finally:
        _recorder.reset(token)
    unused = set(recorder.edits) - recorder.used_edits
    if unused:
        raise TraceError(
            f"edits: {', '.join(sorted(unused))} matched no tap that was passed and no weight. "
            "See the addresses of a trace, and model.named_parameters()."
        )
