"""Markdown. A paragraph, a heading, a cell or an item of a list is one text with codes."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import TextError
from glassformer.text.codes.code import Code, Part, join_texts, mark_codes
from glassformer.text.formats.html import EMPTY_TAGS, html_segments
from glassformer.text.formats.markdown_blocks import markdown_blocks, new_parser
from glassformer.text.formats.markdown_writer import write_markdown
from glassformer.text.formats.segment import Edit, FileSegment, line_number


def markdown_segments(text: str, path: Path) -> list[FileSegment]:
    """The paragraphs, headings, items and cells of a Markdown text, and the texts of blocks of HTML."""
    return [read() for read in _find_texts(text, path)]


def count_markdown(text: str, path: Path) -> int:
    """How many segments a Markdown text has, in less time: the codes of each are not read."""
    return sum(1 for _ in _find_texts(text, path))


def _find_texts(text: str, path: Path) -> Iterator[Callable[[], FileSegment]]:
    """Of each text what reads its codes."""
    alone = re.search(r"\r(?!\n)", text)
    if alone is not None:
        raise TextError(
            f"{path}:{line_number(text, alone.start())}: found a carriage return without a line feed, expected line "
            "feeds. Replace it."
        )
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    line_now, column = -1, 0
    parser, env = new_parser(), dict[str, Any]()
    for before, token in markdown_blocks(parser, text, env):
        if token.type == "html_block":
            for segment in _html_block(text, starts[token.map[0]], token.map[0], token.content, path):
                yield partial(replace, segment)
            continue
        if token.map[0] != line_now:
            line_now, column = token.map[0], 0
        in_table = before.type in ("th_open", "td_open")
        raw = _HEADING_ID.sub("", token.content) if before.type == "heading_open" else token.content
        content = raw.replace("|", "\\|") if in_table else raw
        place = _find_content(lines, token.map[0], token.map[1], column, content)
        if place is not None:
            (first_line, start), (last_line, column) = place
            span = starts[first_line] + start, starts[last_line] + column
            indent = "" if in_table else _NO_QUOTATION.sub(" ", lines[first_line][:start])
            inline = partial(_read_inline, parser, env, raw)
            yield partial(_markdown_segment, span, first_line + 1, before, indent, inline)


def _html_block(text: str, start: int, line: int, block: str, path: Path) -> list[FileSegment]:
    """The texts of a block of HTML below ``line`` lines; none in a quotation, where the file has other signs."""
    if not text.startswith(block.rstrip("\n"), start):
        return []

    def shift(segment: FileSegment) -> FileSegment:
        def edits(parts: Sequence[Part]) -> list[Edit]:
            return [
                Edit(start + edit.start, start + edit.end, _BLANK_LINES.sub("\n", edit.text))
                for edit in segment.edits(parts)
            ]

        return replace(segment, line=line + segment.line, edits=edits)

    return [shift(segment) for segment in html_segments(block, path) if not segment.is_blank]


_HEADING_ID = re.compile(r"\s*\{[#.:][^{}\n]*\}\s*\Z")  # it names a heading, or gives it classes
_NO_QUOTATION = re.compile(r"[^>\s]")  # of what stands before a block: the signs of items
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")  # these would end a block of HTML


def _find_content(
    lines: Sequence[str], start: int, stop: int, column: int, content: str
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The places, as line and column, where a block's text begins and ends; None if it is not found as it is."""
    wanted = content.split("\n")
    first = lines[start].find(wanted[0], column)
    if first < 0 or start + len(wanted) > max(stop, start + 1):
        return None
    last = start + len(wanted) - 1
    end = (
        first + len(wanted[0]) if last == start else lines[last].rfind(wanted[-1].rstrip()) + len(wanted[-1].rstrip())
    )
    return (start, first), (last, end)


def _markdown_segment(
    span: tuple[int, int], line: int, before: Any, indent: str, read: Callable[[], tuple[Part, ...]]
) -> FileSegment:
    """``indent`` is what stands before each further line of the block; ``read`` gives the parts."""
    parts = read()
    in_table = before.type in ("th_open", "td_open")
    in_paragraph = not in_table and not before.markup.startswith("#")

    def edits(translated: Sequence[Part]) -> list[Edit]:
        written = write_markdown(tuple(translated), parts, f"\n{indent}", in_paragraph)
        return [Edit(*span, written.replace("|", "\\|") if in_table else written)]

    return FileSegment(parts, line, edits)


