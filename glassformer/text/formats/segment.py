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
from typing import NamedTuple

from glassformer.errors import TextError
from glassformer.text.codes.code import Part, Parts, join_parts
from glassformer.text.lines import is_blank


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

    parts: Parts
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
