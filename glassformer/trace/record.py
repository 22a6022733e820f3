"""What a ``tracing`` block recorded: its steps in order, selected, saved, loaded and shown.

On disk a trace is two files. ``trace.json`` holds ``format``, ``version`` and ``steps``, each with ``address``,
``axes``, ``call``, ``shape``, ``dtype`` and ``gradient`` (whether one is stored). ``values.safetensors`` holds step
n, from 1, as ``n``, and its gradient as ``n.gradient``.
"""

import json
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.axes import LEGEND
from glassformer.errors import StorageError, TraceError, check_path, check_type, nearest
from glassformer.files import check_directory, check_safetensors, read_json_file
from glassformer.trace.heat_maps import Heads, heads_html

FORMAT, VERSION = "glassformer trace", 1
_HEAD = ("address", "call", "axes", "shape", "min", "mean", "max")
_ATTENTION = ("batch", "heads", "query", "key")
_INDEX, _VALUES = "trace.json", "values.safetensors"
_KNOWN_FILES = {_INDEX, _VALUES, "walk.json"}  # a walk adds the last


@dataclass(frozen=True, eq=False)
class Step:
    """One tapped tensor; ``call`` counts the passes of its address, from 0."""

    address: str
    axes: tuple[str, ...]
    value: Tensor
    call: int = 0

    @property
    def name(self) -> str:
        """The tap's own name, the last part of the address."""
        return self.address.rpartition(".")[2]

    @property
    def shape(self) -> tuple[int, ...]:
        """The concrete size of each axis."""
        return tuple(self.value.shape)

    @property
    def key(self) -> tuple[str, int]:
        """Address and call, which together name one step of a trace."""
        return self.address, self.call


class Trace:
    """The steps of one or more forward passes, in the order of computation.

    ``gradients`` holds, by ``key``, those of the steps that a backward pass reached under ``gradients=True``.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.gradients: dict[tuple[str, int], Tensor] = {}

    def __repr__(self) -> str:
        ends = f", {self.steps[0].address} ... {self.steps[-1].address}" if self.steps else ""
        return f"Trace({len(self.steps)} steps{ends})"

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __contains__(self, address: object) -> bool:
        return any(step.address == address for step in self.steps)

    def __getitem__(self, address: str) -> Tensor:
        """The value at an address that was recorded once; else a ``TraceError``."""
        check_type("address", address, str, "the address of a step, a str", TraceError)
        found = [step for step in self.steps if step.address == address]
        if not found:
            known = {step.address for step in self.steps}
            raise TraceError(f"{address}: no such step among the {len(known)} recorded.{nearest(address, known)}")
        if len(found) > 1:
            raise TraceError(
                f"{address}: recorded {len(found)} times, one for each pass. Use select({address!r}) to see all."
            )
        return found[0].value

    def gradient(self, address: str) -> Tensor:
        """The gradient at an address that was recorded once; else a ``TraceError``."""
        value, found = self[address], [one for (where, _), one in self.gradients.items() if where == address]
        if not found:
            raise TraceError(
                f"{address}: has {tuple(value.shape)} numbers, but no gradient. Trace with gradients=True "
                "and call backward() on a result that depends on it."
            )
        return found[0]

    def select(self, pattern: str) -> list[Step]:
        """The steps whose address matches a glob; ``*`` stands for any characters, dots too."""
        check_type("pattern", pattern, str, "a glob over addresses, a str", TraceError)
        return [step for step in self.steps if fnmatchcase(step.address, pattern)]

    def save(self, directory: str | Path) -> None:
        """Write the trace over an older one; ``StorageError`` for other files."""
        place = check_path("directory", directory).absolute()
        temporary = place.parent / f".{secrets.token_hex(8)}.tmp"  # short, and a name for the root too
        found = check_directory_of_trace(directory)
        try:
            temporary.mkdir(parents=True)
            self._write(temporary)
            place.mkdir(exist_ok=True)
            for name in sorted(found):  # the index first, so that a half-replaced trace is not read as one
                (place / name).unlink()
            for name in (_VALUES, _INDEX):
                (temporary / name).rename(place / name)
        except (OSError, SafetensorError) as error:
            raise _unwritable(directory, error) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _write(self, place: Path) -> None:
        tensors = {str(number): step.value for number, step in enumerate(self.steps, start=1)}
        tensors |= {
            f"{number}.gradient": self.gradients[step.key]
            for number, step in enumerate(self.steps, start=1)
            if step.key in self.gradients
        }
        save_file(_copy_shared(tensors), place / _VALUES)
        steps = [
            {
                "address": step.address, "call": step.call, "axes": list(step.axes), "shape": list(step.shape),
                "dtype": str(step.value.dtype).removeprefix("torch."), "gradient": step.key in self.gradients,
            }
            for step in self.steps
        ]  # fmt: skip
        text = json.dumps({"format": FORMAT, "version": VERSION, "steps": steps}, indent=1)
        (place / _INDEX).write_text(text + "\n", encoding="utf-8")
        (place / _VALUES).chmod((place / _INDEX).stat().st_mode)  # the library lets nobody else read it

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read what ``save`` wrote, onto the CPU; ``TraceError`` names a damaged file."""
        place = check_path("directory", directory)
        trace = cls()
        index, tensors = _read_index(place / _INDEX), _read_values(place / _VALUES)
        for number, mapping in enumerate(index, start=1):
            where = f"{place}: step {number}"
            try:
                step = _step(mapping, tensors[str(number)])
                fits = list(step.shape) == mapping["shape"]
                if mapping["gradient"]:
                    trace.gradients[step.key] = tensors[f"{number}.gradient"]
            except KeyError as error:
                raise TraceError(f"{where} lacks {error}. The files do not belong together.") from error
            except (TypeError, ValueError) as error:
                raise TraceError(f"{where} cannot be read: {error}. The trace is incomplete.") from error
            if not fits:
                raise TraceError(
                    f"{where}, {step.address}, is {step.shape}, "
                    f"trace.json says {mapping['shape']}. The files do not belong together."
                )
            trace.steps.append(step)
        return trace

    def to_markdown(self) -> str:
        """A table with a line for each step: address, call, axes, shape, min, mean and max."""
        rows = [_HEAD, ("---",) * len(_HEAD), *((f"`{step.address}`", *_cells(step)) for step in self.steps)]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"

    def _repr_html_(self) -> str:
        rows = [(f"<code>{escape(step.address)}</code>", *_cells(step)) for step in self.steps]
        table = f"<table>{_html_row('th', _HEAD)}{''.join(_html_row('td', row) for row in rows)}</table>"
        maps = [step for step in self.steps if step.name == "weights" and step.axes == _ATTENTION and step.shape[0]]
        return heads_html(list(map(_heads, maps))) + table


