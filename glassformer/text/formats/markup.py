"""Marked-up text: HTML and Markdown. A paragraph, a heading, a cell or an item of a list is one text with codes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any

from glassformer.errors import TextError
from glassformer.text.formats.segment import Code, Edit, Part, Segment, join_parts, line_number, trim, write_parts

# Elements inside a sentence. All others end it.
_INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "img", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time",
    "tt", "u", "var", "wbr",
}  # fmt: skip
_EMPTY = {"br", "img", "wbr"}
_UNTRANSLATED = {"script", "style", "code", "kbd", "pre", "samp", "svg", "math", "textarea", "template", "var"}


class _Reader(HTMLParser):
    """Collects the runs of text and inline tags between two block tags."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._text = text
        self._lines = [0]
        for place, sign in enumerate(text):
            if sign == "\n":
                self._lines.append(place + 1)
        self.runs: list[tuple[int, int, list[Part]]] = []
        self._parts: list[Part] = []
        self._start: int | None = None
        self._untranslated: list[tuple[str, int]] = []  # open elements, and where the outermost begins

    @property
    def _position(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def finish(self) -> None:
        """Read the whole text."""
        self.feed(self._text)
        self.close()
        self._end_run(self._untranslated[0][1] if self._untranslated else len(self._text))

    def _end_run(self, end: int) -> None:
        if self._start is not None and any(isinstance(part, str) and part.strip() for part in self._parts):
            self.runs.append((self._start, end, self._parts))
        self._parts, self._start = [], None

    def _add(self, part: Part) -> None:
        if self._start is None:
            self._start = self._position
        if isinstance(part, str) and self._parts and isinstance(self._parts[-1], str):
            self._parts[-1] += part
        else:
            self._parts.append(part)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        hidden = tag in _UNTRANSLATED or ("translate", "no") in attrs
        if self._untranslated or (hidden and tag not in _EMPTY):
            if tag not in _EMPTY and not (self.get_starttag_text() or "").endswith("/>"):
                self._untranslated.append((tag, self._position))
        elif tag in _INLINE:
            self._add(Code(self.get_starttag_text() or "", "alone" if tag in _EMPTY else "opens"))
        else:
            self._end_run(self._position)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._untranslated:
            return
        if tag in _INLINE:
            self._add(Code(self.get_starttag_text() or ""))
        else:
            self._end_run(self._position)

    def handle_endtag(self, tag: str) -> None:
        end = self._text.index(">", self._position) + 1
        if self._untranslated:
            opened = [name for name, _ in self._untranslated]
            if tag in opened:
                index = len(opened) - 1 - opened[::-1].index(tag)
                start = self._untranslated[0][1]
                del self._untranslated[index:]
                if not self._untranslated and tag in _INLINE:
                    if self._start is None:
                        self._start = start
                    self._parts.append(Code(self._text[start:end]))
                elif not self._untranslated:
                    self._end_run(start)
        elif tag in _INLINE:
            self._add(Code(self._text[self._position : end], "closes"))
        else:
            self._end_run(self._position)

    def handle_data(self, data: str) -> None:
        if not self._untranslated:
            self._add(data)

    def handle_entityref(self, name: str) -> None:
        self._add_reference(f"&{name}")

    def handle_charref(self, name: str) -> None:
        self._add_reference(f"&#{name}")

    def _add_reference(self, reference: str) -> None:
        if not self._untranslated:
            self._add(unescape(f"{reference};"))

    def handle_comment(self, data: str) -> None:
        if not self._untranslated and self._start is not None:
            self._add(Code(f"<!--{data}-->"))

    def handle_decl(self, decl: str) -> None:
        self._end_run(self._position)

    def handle_pi(self, data: str) -> None:
        self._end_run(self._position)


def html_segments(text: str, path: Path) -> list[Segment]:
    """The texts of an HTML page, or of a part of one. Code, scripts, styles and ``translate="no"`` are left alone."""
    reader = _Reader(text)
    try:
        reader.finish()
    except (AssertionError, ValueError) as error:
        raise TextError(f"{path}: is not readable HTML: {error}.") from error
    return [_html_segment(text, *run) for run in reader.runs]


def _html_segment(text: str, start: int, end: int, parts: list[Part]) -> Segment:
    before, inner, after = trim(parts)

    def edits(translated: Sequence[Part]) -> list[Edit]:
        return [Edit(start, end, f"{before}{write_parts(translated, _escape_html)}{after}")]

    inner = tuple(re.sub(r"[ \t\r\n]+", " ", part) if isinstance(part, str) else part for part in inner)
    return Segment(inner, line_number(text, start), edits)


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown_segments(text: str, path: Path) -> list[Segment]:
    """The paragraphs, headings, items and cells of a Markdown text. Code, links' addresses and HTML are codes."""
    if (alone := re.search(r"\r(?!\n)", text)) is not None:
        raise TextError(
            f"{path}:{line_number(text, alone.start())}: found a carriage return without a line feed, expected line "
            "feeds. Replace it."
        )
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    segments: list[Segment] = []
    line_now, column = -1, 0
    references: dict[str, Any] = {}
    for before, token in _markdown_blocks(text, lines, references):
        if token.map[0] != line_now:
            line_now, column = token.map[0], 0
        in_table = before.type in ("th_open", "td_open")
        content = token.content.replace("|", "\\|") if in_table else token.content
        place = _find_content(lines, token.map[0], token.map[1], column, content)
        if place is not None:
            (first_line, start), (last_line, column) = place
            span = starts[first_line] + start, starts[last_line] + column
            indent = _NO_QUOTATION.sub(" ", lines[first_line][:start])
            parts = _InlineReader(token.content, references.get("references", {})).read(token.children or ())
            segments.append(_markdown_segment(span, first_line + 1, before, indent, parts))
    return segments


def _markdown_blocks(text: str, lines: Sequence[str], env: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The tokens with text, each with the one before it, which opens its block. Front matter is left out.

    ``env`` gets the parser's ``references``.
    """
    matter = _FRONT_MATTER.match(text)
    first = text.count("\n", 0, matter.end()) if matter else 0
    for before, token in pairwise(_markdown().parse("\n".join(["" for _ in lines[:first]] + [*lines[first:]]), env)):
        if token.type == "inline" and token.map is not None and token.content.strip():
            yield before, token


_NO_QUOTATION = re.compile(r"[^>\s]")  # of what stands before a block: the signs of items
_FRONT_MATTER = re.compile(r"\A---\r?\n.*?\n---\r?\n", re.DOTALL)


def _markdown() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")


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


def _markdown_segment(span: tuple[int, int], line: int, before: Any, indent: str, parts: tuple[Part, ...]) -> Segment:
    """``indent`` is what stands before each further line of the block."""
    in_table = before.type in ("th_open", "td_open")
    in_paragraph = not in_table and not before.markup.startswith("#")
    texts = "".join(part for part in parts if isinstance(part, str))

    def edits(translated: Sequence[Part]) -> list[Edit]:
        written, begins_line = "", in_paragraph  # where another block might begin
        for is_markup, group in groupby(translated, lambda part: isinstance(part, Code) and not part.is_text):
            text = join_parts(group)
            if is_markup:
                text = _LINE_END.sub(" ", text).replace("\n", f"\n{indent}")
            else:
                text = _escape_markdown(text.replace("\n", " "), texts)
                text = _BLOCK_START.sub(r"\1\\\2", text) if begins_line else text
            written += text
            begins_line = in_paragraph and written.endswith(f"\n{indent}")
        return [Edit(*span, written.replace("|", "\\|") if in_table else written)]

    return Segment(parts, line, edits)


_LINE_END = re.compile(r"(?<!  )(?<!\\)\n")  # but not where a line is broken
# What makes a heading, a quotation, an item, a line or a block of code of a paragraph that begins with it.
_BLOCK_START = re.compile(r"^(\s*(?:\d+(?=[.)](?:\s|$)))?)([#>=~]|[-+*](?=[-+*\s]|$)|[.)](?=\s|$))")
_INLINE_SIGNS = re.compile(r"[*_`\[\]<~]")


def _escape_markdown(text: str, source: str) -> str:
    """``text`` with a backslash before each sign of markup that no text of the source has."""
    return _INLINE_SIGNS.sub(lambda sign: sign[0] if sign[0] in source else f"\\{sign[0]}", text)


class _InlineReader:
    """Text and codes of one block: whatever stands between two texts is a code, as it is written.

    The parser does not say where a token stands: that follows from its kind and its text. ``references`` are those
    that the document defines.
    """

    def __init__(self, raw: str, references: Mapping[str, Any]) -> None:
        self._raw, self._references = raw, references
        self._parts: list[Part] = []
        self._cursor = 0
        self._code, self._kinds = "", set[str]()  # of the markup since the last text
        self._opened: list[int] = []  # where the text of each markup begins that is open

    def read(self, tokens: Sequence[Any]) -> tuple[Part, ...]:
        """The parts. From a token on that is not where it is expected, the rest is one code, which stays as it is."""
        in_address = False  # between < and >, where the text is an address
        for token in tokens:
            if in_address:
                in_address = token.type != "link_close"
                continue
            if token.type in ("text", "softbreak"):
                found = self._read_text(token)
            else:
                in_address = token.markup == "autolink"
                found = self._read_markup(token, "alone" if in_address else _KINDS[token.nesting])
            if not found:
                self._kinds.add("alone")
                break
        self._code += self._raw[self._cursor :]
        self._end_code()
        return tuple(_join_texts(self._parts))

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
            self._end_code()
            self._parts.append(written)
        self._cursor = end
        return True

    def _read_markup(self, token: Any, kind: str) -> bool:
        start, end = self._cursor, _markup_end(token, self._raw, self._cursor, self._references)
        if end is None:
            return False
        written = self._raw[start:end]
        if kind == "opens":
            self._opened.append(end)
        elif kind == "closes":
            text = self._raw[self._opened.pop() : start]
            if written in ("]", "][]"):
                written = f"][{text}]"  # the reference is the text, which will be another
        self._code += written
        self._kinds.add(kind)
        self._cursor = end
        return True

    def _end_code(self) -> None:
        if self._code:
            kind = self._kinds.pop() if len(self._kinds) == 1 else "alone"
            self._parts.append(Code(self._code, kind))  # type: ignore[arg-type]
        self._code, self._kinds = "", set()


_KINDS = {1: "opens", 0: "alone", -1: "closes"}
_SOFT_BREAK, _HARD_BREAK = re.compile(r"[ \t]*\n[ \t]*"), re.compile(r"[ \t]*\\?\n[ \t]*")
_AUTOLINK = re.compile(r"<[^<>\s]+>")
_REFERENCE = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]", re.DOTALL)


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
    return start + len(written) if raw.startswith(written, start) else None


def _link_end(raw: str, start: int, references: Mapping[str, Any]) -> int | None:
    """Where a link or an image ends whose text ends at ``start``: after its address, its reference, or its bracket."""
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


def _join_texts(parts: Sequence[Part]) -> list[Part]:
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined
