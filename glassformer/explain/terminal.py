"""A walk on the terminal: one line for each step, grouped by stage and module; plain text where there is no colour.

Nothing of a user's text is read as markup or as terminal controls. Knows no model.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from glassformer.explain.heatmap import print_attention
from glassformer.explain.plain import printable, shape_text, symbols_text
from glassformer.explain.stages import layer_of
from glassformer.explain.tables import value_tables
from glassformer.explain.walk import Walk, WalkStep

__all__ = ["print_attention", "print_walk"]

_LEAST_EQUATION = 20
_INDENT = (0, 0, 0, 7)


def print_walk(walk: Walk, console: Console, *, values: bool = False, all_layers: bool = False, row: int = 0) -> None:
    """Print the walk; ``values`` adds what each step holds for sentence ``row``, and what each step means.

    Layers after the first of a stack are folded to one line, unless ``all_layers``, ``values`` or the walk's own
    choice of addresses asks for them.
    """
    _print_sentences(walk, console)
    if values:
        console.print(Text(f"values: those of sentence {row + 1}", style="dim"))
    folds = walk.only == "*" and not (values or all_layers)
    for stage, steps in _stages(walk.steps, folds=folds):
        console.print()
        console.print(Text(stage, style="bold cyan"))
        if folds and _is_repeated(steps[0]):
            _print_folded(steps, console)
            continue
        for module, group in groupby(steps, key=_module):
            _print_module(module, list(group), walk, console, row if values else None)


def _print_sentences(walk: Walk, console: Console) -> None:
    for number, (source, target) in enumerate(
        zip(walk.sentences.sources, walk.sentences.targets, strict=True), start=1
    ):
        console.print(Text(f"{number}  {printable(source)} → {printable(target)}"))


def _stages(steps: Iterable[WalkStep], *, folds: bool) -> Iterator[tuple[str, list[WalkStep]]]:
    """The steps by stage, in order; folded layers of a stack make one stage."""
    for _, group in groupby(steps, key=lambda step: _stage_key(step, folds=folds)):
        members = list(group)
        first, last = members[0].stage, members[-1].stage
        yield (first if first == last else f"{first.replace(' layer ', ' layers ')} to {last.split()[-1]}"), members


def _stage_key(step: WalkStep, *, folds: bool) -> str:
    return f"{step.stage.split()[0]} layers after the first" if folds and _is_repeated(step) else step.stage


def _is_repeated(step: WalkStep) -> bool:
    layer = layer_of(step.address)
    return layer is not None and layer[1] > 0


def _module(step: WalkStep) -> str:
    return step.address.rpartition(".")[0]


def _print_folded(steps: list[WalkStep], console: Console) -> None:
    console.print(Text(f"  the same steps again, numbers {steps[0].number} to {steps[-1].number}", style="dim"))


def _print_module(module: str, steps: list[WalkStep], walk: Walk, console: Console, row: int | None) -> None:
    """The steps of one module under its path; with ``row``, each with its meaning and its values."""
    if module:
        console.print(Text(f"  {module}", style="cyan"))
    if row is None:
        console.print(_lines(steps, walk, console.width))
        return
    for step in steps:
        console.print(_lines([step], walk, console.width))
        about = f"{step.story.title} (section {step.story.section}). {step.story.sentence}"
        console.print(Padding(Text(about, style="italic"), _INDENT))
        for renderable in value_tables(walk, step, row, console.width - _INDENT[3]):
            console.print(Padding(renderable, _INDENT))
        console.print()


def _lines(steps: list[WalkStep], walk: Walk, width: int) -> Table:
    """Number, name, equation, symbols = shape; columns stand alike in the whole walk.

    Where the width leaves no room beside the equation, symbols and shape go below it.
    """
    number = len(str(len(walk.steps))) + 2
    name = max(len(step.name) for step in walk.steps)
    shape = max(len(_shape_line(step)) for step in walk.steps)
    room = width - number - name - shape - 3
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", width=number, style="dim")
    grid.add_column(width=name, style="bold")
    if room < _LEAST_EQUATION:
        grid.add_column(overflow="fold")
    else:
        grid.add_column(width=room, overflow="fold")
        grid.add_column(no_wrap=True)
    for step in steps:
        equation, line = Text(step.story.equation, style="green"), Text(_shape_line(step))
        about = [Text("\n").join([equation, line])] if room < _LEAST_EQUATION else [equation, line]
        grid.add_row(Text(str(step.number)), Text(step.name), *about)
    return grid


def _shape_line(step: WalkStep) -> str:
    return f"{symbols_text(step.symbols)} = {shape_text(step.shape)}" if step.shape else "one number"
