"""Taps: a name and axes for every tensor on the way, free when idle, recorded inside ``tracing``.

``x = tap(self, "scores", x, "batch heads query key")`` stands where a shape comment would stand. Nothing
is hooked, wrapped or stored on the model: only the current context records, so two threads do not mix.
Knows nothing of transformers.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from glassformer.axes import LEGEND
from glassformer.errors import TraceError, nearest

Edit = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Step:
    """One recorded tensor: where it was tapped, its axis words, and a detached copy of its value."""

    address: str
    axes: tuple[str, ...]
    value: Tensor

    @property
    def name(self) -> str:
        """The tap's own name, the last part of the address."""
        return self.address.rpartition(".")[2]

    @property
    def shape(self) -> tuple[int, ...]:
        """The concrete size of each axis."""
        return tuple(self.value.shape)


class Trace:
    """The steps of one or more forward passes, in the order in which they were computed."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __contains__(self, address: object) -> bool:
        return any(step.address == address for step in self.steps)

    def __getitem__(self, address: str) -> Tensor:
        """The value at an address that was passed exactly once."""
        found = [step for step in self.steps if step.address == address]
        if not found:
            known = {step.address for step in self.steps}
            raise TraceError(f"{address}: no such step among the {len(known)} recorded.{nearest(address, known)}")
        if len(found) > 1:
            raise TraceError(
                f"{address}: recorded {len(found)} times, one for each pass. Use select({address!r}) to see all."
            )
        return found[0].value

    def select(self, pattern: str) -> list[Step]:
        """The steps whose address matches a glob such as ``decoder.layers.*.cross_attention.weights``."""
        return [step for step in self.steps if fnmatchcase(step.address, pattern)]


class _Recorder:
    """What one ``tracing`` block knows: the model's module paths, its axis sizes, the edits and the trace."""

    def __init__(self, model: nn.Module, edits: Mapping[str, Edit], only: str) -> None:
        self.paths = {id(module): path for path, module in model.named_modules(remove_duplicate=False)}
        self.config = getattr(model, "config", None)
        self.edits = edits
        self.only = only
        self.used_edits: set[str] = set()
        self.trace = Trace()

    def record(self, module: nn.Module, name: str, value: Tensor, axes: str, *, editable: bool) -> Tensor:
        if id(module) not in self.paths:
            return value  # another model, running in the same context
        address = f"{self.paths[id(module)]}.{name}".lstrip(".")
        words = tuple(axes.split())
        self._check(address, words, value)
        value = self._edited(address, value, editable=editable)
        if fnmatchcase(address, self.only):
            self.trace.steps.append(Step(address, words, value.detach().clone()))
        return value

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
            edited = edit(value.clone())  # an edit in place must not reach weights, tables or caches
            if not isinstance(edited, Tensor):
                raise TraceError(f"{address}: the edit returned {type(edited).__name__}, expected a tensor.")
            if edited.shape != value.shape or edited.dtype != value.dtype:
                raise TraceError(
                    f"{address}: the edit returned {tuple(edited.shape)} {edited.dtype}, "
                    f"expected {tuple(value.shape)} {value.dtype}."
                )
            value = edited
            self.used_edits.add(pattern)
        return value


_recorder: ContextVar[_Recorder | None] = ContextVar("glassformer_recorder", default=None)


def tap(module: nn.Module, name: str, value: Tensor, axes: str) -> Tensor:
    """Name a tensor on the way and its axes; the value itself, or its edit inside ``tracing``."""
    if torch.compiler.is_compiling():
        return value
    recorder = _recorder.get()
    if recorder is None:
        return value
    return recorder.record(module, name, value, axes, editable=True)


def show(module: nn.Module, name: str, compute: Callable[[], Tensor], axes: str) -> None:
    """Name a tensor that stands beside the way, computed for the reader alone and only while recording."""
    if torch.compiler.is_compiling():
        return
    recorder = _recorder.get()
    if recorder is not None:
        with torch.no_grad():
            recorder.record(module, name, compute(), axes, editable=False)


@contextmanager
def tracing(model: nn.Module, edits: Mapping[str, Edit] | None = None, only: str = "*") -> Iterator[Trace]:
    """Record every tap that ``model`` passes inside the block, in this thread and task alone.

    ``edits`` maps globs over addresses to functions from the tensor to its replacement; an edit that meets
    no tap is an error, so that a misspelt address cannot pass for an edit without effect. ``only`` is a glob
    over the addresses to keep; the others are still checked, but not stored. A compiled model holds no taps:
    trace the model itself, not what ``torch.compile`` returned.
    """
    recorder = _Recorder(model, edits or {}, only)
    token = _recorder.set(recorder)
    try:
        yield recorder.trace
    finally:
        _recorder.reset(token)
    unused = set(recorder.edits) - recorder.used_edits
    if unused:
        raise TraceError(
            f"edits: {', '.join(sorted(unused))} matched no tap that was passed. See the addresses of a trace."
        )