def _step(mapping: dict[str, Any], value: Tensor) -> Step:
    """A step from its entry in the index; ``ValueError`` if that is not valid."""
    address, call, axes = mapping["address"], mapping["call"], mapping["axes"]
    if not isinstance(address, str) or type(call) is not int:
        raise ValueError(f"found address {address!r} and call {call!r}, expected a string and a whole number")
    if not isinstance(axes, list) or len(axes) != value.ndim or not LEGEND.keys() >= {*map(str, axes)}:
        raise ValueError(f"found axes {axes!r}, expected {value.ndim} words of the legend")
    return Step(address, tuple(axes), value, call)


def check_directory_of_trace(directory: str | Path) -> set[str]:
    """The files of a trace that a new one replaces; ``StorageError`` for others."""
    place = Path(directory).absolute()
    try:
        found = {entry.name for entry in place.iterdir()} if place.exists() else set()
        for each in (place.parent, place):
            check_directory(each)
    except OSError as error:
        raise _unwritable(directory, error) from error
    if found and (_INDEX not in found or found - _KNOWN_FILES or not _is_index(place / _INDEX)):
        raise StorageError(f"{directory}: exists and holds more than a trace. Choose another directory.")
    return found


def _unwritable(directory: str | Path, error: Exception) -> StorageError:
    return StorageError(f"{directory}: the trace cannot be written: {error}. Choose another directory.")


def _is_index(path: Path) -> bool:
    try:
        _read_index(path)
    except TraceError:
        return False
    return True


def _heads(step: Step) -> Heads:
    queries, keys = (list(map(str, range(size))) for size in step.shape[2:])
    again = f", call {step.call}" if step.call else ""
    return Heads(step.address.removesuffix(".weights") + again, step.value[0].cpu(), queries, keys)


def _html_row(tag: str, cells: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"


def _copy_shared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as safetensors requires them: on the CPU, contiguous, unshared."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        tensor = tensor.cpu().contiguous()
        result[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return result


def _cells(step: Step) -> tuple[str, ...]:
    values = step.value.double()
    numbers = (values.min(), values.mean(), values.max()) if values.numel() else ()
    return (
        str(step.call), " ".join(step.axes), " × ".join(map(str, step.shape)) or "one number",
        *([f"{float(number):.4g}" for number in numbers] or ["", "", ""]),
    )  # fmt: skip


def _read_index(path: Path) -> list[dict[str, Any]]:
    try:
        mapping = read_json_file(path)
        found = (mapping["format"], mapping["version"])
        steps: list[dict[str, Any]] = list(mapping["steps"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise TraceError(
            f"{path}: cannot be read as a trace: {error!r}. Give a directory that was saved from one."
        ) from error
    if found != (FORMAT, VERSION):
        raise TraceError(f"{path}: found {found}, but this version reads {(FORMAT, VERSION)}.")
    return steps


def _read_values(path: Path) -> dict[str, Tensor]:
    try:
        check_safetensors(path)
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise TraceError(f"{path}: cannot be read: {error}. The trace is incomplete.") from error
