"""Segments of a file: what is to be translated, and which characters of the file its translation replaces.

A segment is text with codes in it, such as tags, which a translation must keep. Everything outside the replaced
characters stays as it is, byte for byte.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from glassformer.errors import TextError
from glassformer.text.lines import is_blank


class Code(NamedTuple):
    """What is not translated; it ``opens`` or ``closes`` a part of the text, or is alone."""

    raw: str
    kind: Literal["opens", "closes", "alone"] = "alone"
    is_text: bool = False
    """Whether ``raw`` is text, which the file may have to write in another way, or what the file has."""


Part = str | Code


class Edit(NamedTuple):
    """Characters ``start`` to ``end`` of a file become ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class FileSegment:
    """What is to be translated at ``line`` (from 1) of a file; ``edits`` says how the file takes a translation.

    What else has to change with it, such as a header, is among the edits of each segment that may be the only one.
    """

    parts: tuple[Part, ...]
    line: int
    edits: Callable[[Sequence[Part]], list[Edit]]
    doubts: Callable[[Sequence[Part]], list[str]] = lambda _: []
    """What the format has to say of a translation, which somebody should look at."""

    @property
    def text(self) -> str:
        """The text with its codes."""
        return join_parts(self.parts)

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but white space in it."""
        return all(is_blank(part if isinstance(part, str) else part.raw) for part in self.parts)


def replace_span(
    start: int, end: int, write: Callable[[Sequence[Part]], str]
) -> Callable[[Sequence[Part]], list[Edit]]:
    """The ``edits`` of a segment whose translation, as ``write`` has it, replaces the characters from ``start``."""
    return lambda parts: [Edit(start, end, write(parts))]


def line_segments(text: str, path: Path) -> list[FileSegment]:
    """Each line of a plain text."""
    segments, position = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        inner = line.strip("\r")
        if not is_blank(inner):
            edits = replace_span(position, position + len(inner), lambda parts: join_parts(parts).replace("\n", " "))
            segments.append(FileSegment((inner,), number, edits))
        position += len(line) + 1
    return segments


def join_parts(parts: Iterable[Part]) -> str:
    """The text with its codes as they are."""
    if isinstance(parts, tuple) and len(parts) == 1 and isinstance(parts[0], str):  # as most are
        return parts[0]
    return "".join([part if isinstance(part, str) else part.raw for part in parts])


def join_texts(parts: Iterable[Part]) -> list[Part]:
    """The same parts, with texts that stand side by side as one."""
    found, text = list[Part](), list[str]()
    for part in parts:
        if isinstance(part, str):
            text.append(part)
            continue
        if text:
            found.append("".join(text))
            text.clear()
        found.append(part)
    return [*found, "".join(text)] if text else found


def mark_codes(
    parts: Iterable[Part], pattern: re.Pattern[str], code: Callable[[re.Match[str]], Code]
) -> tuple[Part, ...]:
    """The same parts, with what the pattern finds in their text as codes."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Code):
            found.append(part)
            continue
        position = 0
        for match in pattern.finditer(part):
            if match.start() > position:
                found.append(part[position : match.start()])
            found.append(code(match))
            position = match.end()
        if position < len(part):
            found.append(part[position:])
    return tuple(found)


def write_parts(parts: Iterable[Part], escape: Callable[[str], str]) -> str:
    """The text with its codes as a file has it: ``escape`` writes text, codes of the file stay as they are."""
    return "".join(
        part.raw if isinstance(part, Code) and not part.is_text else escape(join_parts([part])) for part in parts
    )


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """``text`` with all edits made; two of them may not overlap. What several segments ask for is done once."""
    pieces, end = [], 0
    for edit in sorted(dict.fromkeys(edits), key=lambda edit: edit[:2]):
        if edit.start < end:
            raise TextError(
                f"character {edit.start}: two translations would replace the same text. Report this file."
            )
        pieces += [text[end : edit.start], edit.text]
        end = edit.end
    return "".join([*pieces, text[end:]])


def line_number(text: str, position: int) -> int:
    """The line of a position, from 1; ``line_finder`` says it of many positions."""
    return text.count("\n", 0, position) + 1


def line_finder(text: str) -> Callable[[int], int]:
    """What says the line of a position, from 1, without counting from the start each time."""
    ends = array("q", (found.start() for found in re.finditer("\n", text)))
    return lambda position: bisect_left(ends, position) + 1


def trim(parts: Sequence[Part]) -> tuple[str, tuple[Part, ...], str]:
    """White space before and after the text, and what is between."""
    inner = list(parts)
    before = after = ""
    if inner and isinstance(inner[0], str):
        stripped = inner[0].lstrip()
        before, inner[0] = inner[0][: len(inner[0]) - len(stripped)], stripped
    if inner and isinstance(inner[-1], str):
        stripped = inner[-1].rstrip()
        after, inner[-1] = inner[-1][len(stripped) :], stripped
    return before, tuple(part for part in inner if part != ""), after
