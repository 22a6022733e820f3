"""HTML pages. A paragraph, a heading, a cell or an item of a list is one text with codes."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.formats.segment import Code, FileSegment, Part, line_number, replace_span, trim, write_parts

# Elements inside a sentence. All others end it.
_INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "img", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time",
    "tt", "u", "var", "wbr",
}  # fmt: skip
_EMPTY = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
# Elements that need no closing tag, and the tags that end them by beginning another.
_ENDED_BY = {
    "li": {"li"}, "dt": {"dt", "dd"}, "dd": {"dt", "dd"}, "option": {"option", "optgroup"},
    "tr": {"tr", "tbody", "tfoot"}, "td": {"td", "th", "tr", "tbody", "tfoot"},
    "th": {"td", "th", "tr", "tbody", "tfoot"},
    "p": {"p", "div", "ul", "ol", "dl", "table", "pre", "blockquote", "form", "hr", "section", "article", "header",
          "footer", "nav", "h1", "h2", "h3", "h4", "h5", "h6"},
}  # fmt: skip
_UNTRANSLATED = {"script", "style", "code", "kbd", "pre", "samp", "svg", "math", "textarea", "template", "var"}


class _Reader(HTMLParser):
    """Collects the runs of text and inline tags between two block tags."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._text = text
        self._lines = [0, *(place for place, sign in enumerate(text, 1) if sign == "\n")]
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
        if self._untranslated and tag in _ENDED_BY.get(self._untranslated[-1][0], ()):
            self._end_hidden(len(self._untranslated) - 1)
        classes = (dict(attrs).get("class") or "").split()
        hidden = tag in _UNTRANSLATED or ("translate", "no") in attrs or "notranslate" in classes
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
            start = self._untranslated[0][1]
            if tag in opened:
                self._end_hidden(len(opened) - 1 - opened[::-1].index(tag))
                if not self._untranslated and tag in _INLINE:
                    if self._start is None:
                        self._start = start
                    self._parts.append(Code(self._text[start:end]))
            elif tag not in _INLINE and opened[0] in _ENDED_BY:  # the end of what encloses it
                self._end_hidden(0)
        elif tag in _INLINE:
            self._add(Code(self._text[self._position : end], "closes"))
        else:
            self._end_run(self._position)

    def _end_hidden(self, index: int) -> None:
        """Close the open element of that index, and those in it, which are not translated."""
        name, start = self._untranslated[0]
        del self._untranslated[index:]
        if not self._untranslated and name not in _INLINE:
            self._end_run(start)

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
        self._add_hidden((4 if self._text.startswith("<!--", self._position) else 2) + len(data))

    def unknown_decl(self, data: str) -> None:
        """``<![if ...]>`` and ``<![endif]>``, as office programs write them."""
        self._add_hidden(len(data))

    def _add_hidden(self, length: int) -> None:
        """Inside a text, a code that begins here and ends with the first bracket after that many characters."""
        if not self._untranslated and self._start is not None:
            start = self._position
            self._add(Code(self._text[start : self._text.index(">", start + length) + 1]))

    def handle_decl(self, decl: str) -> None:
        self._end_run(self._position)

    def handle_pi(self, data: str) -> None:
        self._end_run(self._position)


def html_segments(text: str, path: Path) -> list[FileSegment]:
    """The texts of an HTML page, or of a part of one. Code, scripts, styles and ``translate="no"`` are left alone."""
    reader = _Reader(text)
    try:
        reader.finish()
    except (AssertionError, ValueError) as error:
        raise TextError(f"{path}: is not readable HTML: {error}.") from error
    return [_html_segment(text, *run) for run in reader.runs]


def _html_segment(text: str, start: int, end: int, parts: list[Part]) -> FileSegment:
    before, inner, after = trim(parts)
    edits = replace_span(start, end, lambda parts: f"{before}{write_parts(parts, _escape_html)}{after}")
    inner = tuple(re.sub(r"[ \t\r\n]+", " ", part) if isinstance(part, str) else part for part in inner)
    return FileSegment(inner, line_number(text, start), edits)


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
