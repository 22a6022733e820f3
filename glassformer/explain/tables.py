"""What a step holds, as small tables: tokens down, tokens or numbers across, one table for each head.

Large values are cut, and the caption says so. Knows no stages and no model.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text
from torch import Tensor

from glassformer.explain.plain import clipped, number_text
from glassformer.explain.walk import Walk, WalkStep

_ROWS, _NUMBERS, _TABLES = 12, 8, 4
_LABEL_WIDTH, _CELL_WIDTH = 12, 9


@dataclass(frozen=True, eq=False)
class _Axis:
    """One axis left to show: its symbol and the label of each entry; a token's, or the entry's number from 0."""

    word: str
    symbol: str
    labels: list[str]
    is_tokens: bool

    @property
    def size(self) -> int:
        return len(self.labels)


def value_tables(walk: Walk, step: WalkStep, row: int, width: int) -> Iterator[Table | Text]:
    """Tables of the step's value for sentence ``row``, at most ``width`` columns wide, and what they leave out."""
    value, axes, cells = _of_sentence(walk, step, row)
    if len(axes) <= 2:
        yield from _with_caption(*_matrix(value, axes, cells, width))
        return
    outer = next((place for place, axis in enumerate(axes) if axis.word == "heads"), 0)
    axis, inner = axes[outer], [*axes[:outer], *axes[outer + 1 :]]
    for index in range(min(axis.size, _TABLES)):
        yield Text(f"{axis.symbol} = {axis.labels[index]}", style="bold")
        table, cut = _matrix(value.select(outer, index), inner, None, width)
        yield from _with_caption(table, cut if index == 0 else [])
    if axis.size > _TABLES:
        yield Text(f"showing {_TABLES} of {axis.size} along {axis.symbol}", style="dim")


def _of_sentence(walk: Walk, step: WalkStep, row: int) -> tuple[Tensor, list[_Axis], list[str] | None]:
    """The value, axes and token cells of one sentence, without its axes of a single stretched entry."""
    labels = walk.labels(step, row)
    value, axes = step.value, []
    for place in reversed(range(value.ndim)):
        word = step.axes[place]
        if word in ("batch", "one"):
            value = value.select(place, row if word == "batch" else 0)
            continue
        tokens = labels[place]
        numbers = [str(index) for index in range(step.value.shape[place])]
        axes.append(_Axis(word, step.symbols[place], list(tokens or numbers), tokens is not None))
    cells = None if step.cells is None else list(step.cells[row])
    return value, axes[::-1], cells


def _matrix(value: Tensor, axes: list[_Axis], cells: list[str] | None, width: int) -> tuple[Table, list[str]]:
    """A table of one number, of one axis across, or of two; and what was cut."""
    across = axes[-1] if axes else _Axis("", "", [""], is_tokens=False)
    down = axes[0] if len(axes) == 2 else _Axis("", "", [""], is_tokens=False)
    n_down, n_across = min(down.size, _ROWS), min(across.size, _columns(across, width))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for label in across.labels[:n_across]:
        table.add_column(_token(label, _CELL_WIDTH - 1), justify="right", no_wrap=True)
    shown = value.reshape(down.size, across.size)[:n_down, :n_across].tolist()
    for label, numbers in zip(down.labels, shown, strict=False):
        table.add_row(_token(label, _LABEL_WIDTH), *(Text(number_text(number)) for number in numbers))
    if cells is not None:
        table.add_row(Text(""), *(_token(cell, _CELL_WIDTH - 1) for cell in cells[:n_across]))
    cut = [(n_down, down), (n_across, across)]
    return table, [f"{shown} of {axis.size} along {axis.symbol}" for shown, axis in cut if shown < axis.size]


def _columns(across: _Axis, width: int) -> int:
    fitting = max(1, (width - _LABEL_WIDTH - 1) // _CELL_WIDTH)
    return fitting if across.is_tokens else min(fitting, _NUMBERS)


def _token(label: str, width: int) -> Text:
    return Text(clipped(label, width))


def _with_caption(table: Table, cut: list[str]) -> Iterator[Table | Text]:
    yield table
    if cut:
        yield Text(f"showing {', '.join(cut)}", style="dim")
