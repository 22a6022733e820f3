"""HTML pages. A paragraph, a heading, a cell or an item of a list is one text with codes."""

import re
from collections import Counter
from html import unescape
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.codes.code import Code, Part, join_parts, join_texts, trim, write_parts
from glassformer.text.formats.segment import FileSegment, line_finder, replace_span
from glassformer.text.formats.tags import Token, read_tokens

# Elements that end a sentence, as browsers show them (HTML Standard, 15.3). All others are inside one.
_BLOCKS = {
    "address", "article", "aside", "audio", "base", "blockquote", "body", "canvas", "caption", "center", "col",
    "colgroup", "datalist", "dd", "details", "dialog", "dir", "div", "dl", "dt", "embed", "fieldset", "figcaption",
    "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup",
    "hr", "html", "iframe", "input", "legend", "li", "link", "listing", "main", "map", "math", "menu", "meta", "nav",
    "noframes", "noscript", "object", "ol", "optgroup", "option", "p", "plaintext", "pre", "script", "search",
    "section", "select", "slot", "style", "summary", "svg", "table", "tbody", "td", "template", "textarea", "tfoot",
    "th", "thead", "title", "tr", "ul", "video", "xmp",
}  # fmt: skip
EMPTY_TAGS = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
# Elements that need no closing tag, and the tags that end them by beginning another.
_ENDED_BY = {
    "li": {"li"}, "dt": {"dt", "dd"}, "dd": {"dt", "dd"}, "option": {"option", "optgroup"},
    "tr": {"tr", "tbody", "tfoot"}, "td": {"td", "th", "tr", "tbody", "tfoot"},
    "th": {"td", "th", "tr", "tbody", "tfoot"},
    "p": {"p", "div", "ul", "ol", "dl", "table", "pre", "blockquote", "form", "hr", "section", "article", "header",
          "footer", "nav", "h1", "h2", "h3", "h4", "h5", "h6"},
    "rt": {"rt", "rp", "rb", *_BLOCKS}, "rp": {"rt", "rp", "rb", *_BLOCKS},
}  # fmt: skip
_NAME_CLASSES = {"mention", "hashtag", "h-card"}  # of links that show a name
_LINK = re.compile(r"<a\b", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:[@#]|\w+://|www\.)\S+")
_SPACES = re.compile(r"[ \t\r\n]+")
_UNTRANSLATED = {
    "script",
    "style",
    "code",
    "kbd",
    "pre",
    "samp",
    "svg",
    "math",
    "textarea",
    "template",
    "var",
    "rt",
    "rp",
}


class _Reader:
    """Collects the runs of text and inline tags between two block tags."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.runs: list[tuple[int, int, list[Part]]] = []
        self._parts: list[Part] = []
        self._start: int | None = None
        self._untranslated: list[tuple[str, int]] = []  # open elements, and where they begin
        self._names = Counter[str]()  # of these
        self._in_paragraph = False

    def finish(self) -> None:
        """Read the whole text."""
        for token in read_tokens(self._text):
            if token.kind in ("start", "empty"):
                self._read_start(token)
            elif token.kind == "end":
                self._read_end(token)
            elif self._untranslated:
                continue
            elif token.kind == "text":
                self._add(token.text, token.start)
            elif token.kind == "declaration" or (token.kind == "template" and self._is_line(token)):
                self._end_run(token.start)
            elif token.kind == "template" or self._start is not None:
                self._add(Code(self._text[token.start : token.end]), token.start)
        self._end_run(self._untranslated[0][1] if self._untranslated else len(self._text))

    def _is_line(self, token: Token) -> bool:
        """Whether a program's statement has a line of its own, so that it parts the text as a block does."""
        before = self._text[max(0, token.start - 200) : token.start].rstrip(" \t")[-1:]
        after = self._text[token.end : token.end + 200].lstrip(" \t\r")[:1]
        is_statement = not self._text.startswith(("{{", "<%=", "<?="), token.start)
        return is_statement and before in ("", "\n") and after in ("", "\n")

    def _end_run(self, end: int) -> None:
        if self._start is not None and any(isinstance(part, str) and part.strip() for part in self._parts):
            self.runs.append((self._start, end, join_texts(self._parts)))
        self._parts, self._start = [], None

    def _add(self, part: Part, start: int) -> None:
        if self._start is None:
            self._start = start
        self._parts.append(part)

    def _read_start(self, token: Token) -> None:
        tag, is_single = token.name, token.kind == "empty" or token.name in EMPTY_TAGS
        if self._untranslated and token.kind == "start" and tag in _ENDED_BY.get(self._untranslated[-1][0], ()):
            name, start = self._untranslated[-1]
            self._end_hidden(tag=name)
            if not self._untranslated and self._is_inline(name):
                self._add(Code(self._text[start : token.start]), start)
        classes = (dict(token.attributes).get("class") or "").split() if token.attributes else ()
        is_name = tag == "a" and not _NAME_CLASSES.isdisjoint(classes)
        is_protected = is_name or ("translate", "no") in token.attributes or "notranslate" in classes
        hidden = token.kind == "start" and (tag in _UNTRANSLATED or is_protected)
        if self._untranslated or (hidden and not is_single):
            if not is_single and self._text[token.end - 2] != "/":
                self._untranslated.append((tag, token.start))
                self._names[tag] += 1
        elif self._is_inline(tag):
            self._add(Code(self._text[token.start : token.end], "alone" if is_single else "opens"), token.start)
        else:
            self._in_paragraph = tag == "p"
            self._end_run(token.start)

    def _is_inline(self, tag: str) -> bool:
        """Whether a sentence goes on over a tag; buttons stand side by side, but in a paragraph one is a word."""
        return tag not in _BLOCKS and (tag != "button" or self._in_paragraph)

    def _read_end(self, token: Token) -> None:
        tag, code = token.name, Code(self._text[token.start : token.end], "closes")
        if self._untranslated:
            outermost, start = self._untranslated[0]
            if self._names[tag]:
                self._end_hidden(tag)
                if not self._untranslated and self._is_inline(outermost):
                    self._add(Code(self._text[start : token.end]), start)
            elif outermost in _ENDED_BY and (tag in _BLOCKS or tag == "ruby"):  # the end of what encloses it
                self._end_hidden(outermost, all_of_them=True)
                if tag == "ruby":
                    self._add(Code(self._text[start : token.start]), start)
                    self._add(code, token.start)
        elif self._is_inline(tag):
            self._add(code, token.start)
            if tag == "a":
                self._join_address()
        else:
            self._in_paragraph &= tag != "p"
            self._end_run(token.start)

    def _join_address(self) -> None:
        """Make the link that ends here one code if it shows an address or a name."""
        opening = [at for at, part in enumerate(self._parts) if isinstance(part, Code) and _LINK.match(part.raw)]
        inner = self._parts[opening[-1] :] if opening else []
        shown = "".join(part for part in inner if isinstance(part, str))
        if _ADDRESS.fullmatch(unescape(shown).strip()):
            self._parts[opening[-1] :] = [Code(join_parts(inner))]

    def _end_hidden(self, tag: str, *, all_of_them: bool = False) -> None:
        """Close the last open element of that name, and those in it, which are not translated."""
        name, start = self._untranslated[0]
        closed = ""
        while self._untranslated and (all_of_them or closed != tag):
            closed = self._untranslated.pop()[0]
            self._names[closed] -= 1
        if not self._untranslated and not self._is_inline(name):
            self._end_run(start)


def html_segments(text: str, path: Path) -> list[FileSegment]:
    """The texts of an HTML page, or of a part of one. Code, scripts, styles and ``translate="no"`` are left alone."""
    reader = _Reader(text)
    try:
        reader.finish()
    except ValueError as error:
        raise TextError(f"{path}: is not readable HTML: {error}.") from error
    line = line_finder(text)
    return [
        _html_segment(line(start), (start, end), parts, greater="&gt;" if "&gt;" in text[start:end] else ">")
        for start, end, parts in reader.runs
    ]


def _html_segment(line: int, span: tuple[int, int], parts: list[Part], *, greater: str) -> FileSegment:
    """The segment of a run of text; ``greater`` is the sign > as the run has it."""
    before, inner, after = trim(parts)

    def escape(text: str) -> str:
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;")
        return text.replace(">", greater)

    edits = replace_span(*span, lambda parts: f"{before}{write_parts(parts, escape)}{after}")
    inner = tuple([_SPACES.sub(" ", part) if isinstance(part, str) else part for part in inner])
    return FileSegment(inner, line, edits)
