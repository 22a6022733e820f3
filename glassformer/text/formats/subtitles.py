"""Subtitles: SubRip (.srt) and WebVTT (.vtt). A cue is one text, but each speaker has one, and each sound."""

import re
from dataclasses import replace
from html import escape
from itertools import chain, pairwise
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.codes.code import Code, mark_codes, write_parts
from glassformer.text.formats.segment import FileSegment, line_finder, line_number, replace_span
from glassformer.text.formats.tags import read_references
from glassformer.text.scripts import CLOSING

_TIME = r"(?:\d+:)?\d+:\d\d(?:[,.]\d+)?"
_ONE_TIME = re.compile(_TIME)
_TIMES = re.compile(rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?![\d:,.]).*$", re.MULTILINE)
_DAMAGED_TIMES = re.compile(r"^(?:(?=.*\d:\d).*-->|[ \t]*\d+:\d\d:\d\d[,.]\d+[ \t]*-).*$", re.MULTILINE)
_BLOCK = re.compile(r"(?:^[^\S\n]*\S.*(?:\n|\Z))+", re.MULTILINE)  # lines without a blank one between them
_EMPTY_LINE = re.compile(r"^\r?$", re.MULTILINE)
_NUMBER = re.compile(r"\n[ \t]*\d+\s*\Z")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\}")
_NUMBER_LINE = re.compile(r"[ \t]*\d+[ \t]*\r?\n")
_TEXT_LINE = re.compile(r"[^\r\n]*[^\s][^\r\n]*")
_CLOSING_TAGS = re.compile(r"(?:\s*</[A-Za-z][^<>\n]*>)+\Z")
# Who speaks: a dash, or a name in capitals.
_LABEL = r"[^\W\d_a-z][^a-z:\n]{0,30}:(?:[ \t]+|[ \t]*$)"
_SPEAKER = re.compile(rf"(?:{_TAG.pattern}|[ \t])*(?:(?P<dash>[-–—](?![-–—])[ \t]*)|(?P<label>{_LABEL}))")
_VOICE = re.compile(r"\s*<v[ .]")
# A line that is a sound, a sign or a song.
_APART = re.compile(rf"(?:{_TAG.pattern}|\s)*(?:\([^()\n]*\)|\[[^\[\]\n]*\]|♪.*♪)(?:{_TAG.pattern}|\s)*")
_SPACE = re.compile(rf"(?:{_TAG.pattern})|(?<![)\]♪])( )(?![-–—(\[♪]|<v[ .]|{_LABEL})")  # where a line may be broken
_PAUSE = 1.0  # seconds between two cues, over which a sentence goes on
_LONGEST_LINE = 42  # characters; a longer text is broken into two lines, as subtitlers do


def subtitle_segments(text: str, path: Path, *, is_subrip: bool) -> list[FileSegment]:
    """The text of each cue, in SubRip also behind a blank line; ``TextError`` for a damaged line of times."""
    times = list(_TIMES.finditer(text))
    if not times and text.strip() and (is_subrip or not text.startswith("WEBVTT")):
        raise TextError(f"{path}: has no line like 00:00:01,000 --> 00:00:02,000, expected subtitles.")
    starts, ends = [time.end() for time in times], [time.start() for time in times]
    line_of = line_finder(text)
    cues = list[list[FileSegment]]()
    for start, end in zip([0, *starts], [*ends, len(text)], strict=True):
        damaged = _DAMAGED_TIMES.search(text, start, end)
        if damaged is not None:
            raise TextError(
                f"{path}:{line_number(text, damaged.start())}: found {damaged[0].strip()!r}, expected times like "
                "00:00:01,000 --> 00:00:02,000. Correct the line."
            )
        of_cue = list[FileSegment]()
        if start:
            for block in _cue_blocks(text, start, end, is_subrip=is_subrip):
                of_cue += [
                    _cue_segment(text, span, line_of(span[0]), longest=longest, has_references=not is_subrip)
                    for span, longest in _cue_texts(text, *block)
                ]
        cues.append(of_cue)
    for number, (left, right) in enumerate(pairwise(cues[1:])):
        if (
            left
            and right
            and _goes_on(left[-1].text, right[0].text)
            and abs(_pause(*times[number : number + 2])) < _PAUSE
        ):
            left[-1] = replace(left[-1], doubts=lambda _: ["the sentence goes on in the next cue: read both"])
    return list(chain(*cues))


def _goes_on(left: str, right: str) -> bool:
    """Whether a sentence seems to go on: it has no end, and then comes a word in lower case."""
    start, end = _TAG.sub("", right).lstrip(), _TAG.sub("", left).rstrip().rstrip(CLOSING)[-1:]
    return start[:1].islower() and (end.isalnum() or end == ",")