def _read_inline(parser: Any, env: dict[str, Any], raw: str) -> tuple[Part, ...]:
    """The text and the codes of a block, whose references ``env`` has."""
    if _INLINE_SIGN.search(raw) is None:  # the parser would find nothing but lines
        return _mark_others([_LINE_END.sub(" ", raw)])
    if raw.count("[") > _MOST_BRACKETS:
        return mark_codes([raw], _BRACKET, lambda found: Code(found[0]))
    children: list[Any] = []
    parser.inline.parse(raw, parser, env, children)
    return _InlineReader(raw, env.get("references", {})).read(children)


class _InlineReader:
    """Text and codes of one block: whatever stands between two texts is a code, as it is written.

    The parser does not say where a token stands: that follows from its kind and its text.
    """

    def __init__(self, raw: str, references: Mapping[str, Any]) -> None:
        self._raw, self._references = raw, references
        self._parts: list[Part] = []
        self._cursor = 0
        self._opened: list[int] = []  # where the text of each markup begins that is open
        self._unclosed = set[str]()  # elements of code

    def read(self, tokens: Sequence[Any]) -> tuple[Part, ...]:
        """The parts. From a token on that is not where it is expected, the rest is one code, which stays as it is."""
        ending = "", ""  # the type and the text of the token that ends a part which is code: an address, <kbd>
        note = _NOTE.match(self._raw)
        if note is not None:
            self._read_code(note.end())
            ending = "softbreak", ""
        for token in tokens:
            if ending[0]:
                is_end = token.type == ending[0] and token.content.lower().startswith(ending[1])
                ending = ("", "") if is_end else ending
                continue
            if token.type in ("text", "softbreak"):
                found = self._read_text(token)
            elif (element := self._read_element(token)) is not None:
                found, ending = True, ("html_inline", element)
            else:
                is_address = token.markup == "autolink"
                ending = ("link_close" if is_address else "", "")
                found = self._read_markup(token, "alone" if is_address else _markup_kind(token))
            if not found:
                break
        if self._cursor < len(self._raw):
            self._parts.append(Code(self._raw[self._cursor :]))
        return _mark_others(join_texts(self._parts))

    def _read_element(self, token: Any) -> str | None:
        """Read an element that is code, such as <kbd>, with what it holds; how its closing tag begins."""
        opening = _CODE_TAG.match(token.content) if token.type == "html_inline" else None
        closing = f"</{opening[1].lower()}" if opening else ""
        is_code = opening is not None and closing not in self._unclosed
        found = re.compile(f"{closing}\\s*>", re.IGNORECASE).search(self._raw, self._cursor) if is_code else None
        if found is None:
            self._unclosed.add(closing)
            return None
        self._read_code(found.end())
        return closing

    def _read_code(self, end: int) -> None:
        self._parts.append(Code(self._raw[self._cursor : end]))
        self._cursor = end

    def _read_text(self, token: Any) -> bool:
        start = self._cursor
        if token.type == "softbreak":
            written, end = " ", _end(_SOFT_BREAK.match(self._raw, start))  # with what the parser drops there
        else:
            written, end = token.content, start + len(token.content)
            end = end if self._raw.startswith(written, start) else None
        if end is None:
            return False
        if written:
            self._parts.append(written)
        self._cursor = end
        return True

    def _read_markup(self, token: Any, kind: Literal["opens", "alone", "closes"]) -> bool:
        start, end = self._cursor, _markup_end(token, self._raw, self._cursor, self._references)
        if end is None:
            return False
        written = self._raw[start:end]
        if token.nesting == 1:
            self._opened.append(end)
        elif token.nesting == -1:
            text = self._raw[self._opened.pop() : start]
            if written in ("]", "][]"):
                written = f"][{text}]"  # the reference is the text, which will be another
        if written:
            self._parts.append(Code(written, kind))
        self._cursor = end
        return True


def _markup_kind(token: Any) -> Literal["opens", "alone", "closes"]:
    """Whether markup opens or closes a part of the text; a tag of HTML does so by its form."""
    if token.type != "html_inline" or not (tag := _TAG.match(token.content)) or tag[2].lower() in EMPTY_TAGS:
        return _KINDS[token.nesting]
    return "closes" if tag[1] else "opens"


