"""A walk for a notebook: stages to unfold, with their steps; numbers in small tables, shaded by magnitude.

One piece of HTML without scripts, style sheets or anything to fetch. A user's text is escaped. The size is limited:
value tables are cut, and values and other parts are left out once they have used up their characters.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from glassformer.explain.plain import printable
from glassformer.explain.recording.walk_data import WalkData, WalkStep
from glassformer.explain.render.outline import WalkSection, gradient_line, outline, shape_line, source_line
from glassformer.explain.render.walk_tables import Cell, Table, TableLimits, cell_text, step_lines, value_tables
from glassformer.trace.heat_maps import Heads, heads_html, reads_and_writes
from glassformer.trace.palette import ABOVE, BELOW

_SENTENCE = 0
_MOST = TableLimits(down=8, tokens=8, numbers=6, tables=2)
_MAX_LINES = 60
_VALUES_ROOM, _REST_ROOM = 1_500_000, 1_000_000
_LEFT_OUT = "left out here, to keep the page small: a walk with only= shows them"
_STRONGEST, _WEAKEST = 0x99, 0x08  # opacity, two digits behind the colour, which suits light and dark pages
_INDENTED = ' style="margin-left:1.5em"'


def walk_html(walk: WalkData) -> str:
    """The whole walk, the first stage open; values are those of the first sentence.

    The decoder's steps at tokens after the first and the steps of each weight are folded.
    """
    values, rest = CharacterBudget(_VALUES_ROOM), CharacterBudget(_REST_ROOM)
    parts = ["<div>", _list(map(" → ".join, zip(walk.sentences.sources, walk.sentences.targets, strict=True)))]
    for place, section in enumerate(outline(walk, folds_layers=False, folds_repeats=True)):
        shown = "".join(_section(walk, section, values, rest))
        parts.append(
            f"<details{' open' * (place == 0)}><summary><b>{_text(section.title)}</b></summary>{shown}</details>"
        )
    return "".join([*parts, "</div>"])


def attention_html(walk: WalkData) -> str:
    """All heads of the first sentence as small maps, a line for each layer; empty for a walk without attention.

    Only a forced pass has one map for each layer; a generation has one for each step, which the stages show.
    """
    if walk.kind != "forced":
        return ""
    return heads_html([_heads(walk, step) for step in walk.steps if step.name == "weights" and "heads" in step.axes])


def _heads(walk: WalkData, step: WalkStep) -> Heads:
    sentences = walk.sentences
    written = reads_and_writes(sentences.tgt_in_tokens[_SENTENCE], sentences.tgt_out_tokens[_SENTENCE])
    source, target = sentences.src_tokens[_SENTENCE], sentences.tgt_in_tokens[_SENTENCE]
    queries, keys = ((written, target) if word == "tgt" else (source, source) for word in step.axes[-2:])
    place = step.axes.index("heads") - 1
    return Heads(step.address.removesuffix(".weights"), step.value[_SENTENCE].movedim(place, 0), queries[0], keys[1])


class CharacterBudget:
    """How many more characters of one kind the page may have."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def take(self, parts: Iterable[str]) -> str:
        """The parts joined, or an empty text when there is no room left."""
        taken = "".join(parts) if self._left > 0 else ""
        self._left -= len(taken)
        return taken


def _section(walk: WalkData, section: WalkSection, values: CharacterBudget, rest: CharacterBudget) -> Iterator[str]:
    for step in section.steps:
        about = rest.take([_about(step)])
        if not about:
            yield f"<p><i>numbers {step.number} to {section.steps[-1].number} {_LEFT_OUT}</i></p>"
            break
        held = values.take(_values(walk, step)) or f"<i>values {_LEFT_OUT}</i>"
        yield f"{about}<details{_INDENTED}><summary>values</summary>{held}</details>"
    if section.folded:
        yield f"<p><i>{_text(section.folded)}</i></p>"
    tables = rest.take(part for table in section.tables for part in _draw_table(table))
    yield tables or (f"<p><i>the summary is {_LEFT_OUT}</i></p>" if section.tables else "")


def _about(step: WalkStep) -> str:
    """Number, address, title, sentence, equation and shape."""
    line = " &nbsp; ".join(map(_text, filter(None, [shape_line(step), gradient_line(step)])))
    return (
        f"<p>{step.number} <code>{_text(step.address)}</code> <b>{_text(step.story.title)}</b> "
        f"({_text(source_line(step))}). {_text(step.story.sentence)}<br><code>{_text(step.story.equation)}</code> "
        f"&nbsp; {line}</p>"
    )


def _values(walk: WalkData, step: WalkStep) -> Iterator[str]:
    lines = step_lines(step, _SENTENCE)
    if lines:
        hidden = [f"… and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
        yield _list([*lines[:_MAX_LINES], *hidden])
    for table in value_tables(walk, step, _SENTENCE, _MOST):
        yield from _draw_table(table)


def _draw_table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"<p><b>{_text(table.title)}</b></p>"
    if table.rows:
        most = _greatest(table) if table.shaded else 0.0
        head = "".join(f"<th>{_text(header)}</th>" for header in table.headers)
        yield f"<table><tr>{head}</tr>{''.join(_row(row, most, heads=table.shaded) for row in table.rows)}</table>"
    if table.caption:
        yield f"<p><i>{_text(table.caption)}</i></p>"


def _greatest(table: Table) -> float:
    """The greatest magnitude of a finite number in the table."""
    numbers = (abs(cell) for row in table.rows for cell in row if isinstance(cell, float | bool))
    return max(filter(math.isfinite, numbers), default=0.0)


def _row(cells: Sequence[Cell], most: float, *, heads: bool) -> str:
    """A row of cells; with ``heads`` the first is a heading."""
    first, *others = (_text(cell_text(cell)) for cell in cells)
    tag = "th" if heads else "td"
    shaded = (f"<td{_shade(cell, most)}>{text}</td>" for cell, text in zip(cells[1:], others, strict=True))
    return f"<tr><{tag}>{first}</{tag}>{''.join(shaded)}</tr>"


def _shade(cell: Cell, most: float) -> str:
    """Orange above zero and blue below, stronger for numbers nearer to the greatest in the table."""
    if not most or not isinstance(cell, float | bool) or not math.isfinite(cell):
        return ""
    opacity = round(_STRONGEST * abs(cell) / most)
    return f' style="background:{ABOVE if cell > 0 else BELOW}{opacity:02x}"' if opacity >= _WEAKEST else ""


def _list(lines: Iterable[str]) -> str:
    return f'<ul style="white-space:pre-wrap">{"".join(f"<li>{_text(line)}</li>" for line in lines)}</ul>'


def _text(text: str) -> str:
    return escape(printable(text))
