"""A walk on the terminal: one line for each step, grouped by stage and module."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from glassformer.errors import check_type
from glassformer.explain.plain import printable
from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.explain.render.outline import WalkSection, gradient_line, outline, shape_line, source_line
from glassformer.explain.render.walk_tables import (
    Cell,
    Table,
    TableLimits,
    batch_tables,
    cell_text,
    check_sentence,
    is_cross_attention_map,
    step_lines,
    value_tables,
)

_MIN_EQUATION, _MIN_TEXT = 20, 12
_INDENT, _GAP = 7, "  "
_LABEL_WIDTH, _CELL_WIDTH, _NUMBERS = 13, 9, 8


def print_walk(
    walk: WalkData, console: Console, *, values: bool = False, all_layers: bool = False, sentence: int = 0,
    ids: bool = False,
) -> None:  # fmt: skip
    """Print the walk; ``values`` adds meanings and numbers for one ``sentence``, ``ids`` those of the batch.

    Without ``all_layers`` and ``values``, repeated steps are folded. ``TraceError`` for a sentence that is not there.
    """
    check_type("walk", walk, WalkData, "a walk, as glassformer.explain.walk makes it")
    check_type("console", console, Console, "a Console of rich")
    check_sentence(walk, sentence)
    pairs = zip(walk.sentences.sources, walk.sentences.targets, strict=True)
    for number, (source, target) in enumerate(pairs):
        console.print(Text(f"{number}  {printable(source)} → {printable(target)}"))
    if values:
        console.print(Text(f"values: those of sentence {sentence}", style="dim"))
    for table in batch_tables(walk) if ids else ():
        console.print()
        for renderable in _draw_table(table, console.width):
            console.print(renderable)
    folds, columns = not (values or all_layers), _columns(walk, console.width)
    for section in outline(walk, folds_layers=folds, folds_repeats=folds):
        _print_section(section, walk, columns, console, sentence if values else None)


def _print_section(
    section: WalkSection, walk: WalkData, columns: "_Columns", console: Console, row: int | None
) -> None:
    """With ``row``, each step with its meaning and its values for that sentence."""
    console.print()
    console.print(Text(section.title, style="bold cyan"))
    for module, steps in groupby(section.steps, key=lambda step: step.address.rpartition(".")[0]):
        if module:
            console.print(Text(f"  {module}", style="cyan"))
        if row is None:
            console.print(_lines(steps, columns))
            continue
        for step in steps:
            console.print(_lines([step], columns))
            for renderable in _details(walk, step, row, console.width - _INDENT):
                console.print(Padding(renderable, (0, 0, 0, _INDENT), expand=False))
            console.print()
    if section.folded:
        console.print(Padding(Text(section.folded, style="dim"), (0, 0, 0, 2), expand=False))
    for table in section.tables:
        console.print()
        for renderable in _draw_table(table, console.width - 2):
            console.print(Padding(renderable, (0, 0, 0, 2), expand=False))


def _details(walk: WalkData, step: WalkStep, row: int, width: int) -> Iterator[RenderableType]:
    yield Text(f"{step.story.title} ({source_line(step)}). {step.story.sentence}", style="italic")
    for line in step_lines(step, row):
        yield Text(printable(line))
    for table in _fitting_tables(walk, step, row, width):
        yield from _draw_table(table, width)


def _fitting_tables(walk: WalkData, step: WalkStep, row: int, width: int) -> list[Table]:
    fitting = max(1, (width - _LABEL_WIDTH) // _CELL_WIDTH)
    tables = list(value_tables(walk, step, row, TableLimits(tokens=fitting, numbers=min(fitting, _NUMBERS))))
    while fitting > 1 and is_cross_attention_map(step) and not all(_fits(table, width) for table in tables):
        fitting -= 1
        tables = list(value_tables(walk, step, row, TableLimits(tokens=fitting)))
    return tables


def _fits(table: Table, width: int) -> bool:
    columns = zip(table.headers, *table.rows, strict=True)
    return sum(max(cell_len(cell_text(cell)) for cell in column) + len(_GAP) for column in columns) <= width


def _draw_table(table: Table, width: int) -> Iterator[RenderableType]:
    if table.title:
        yield Text(printable(table.title), style="bold")
    for block in _column_blocks(table, width) if table.whole else [table]:
        if block.rows:
            yield from _rows(block, width)
    if table.caption:
        yield Text(printable(table.caption), style="dim")


def _column_blocks(table: Table, width: int) -> Iterator[Table]:
    """Blocks of columns that fit the width, each with the first column."""
    first, *columns = zip(table.headers, *table.rows, strict=True)
    sizes = [max(cell_len(cell_text(cell)) for cell in column) + len(_GAP) for column in (first, *columns)]
    block, used = [first], sizes[0]
    for column, size in zip(columns, sizes[1:], strict=True):
        if len(block) > 1 and used + size > width:
            yield _of_columns(table, block)
            block, used = [first], sizes[0]
        block.append(column)
        used += size
    yield _of_columns(table, block)


def _of_columns(table: Table, columns: list[tuple[Cell, ...]]) -> Table:
    headers, *rows = zip(*columns, strict=True)
    return replace(table, headers=tuple(map(str, headers)), rows=tuple(rows))


def _rows(table: Table, width: int) -> Iterator[RenderableType]:
    """A grid; where it is too wide even with folded words, a line for each row."""
    lines = [tuple(map(printable, table.headers)), *(tuple(map(cell_text, row)) for row in table.rows)]
    columns = list(zip(*lines, strict=True))
    is_number = [any(not isinstance(row[place], str) for row in table.rows) for place in range(len(columns))]
    sizes = [max(map(cell_len, column)) for column in columns]
    least = [size if number else min(size, _MIN_TEXT) for size, number in zip(sizes, is_number, strict=True)]
    gaps = len(_GAP) * len(columns)
    if sum(sizes) + gaps <= width:
        yield _grid(lines, sizes, is_number)
    elif sum(least) + gaps <= width:
        yield _folding_grid(lines, is_number)
    else:
        for line in lines[1:]:
            named = zip(lines[0], line, strict=True)
            yield Text(_GAP.join(f"{name} {cell}".strip() for name, cell in named if cell))


def _grid(lines: list[tuple[str, ...]], sizes: list[int], is_number: list[bool]) -> Text:
    """Headers, a rule and rows; numbers are aligned to the right."""
    header, *rows = (
        _GAP.join(
            " " * (size - cell_len(cell)) + cell if number else set_cell_size(cell, size)
            for cell, size, number in zip(line, sizes, is_number, strict=True)
        ).rstrip()
        for line in lines
    )
    rule = "─" * (sum(sizes) + len(_GAP) * (len(sizes) - 1))
    return Text("\n").join([Text(header, style="bold"), Text(rule), *map(Text, rows)])


def _folding_grid(lines: list[tuple[str, ...]], is_number: list[bool]) -> Grid:
    """The same where words take more than one line; numbers are not broken."""
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for header, number in zip(lines[0], is_number, strict=True):
        grid.add_column(Text(header), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for line in lines[1:]:
        grid.add_row(*map(Text, line))
    return grid


@dataclass(frozen=True)
class _Columns:
    """The widths of the columns; if ``equation`` is None, the rest goes below it."""

    number: int
    name: int
    equation: int | None
    rest: tuple[Callable[[WalkStep], str], ...]
    widths: tuple[int, ...]


def _columns(walk: WalkData, width: int) -> _Columns:
    number = len(str(max((step.number for step in walk.steps), default=0))) + 2
    name = max((len(step.name) for step in walk.steps), default=0)
    rest = (shape_line, gradient_line) if walk.trace.gradients else (shape_line,)
    widths = tuple(max((len(about(step)) for step in walk.steps), default=0) for about in rest)
    room = width - number - name - sum(widths) - len(widths) - 2
    return _Columns(number, name, room if room >= _MIN_EQUATION else None, rest, widths)


def _lines(steps: Iterable[WalkStep], columns: _Columns) -> Grid:
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(justify="right", width=columns.number, style="dim")
    grid.add_column(width=columns.name, style="bold")
    grid.add_column(width=columns.equation, overflow="fold")
    if columns.equation is not None:
        for width in (*columns.widths[:-1], None):
            grid.add_column(width=width, no_wrap=True)
    for step in steps:
        about = [Text(step.story.equation, style="green"), *(Text(about(step)) for about in columns.rest)]
        if columns.equation is None:
            about = [Text("\n").join(filter(None, about))]
        grid.add_row(Text(str(step.number)), Text(step.name), *about)
    return grid
