"""Tags, comments and text of HTML, with places, in linear time."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Literal, NamedTuple

_NAME = re.compile(r"([a-zA-Z][^\t\n\r\f />]*)(?:\s|/(?!>))*")
_ATTRIBUTE = re.compile(
    r"""((?<=['"\s/}>])[^\s/>][^\s/=>]*)(?:\s*=+\s*('[^']*'|"[^"]*"|(?!['"])[^>\s]*))?(?:\s|/(?!>))*"""
)
_PLAIN_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)>")  # fast path
_END_NAME = re.compile(r"</(?:\s*([a-zA-Z][-.a-zA-Z0-9:_]*)\s*>|([a-zA-Z][^\t\n\r\f />]*))")
_REFERENCE = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]*|#[0-9]+|#[xX][0-9a-fA-F]+);?")
_LONG_NUMBER = re.compile(r"(?<=&#)[0-9]{8,}")
_SIGN = re.compile("[&<]|{[%{#]")
# Programs' insertions, by how they begin.
_TEMPLATES = {
    begin: re.compile(end) for begin, end in {"<%": "%>", "<?": r"\?>", "{%": "%}", "{{": "}}}?", "{#": "#}"}.items()
}
_IN_TAG = re.compile(r"(?:<%.{0,500}?%>|<\?.{0,500}?\?>|{%.{0,500}?%}|{{.{0,500}?}})(?:\s|/(?!>))*", re.DOTALL)
_BRACKET, _COMMENT_END = re.compile(">"), re.compile(r"--\s*>")
_SECTION = re.compile(r"<!\[(?:(temp|cdata|ignore|include|rcdata)|if|else|endif)\b", re.IGNORECASE)
_SECTION_END, _CONDITION_END = re.compile(r"]\s*]\s*>"), re.compile(r"]\s*>")
_TEXT_ENDS = {name: re.compile(rf"</\s*{name}\s*>", re.IGNORECASE) for name in ("script", "style")}
_IN_VAIN = 10  # times its length that a text is searched in vain


class Token(NamedTuple):
    """Characters ``start`` to ``end``; ``name``: a tag's, in lower case.

    ``empty``: ends with ``/>``; ``hidden``: a comment; ``template``: filled in by programs.
    """

    kind: Literal["text", "start", "empty", "end", "hidden", "declaration", "template"]
    start: int
    end: int
    name: str = ""
    text: str = ""
    """A ``text`` without references such as ``&amp;``."""
    attributes: tuple[tuple[str, str], ...] = ()


def read_references(text: str) -> str:
    """As browsers read it: ``&copy 2020`` has a reference, ``AT&T`` none."""
    return unescape(_LONG_NUMBER.sub(lambda digits: digits[0].lstrip("0")[:8] or "0", text))


def read_tokens(text: str) -> Iterator[Token]:
    """A page's tokens; ``ValueError`` for unknown sections, endless tags."""
    return _TokenReader(text).read()


class _TokenReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._absent: set[re.Pattern[str]] = set()  # not in the rest
        self._in_vain = 0

    def read(self) -> Iterator[Token]:
        text, place = self._text, 0
        while place < len(text):
            sign = _SIGN.search(text, place)
            start = sign.start() if sign else len(text)
            if place < start:
                yield Token("text", place, start, "", text[place:start])
            if start == len(text):
                return
            plain = _PLAIN_TAG.match(text, start)
            if plain is not None:
                token = Token("end" if plain[1] else "start", start, plain.end(), plain[2].lower())
            else:
                token = self._template(start) or (self._reference if text[start] == "&" else self._markup)(start)
            yield token
            place = token.end
            if token.kind == "start" and token.name in _TEXT_ENDS:
                closing = _TEXT_ENDS[token.name].search(text, place)
                if closing is None:
                    return
                place = closing.start()

    def _template(self, start: int) -> Token | None:
        pattern = _TEMPLATES.get(self._text[start : start + 2])
        end = None if pattern is None else self._find(pattern, start + 2)
        return None if end is None else Token("template", start, end)

    def _reference(self, start: int) -> Token:
        found = _REFERENCE.match(self._text, start)
        if found is None:
            return Token("text", start, start + 1, text="&")
        return Token("text", start, found.end(), text=read_references(found[0]))

    def _markup(self, start: int) -> Token:
        """The tag or comment here, else text up to the next bracket."""
        text, token = self._text, None
        following = text[start + 1 : start + 2]
        if not (following.isascii() and following.isalpha()) and following not in ("/", "!", "?"):
            return Token("text", start, start + 1, text=text[start])
        bracket = self._find(_BRACKET, start)
        if bracket is not None and following == "/":
            name = _END_NAME.match(text, start)
            kind: Literal["end", "hidden"] = "hidden" if name is None else "end"
            token = Token(kind, start, bracket, "" if name is None else (name[1] or name[2]).lower())
        elif bracket is not None and following == "?":
            token = Token("declaration", start, bracket)
        elif bracket is not None:
            token = self._hidden(start, bracket) if following == "!" else self._start_tag(start)
        if token is None:
            end = bracket or max(start + 1, text.find("<", start + 1))
            token = Token("text", start, end, text=text[start:end])
        return token

    def _find(self, pattern: re.Pattern[str], start: int) -> int | None:
        found = None if pattern in self._absent else pattern.search(self._text, start)
        if found is None:
            self._absent.add(pattern)
            return None
        return found.end()

    def _hidden(self, start: int, bracket: int) -> Token | None:
        """A comment, ``<!doctype ...>``, ``<![if ...]>`` or ``<![endif]>``."""
        text, end = self._text, None
        if text.startswith("<!--", start):
            end = self._find(_COMMENT_END, start + 4)
        elif text.startswith("<![", start):
            section = _SECTION.match(text, start)
            if section is None:
                raise ValueError(f"unknown section {text[start : start + 20]!r}")
            end = self._find(_SECTION_END if section[1] else _CONDITION_END, start + 3)
        elif text[start : start + 9].lower() == "<!doctype":
            return Token("declaration", start, bracket)
        else:
            end = bracket
        return None if end is None else Token("hidden", start, end)

    def _start_tag(self, start: int) -> Token | None:
        text, attributes = self._text, []
        name = _NAME.match(text, start + 1)
        assert name is not None
        end = name.end()
        while (found := _IN_TAG.match(text, end) or _ATTRIBUTE.match(text, end)) is not None:
            end = found.end()
            if found.re is _ATTRIBUTE:
                value = found[2] or ""
                value = value[1:-1] if value[:1] in ("'", '"') and value[:1] == value[-1:] else value
                attributes.append((found[1].lower(), read_references(value)))
        for sign, kind in ((">", "start"), ("/>", "empty")):
            if text.startswith(sign, end):
                return Token(kind, start, end + len(sign), name[1].lower(), attributes=tuple(attributes))  # type: ignore[arg-type]
        self._in_vain += end - start
        if self._in_vain > _IN_VAIN * len(text):
            raise ValueError("many tags do not end; add the quotation marks and the brackets that they lack")
        return None