_INLINE_SIGN, _LINE_END = re.compile(r"[\\`~*_\[<&$]|  \n"), re.compile(r" ?\n[ \t]*")
# Of one paragraph, far beyond any: the parser takes long for each, and so many codes leave a text as it is, flagged.
_BRACKET, _MOST_BRACKETS = re.compile(r"[\[\]]"), 1000
_NOTE = re.compile(r"\*\*(?:Note|Warning)\*\*[ \t]*\n")  # as GitHub knows them
_CODE_TAG = re.compile(r"<(code|kbd|samp|var)\b[^>]*(?<!/)>", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)(?:>|\s(?:[^<>]*[^/<>])?>)\Z")
_KINDS: dict[int, Literal["opens", "alone", "closes"]] = {1: "opens", 0: "alone", -1: "closes"}
_SOFT_BREAK, _HARD_BREAK = re.compile(r"[ \t]*\n[ \t]*"), re.compile(r"[ \t]*\\?\n[ \t]*")
# What many programs read beyond the standard: boxes of tasks, footnotes, kinds of notes, pictures, people, issues.
_OTHER_MARKUP = re.compile(
    r"""^\[[ xX]\](?=\s) | \[\^[^\[\]\s]+\]:? | ^\[![A-Z]+\][ ]? | (?<!\w):[a-z][a-z\d_+-]*:(?!\w)
    | (?<![\w@/.])@[A-Za-z\d][\w-]* | (?<![\w&])\#\d+\b | !?\[\[[^\[\]\n]+\]\]""",
    re.VERBOSE,
)
_OTHER_SIGN = re.compile(r"[\[:@#]")  # without one there is none of it
_AUTOLINK = re.compile(r"<[^<>\s]+>")
_REFERENCE = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]", re.DOTALL)


def _mark_others(parts: Sequence[Part]) -> tuple[Part, ...]:
    if not any(isinstance(part, str) and _OTHER_SIGN.search(part) for part in parts):  # fast path
        return tuple(parts)
    # The kind of a note has a line of its own.
    return mark_codes(parts, _OTHER_MARKUP, lambda found: Code(re.sub(r"\] $", "]\n", found[0])))


def _markup_end(token: Any, raw: str, start: int, references: Mapping[str, Any]) -> int | None:
    """Where the markup of an inline token ends that begins at ``start``; None if it is not there."""
    kind = token.type
    if kind == "code_inline":
        closing = re.compile(rf"(?<!`){token.markup}(?!`)")
        return _end(closing.search(raw, start + len(token.markup)))
    if kind == "hardbreak":
        return _end(_HARD_BREAK.match(raw, start))
    if kind == "link_open" and token.markup == "autolink":
        return _end(_AUTOLINK.match(raw, start))
    if kind == "image":
        return _link_end(raw, start + len(f"![{token.content}"), references)
    if kind == "link_close":
        return _link_end(raw, start, references)
    written = {"link_open": "[", "html_inline": token.content}.get(kind, token.markup)
    if kind.startswith("math_inline"):
        written = f"{token.markup}{token.content}{token.markup}"
    return start + len(written) if raw.startswith(written, start) else None


def _link_end(raw: str, start: int, references: Mapping[str, Any]) -> int | None:
    """Where a link or an image ends whose text ends at ``start``: after its address, reference, or bracket."""
    from markdown_it.common.utils import normalizeReference
    from markdown_it.helpers import parseLinkDestination, parseLinkTitle

    if raw[start : start + 1] != "]":
        return None
    after, length = start + 1, len(raw)
    if raw[after : after + 1] == "(":
        address = parseLinkDestination(raw, _skip_space(raw, after + 1), length)
        place = _skip_space(raw, address.pos if address.ok else after + 1)
        title = parseLinkTitle(raw, place, length)
        place = _skip_space(raw, title.pos if title.ok else place)
        if raw[place : place + 1] == ")":
            return place + 1
    reference = _REFERENCE.match(raw, after)
    if reference and (not reference[1] or normalizeReference(reference[1]) in references):
        return reference.end()
    return after


def _skip_space(raw: str, place: int) -> int:
    while raw[place : place + 1] in (" ", "\t", "\n"):
        place += 1
    return place


def _end(match: re.Match[str] | None) -> int | None:
    return None if match is None else match.end()
