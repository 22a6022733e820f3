"""The Markdown that the generated pages need: pages, tables, code, prose."""

import inspect
import json
import re
from collections.abc import Iterable

NOTE = "<!-- Written by docs/generate.py from the code: change the code, then run `python docs/generate.py`. -->"


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", NOTE, *(block for block in blocks if block)]) + "\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; empty if it has no rows."""
    names, filled = list(head), [list(row) for row in rows]
    lines = [names, ["---"] * len(names), *filled]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines) if filled else ""


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def prose(doc: str | None) -> str:
    """A docstring on one line, with Markdown's backticks."""
    return re.sub(r"\s+", " ", inspect.cleandoc(doc or "")).replace("``", "`")


def typed_text(text: str) -> str:
    """Prose in which names in angle brackets, such as </s>, are shown as code instead of read as HTML."""
    return re.sub(r"(</?\w+>)", r"`\1`", text)


def plain(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool | str):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
