"""Subtitles: SubRip (.srt) and WebVTT (.vtt). A cue is one text, but in a dialogue each line is one."""

import re
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.formats.segment import (
    Code,
    FileSegment,
    join_parts,
    line_finder,
    line_number,
    mark_codes,
    replace_span,
)

_TIME = r"(?:\d+:)?\d+:\d\d(?:[,.]\d+)?"
_TIMES = re.compile(rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?![\d:,.]).*$", re.MULTILINE)
_DAMAGED_TIMES = re.compile(r"^(?:(?=.*\d:\d).*-->|[ \t]*\d+:\d\d:\d\d[,.]\d+[ \t]*-).*$", re.MULTILINE)
_BLOCK = re.compile(r"(?:^[^\S\n]*\S.*(?:\n|\Z))+", re.MULTILINE)  # lines without a blank one between them
_NUMBER = re.compile(r"\n[ \t]*\d+\s*\Z")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\}")
_DASH = re.compile(r"[ \t]*[-–—](?![-–—])[ \t]*")
_LONGEST_LINE = 42  # characters; a longer text is broken into two lines, as subtitlers do


def subtitle_segments(text: str, path: Path, *, is_subrip: bool) -> list[FileSegment]:
    """The text of each cue; numbers, times, settings, notes and styles are left alone.

    In SubRip, text behind a blank line belongs to a cue, too. Raises ``TextError`` for a damaged line of times: the
    text below it would be left out.
    """
    times = list(_TIMES.finditer(text))
    if not times and text.replace("\ufeff", "").strip() not in ("", "WEBVTT"):
        raise TextError(f"{path}: has no line like 00:00:01,000 --> 00:00:02,000, expected subtitles.")
    starts, ends = [time.end() for time in times], [time.start() for time in times]
    line_of = line_finder(text)
    segments = []
    for start, end in zip([0, *starts], [*ends, len(text)], strict=True):
        damaged = _DAMAGED_TIMES.search(text, start, end)
        if damaged is not None:
            raise TextError(
                f"{path}:{line_number(text, damaged.start())}: found {damaged[0].strip()!r}, expected times like "
                "00:00:01,000 --> 00:00:02,000. Correct the line."
            )
        if start:
            for block in _cue_blocks(text, start, end, is_subrip=is_subrip):
                segments += [
                    _cue_segment(text, *span, longest, line_of(span[0])) for span, longest in _cue_texts(text, *block)
                ]
    return segments


def _cue_blocks(text: str, start: int, end: int, *, is_subrip: bool) -> list[tuple[int, int]]:
    """The text between two lines of times, up to a blank line: in SubRip all such blocks, but not the next number."""
    first = text.find("\n", start, end) + 1
    if first == 0:
        return []
    if is_subrip and end < len(text) and (number := _NUMBER.search(text, first - 1, end)):
        end = max(first, number.start())
    blocks = [(found.start(), found.start() + len(found[0].rstrip())) for found in _BLOCK.finditer(text, first, end)]
    return blocks if is_subrip else [block for block in blocks[:1] if block[0] == first]


def _cue_texts(text: str, start: int, end: int) -> list[tuple[tuple[int, int], int | None]]:
    """From where to where each text of a cue goes, and how long a line of its translation may be, if that matters.

    A cue is one text, or in a dialogue each line, without its dash.
    """
    lines = list(re.finditer(r"[^\r\n]+", text[start:end]))
    dashes = [_DASH.match(line[0]) for line in lines]
    if len(lines) < 2 or not all(dashes):
        return [((start, end), _LONGEST_LINE)]
    ends = [(line.start() + dash.end(), line.end()) for line, dash in zip(lines, dashes, strict=True) if dash]
    return [
        ((start + first, start + last), None) for first, last in ends if text[start + first : start + last].strip()
    ]


def _cue_segment(text: str, start: int, end: int, longest: int | None, line: int) -> FileSegment:
    lines = [line.strip() for line in text[start:end].split("\n")]
    edits = replace_span(start, end, lambda parts: _write_lines(join_parts(parts), longest))
    return FileSegment(mark_codes([" ".join(lines)], _TAG, _tag), line, edits)


def _tag(match: re.Match[str]) -> Code:
    tag = match[0]
    is_alone = tag.startswith("{") or tag[1].isdigit()
    return Code(tag, "closes" if tag.startswith("</") else "alone" if is_alone else "opens")


def _write_lines(text: str, longest: int | None) -> str:
    """A longer text in two lines of about the same length, of which the second does not look like an answer.

    Without ``longest`` it stands behind a dash. An arrow of times may not occur in it.
    """
    text = re.sub(r"\s+", " ", text).replace("-->", "→")
    if longest is None:
        return text.lstrip("-–— ") or f" {text}"

    hidden, spaces = 0, list[tuple[int, int]]()  # characters of tags; how much is shown before a space, and its place
    for found in re.finditer(rf"(?:{_TAG.pattern})|( )(?![-–—])", text):
        if found[1]:
            spaces.append((found.start() - hidden, found.start()))
        else:
            hidden += len(found[0])
    shown = len(text) - hidden
    if shown <= longest or not spaces:
        return text
    _, middle = min(spaces, key=lambda space: abs(space[0] - shown / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"
