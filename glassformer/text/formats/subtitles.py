"""Subtitles: SubRip (.srt) and WebVTT (.vtt). A cue is one text, whatever its lines."""

import re
from collections.abc import Sequence
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.formats.segment import Code, Edit, Part, Segment, join_parts, line_number, mark_codes

_TIMES = re.compile(r"^[ \t]*(?:\d+:)?\d+:\d\d[,.]\d+[ \t]*-->[ \t]*(?:\d+:)?\d+:\d\d[,.]\d+.*$", re.MULTILINE)
_TAG = re.compile(r"</?[A-Za-z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\}")
_LONGEST_LINE = 42  # characters; a longer text is broken into two lines, as subtitlers do


def subtitle_segments(text: str, path: Path) -> list[Segment]:
    """The text of each cue; numbers, times, settings, notes and styles are left alone."""
    times = list(_TIMES.finditer(text))
    if not times and text.replace("\ufeff", "").strip() not in ("", "WEBVTT"):
        raise TextError(f"{path}: has no line like 00:00:01,000 --> 00:00:02,000, expected subtitles.")
    segments = []
    for time in times:
        start = text.find("\n", time.end()) + 1
        if start == 0:
            continue
        blank = re.compile(r"\n[ \t\r]*(?=\n|\Z)").search(text, start - 1)
        end = blank.start() if blank else len(text)
        end = max(start, start + len(text[start:end].rstrip()))
        if text[start:end].strip():
            segments.append(_cue(text, start, end))
    return segments


def _cue(text: str, start: int, end: int) -> Segment:
    lines = [line.strip() for line in text[start:end].split("\n")]

    def edits(parts: Sequence[Part]) -> list[Edit]:
        return [Edit(start, end, _break_line(join_parts(parts)))]

    return Segment(mark_codes([" ".join(lines)], _TAG, _tag), line_number(text, start), edits)


def _tag(match: re.Match[str]) -> Code:
    tag = match[0]
    is_alone = tag.startswith("{") or tag[1].isdigit()
    return Code(tag, "closes" if tag.startswith("</") else "alone" if is_alone else "opens")


def _break_line(text: str) -> str:
    """A long text in two lines of about the same length; an arrow of times may not occur in it."""
    text = re.sub(r"\s+", " ", text).replace("-->", "→")
    spaces = [place for place, sign in enumerate(text) if sign == " "]
    if len(text) <= _LONGEST_LINE or not spaces:
        return text
    middle = min(spaces, key=lambda place: abs(place - len(text) / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"
