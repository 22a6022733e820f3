"""Subtitles: SubRip (.srt) and WebVTT (.vtt). A cue is one text, but in a dialogue each line is one."""

import re
from collections.abc import Sequence
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.formats.segment import Code, Edit, Part, Segment, join_parts, line_number, mark_codes

_TIMES = re.compile(r"^[ \t]*(?:\d+:)?\d+:\d\d[,.]\d+[ \t]*-->[ \t]*(?:\d+:)?\d+:\d\d[,.]\d+.*$", re.MULTILINE)
_TAG = re.compile(r"</?[A-Za-z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\}")
_DASH = re.compile(r"[ \t]*[-–—](?![-–—])[ \t]*")
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
            segments += [_cue_segment(text, *span, longest) for span, longest in _cue_texts(text, start, end)]
    return segments


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


def _cue_segment(text: str, start: int, end: int, longest: int | None) -> Segment:
    lines = [line.strip() for line in text[start:end].split("\n")]

    def edits(parts: Sequence[Part]) -> list[Edit]:
        return [Edit(start, end, _write_lines(join_parts(parts), longest))]

    return Segment(mark_codes([" ".join(lines)], _TAG, _tag), line_number(text, start), edits)


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
    spaces = [place.start() for place in re.finditer(r" (?![-–—])", text)]
    if len(text) <= longest or not spaces:
        return text
    middle = min(spaces, key=lambda place: abs(place - len(text) / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"