def _pause(left: re.Match[str], right: re.Match[str]) -> float:
    """The seconds between two cues."""
    end, start = (
        sum(60**power * float(part.replace(",", ".")) for power, part in enumerate(reversed(time.split(":"))))
        for time in (_ONE_TIME.findall(left[0])[1], _ONE_TIME.findall(right[0])[0])
    )
    return float(start - end)


def _cue_blocks(text: str, start: int, end: int, *, is_subrip: bool) -> list[tuple[int, int]]:
    """The text between two lines of times, up to a blank line: in SubRip all such blocks, but not the next number."""
    first = text.find("\n", start, end) + 1
    if first == 0:
        return []
    if is_subrip and end < len(text) and (number := _NUMBER.search(text, first - 1, end)):
        end = max(first, number.start())
    if not is_subrip:  # ends at an empty line; one of white space is a part of it
        empty = _EMPTY_LINE.search(text, first, end)
        return [(first, empty.start() if empty else end)]
    blocks = [(found.start(), found.start() + len(found[0].rstrip())) for found in _BLOCK.finditer(text, first, end)]
    # The number of a cue that has lost its times is none of its text.
    numbers = [_NUMBER_LINE.match(text, *block) if block[0] != first else None for block in blocks]
    return [(number.end() if number else start, end) for (start, end), number in zip(blocks, numbers, strict=True)]


def _cue_texts(text: str, start: int, end: int) -> list[tuple[tuple[int, int], int | None]]:
    """Where each text of a cue is (of each speaker, without dash or name), and its longest line, if that matters."""
    lines = [(start + found.start(), start + found.end()) for found in _TEXT_LINE.finditer(text[start:end])]
    if not lines:
        return []
    speakers = [_SPEAKER.match(text, *line) for line in lines]
    apart = [_APART.fullmatch(text, *line) for line in lines]
    is_dialogue = any(speaker and speaker["dash"] for speaker in speakers[1:])
    begins = [
        number
        for number, (line, speaker) in enumerate(zip(lines, speakers, strict=True))
        if number == 0
        or (speaker and (is_dialogue or speaker["label"]))
        or apart[number] or apart[number - 1] or _VOICE.match(text, *line)
    ]  # fmt: skip
    texts: list[tuple[tuple[int, int], int | None]] = []
    for first, following in pairwise([*begins, len(lines)]):
        speaker, (begin, finish) = speakers[first], (lines[first][0], lines[following - 1][1])
        if speaker and (is_dialogue or speaker["label"]):
            begin = speaker.end()
            if begin == lines[first][1] and following - first > 1:  # a label on a line of its own
                begin = lines[first + 1][0]
        tags = [tag[0].startswith("</") for tag in _TAG.finditer(text, begin, finish) if tag[0].startswith("<")]
        closing = _CLOSING_TAGS.search(text, max(begin, finish - 200), finish) if sum(tags) > len(tags) / 2 else None
        finish = closing.start() if closing else finish
        if text[begin:finish].strip():
            is_line = following - first == 1 and len(begins) > 1
            texts.append(((begin, finish), None if is_line else _LONGEST_LINE))
    return texts


def _cue_segment(
    text: str, span: tuple[int, int], line: int, *, longest: int | None, has_references: bool
) -> FileSegment:
    inner = " ".join(line.strip() for line in text[slice(*span)].split("\n") if line.strip())
    parts = mark_codes([inner], _TAG, _tag)
    if has_references:
        parts = tuple(read_references(part) if isinstance(part, str) else part for part in parts)

    def write(text: str) -> str:
        return escape(text.replace("-->", "→"), quote=False) if has_references else text

    edits = replace_span(*span, lambda parts: _write_lines(write_parts(parts, write), longest))
    return FileSegment(parts, line, edits)


def _tag(match: re.Match[str]) -> Code:
    tag = match[0]
    is_alone = tag.startswith("{") or tag[1].isdigit()
    return Code(tag, "closes" if tag.startswith("</") else "alone" if is_alone else "opens")


def _write_lines(text: str, longest: int | None) -> str:
    """A longer text in two lines of about the same length; without ``longest`` one line that begins no dialogue."""
    text = re.sub(r"[^\S\u00a0\u202f]+", " ", text).replace("-->", "→")
    if longest is None:
        return text.lstrip("-–— ") or f" {text}"

    hidden, spaces = 0, list[tuple[int, int]]()  # characters of tags; how much is shown before a space, and its place
    for found in _SPACE.finditer(text):
        if found[1]:
            spaces.append((found.start() - hidden, found.start()))
        else:
            hidden += len(found[0])
    shown = len(text) - hidden
    if shown <= longest or not spaces:
        return text
    _, middle = min(spaces, key=lambda space: abs(space[0] - shown / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"
