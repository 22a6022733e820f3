"""Segments of a file: what to translate, and the characters to replace.

A segment is text with codes, such as tags. All other characters stay, byte for byte.
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
    """What to translate at ``line`` (from 1); ``edits`` turns translations into edits.

    Related changes, as of a header, belong to each segment that needs them.
    """

    parts: Parts
    line: int
    edits: Callable[[Sequence[Part]], list[Edit]]
    doubts: Callable[[Sequence[Part]], list[str]] = lambda _: []
    """What the format doubts in a translation."""

    @property
    def text(self) -> str:
        """The text with its codes."""
        return join_parts(self.parts)

    @property
    def is_blank(self) -> bool:
        """Whether it is only white space."""
        return all(is_blank(part if isinstance(part, str) else part.raw) for part in self.parts)


def replace_span(
    start: int, end: int, write: Callable[[Sequence[Part]], str]
) -> Callable[[Sequence[Part]], list[Edit]]:
    """``edits`` that put what ``write`` returns at ``start``."""
    return lambda parts: [Edit(start, end, write(parts))]


def line_segments(text: str, path: Path) -> list[FileSegment]:
    """A plain text's lines."""
    segments, position = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        inner = line.strip("\r")
        if not is_blank(inner):
            edits = replace_span(position, position + len(inner), lambda parts: join_parts(parts).replace("\n", " "))
            segments.append(FileSegment((inner,), number, edits))
        position += len(line) + 1
    return segments


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """``text`` with all edits, without overlap; equal ones count once."""
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
    """A position's line, from 1; see ``line_finder`` for many."""
    return text.count("\n", 0, position) + 1


def line_finder(text: str) -> Callable[[int], int]:
    """Finds positions' lines, from 1, without counting from the start."""
    ends = array("q", (found.start() for found in re.finditer("\n", text)))
    return lambda position: bisect_left(ends, position) + 1
