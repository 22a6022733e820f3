"""A walk as Markdown, a table of steps a stage; all texts are escaped."""

import re
from collections.abc import Iterable, Iterator, Sequence

from glassformer.explain.plain import printable
from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.explain.render.outline import WalkSection, gradient_line, outline, shape_line
from glassformer.explain.render.walk_tables import (
    Table,
    TableLimits,
    batch_tables,
    cell_text,
    check_sentence,
    step_lines,
    value_tables,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#&$!])")
_LIST_MARK = re.compile(r"^(\d*)([-+=.)])(?![\d.])")
_KINDS = {"forced": "Walk", "generation": "Generation", "training": "Training step"}


def walk_markdown(walk: WalkData, *, values: bool, sentence: int = 0, ids: bool = False) -> str:
    """The whole walk, with the arguments of ``print_walk``."""
    check_sentence(walk, sentence)
    count = len(walk.sentences.sources)
    blocks = [
        f"# {_KINDS[walk.kind]} of {count} sentence{'' if count == 1 else 's'}",
        _list(map(" → ".join, zip(walk.sentences.sources, walk.sentences.targets, strict=True))),
        f"Values are those of sentence {sentence}, counted from 0." if values else "",
    ]  # fmt: skip
    for table in batch_tables(walk) if ids else ():
        blocks += _draw_table(table)
    for section in outline(walk, folds_layers=False, folds_repeats=not values):
        blocks += _section(walk, section, sentence if values else None)
    return "\n\n".join(filter(None, blocks)) + "\n"


def _section(walk: WalkData, section: WalkSection, sentence: int | None) -> Iterator[str]:
    """With ``sentence``, each step's meaning and its values for that sentence."""
    yield f"## {section.title}"
    if section.steps:
        gradients = any(step.gradient is not None for step in section.steps)
        head = ["number", "step", "equation", "symbols = shape", *(["gradient"] if gradients else []), "section"]
        yield _table(head, [_row(step, gradients=gradients) for step in section.steps])
    if section.folded:
        yield f"*{escape_markdown(section.folded)}*"
    for table in section.tables:
        yield from _draw_table(table)
    if sentence is not None:
        for step in section.steps:
            yield from _details(walk, step, sentence)


def _row(step: WalkStep, *, gradients: bool) -> list[str]:
    gradient = [escape_markdown(gradient_line(step))] if gradients else []
    return [
        str(step.number), _code(step.address), _code(step.story.equation), _code(shape_line(step)), *gradient,
        step.story.section,
    ]  # fmt: skip


def _details(walk: WalkData, step: WalkStep, sentence: int) -> Iterator[str]:
    yield f"### {step.number} {_code(step.address)}"
    yield f"**{step.story.title}.** {escape_markdown(step.story.sentence)}"
    yield _list(step_lines(step, sentence), nests=step.address.startswith("text."))
    for table in value_tables(walk, step, sentence, TableLimits()):
        yield from _draw_table(table)


def _draw_table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"**{escape_markdown(table.title)}**"
    if table.rows:
        rows = ([escape_markdown(cell_text(cell)) for cell in row] for row in table.rows)
        yield _table(list(map(escape_markdown, table.headers)), rows)
    if table.caption:
        yield f"*{escape_markdown(table.caption)}*"


def escape_markdown(text: str) -> str:
    """The text on one line, escaped so that Markdown shows it as it is."""
    return _SPECIAL.sub(r"\\\1", printable(text)).strip()


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _list(lines: Iterable[str], *, nests: bool = False) -> str:
    """A list; with ``nests``, indented lines become entries below the one before."""
    return "\n".join(
        ("  - " if nests and line.startswith("  ") else "- ") + _LIST_MARK.sub(r"\1\\\2", escape_markdown(line))
        for line in lines
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
