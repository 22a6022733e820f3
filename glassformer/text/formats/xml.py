"""XML as a tree whose elements know where they stand in the text, so that a file keeps what is not translated."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from html.entities import html5
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import numpy as np

from glassformer.errors import TextError
from glassformer.text.codes.code import Code, Part, Parts, join_parts, join_texts, mark_codes, trim
from glassformer.text.formats.segment import Edit
from glassformer.text.scripts import is_unspaced

_MAX_DEPTH = 200  # elements in one another
_BLOCK = 256  # bytes
# Elements inside a text whose content is to be translated; that of the others is code.
ENCLOSES_TEXT = {"g", "hi", "mrk", "pc", "sub"}
STANDS_ALONE = {"ph", "x"}
"""Elements that stand for something between words, such as a picture or a line break."""
_SPACES = re.compile(r"[ \t\r\n]+")
_SPACE_BEFORE_BREAK = re.compile(r"[ \t]+(?=\r?\n)")
# A line that ends in a word or a comma, and the next one in lower case.
_BREAK_IN_SENTENCE = re.compile(r"(?<=[\w,])[ \t]*\r?\n[ \t]*(?=[a-zß-öø-ÿα-ώа-џ])")
_ATTRIBUTE = re.compile(r"""\s+([^\s=/>]+)\s*=\s*("[^"]*"|'[^']*')""")


class Node:
    """An element and where it stands in the file: it from ``start`` to ``end``, what it holds from ``inner`` on."""

    __slots__ = ("attributes", "children", "end", "inner", "inner_end", "name", "start")  # a file has millions

    def __init__(self, name: str, attributes: dict[str, str], start: int) -> None:
        self.name, self.attributes, self.start = name, attributes, start
        self.inner = self.inner_end = self.end = start
        self.children: list[Node] = []

    def child(self, name: str) -> "Node | None":
        """The first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def find_all(self, name: str) -> Iterator["Node"]:
        """All elements of that name below this one, in the order of the file."""
        for child in self.children:
            if child.name == name:
                yield child
            else:
                yield from child.find_all(name)


def join_spaces(parts: Sequence[Part]) -> Parts:
    """The parts with runs of white space as one space, but for those at the ends of the text."""
    before, inner, after = trim(parts)
    joined = [_SPACES.sub(" ", part) if isinstance(part, str) else part for part in inner]
    return tuple([part for part in join_texts([before, *joined, after]) if part])


def join_lines(parts: Sequence[Part]) -> Parts:
    """The parts with line breaks inside a sentence as codes, so that it is read as a whole.

    If the first line begins in lower case, the lines may be words of a list.
    """
    if join_parts(part for part in parts if isinstance(part, str)).lstrip()[:1].islower():
        return tuple(parts)
    return mark_codes(parts, _BREAK_IN_SENTENCE, lambda found: Code(found[0], is_text=True))


def trim_breaks(parts: Sequence[Part], source: str) -> Parts:
    """The parts without spaces before line breaks, unless the source has some."""
    if _SPACE_BEFORE_BREAK.search(source):
        return tuple(parts)
    return tuple([_SPACE_BEFORE_BREAK.sub("", part) if isinstance(part, str) else part for part in parts])


def parse_xml(text: str, path: Path) -> Node:
    """The document as a tree whose nodes know their places in ``text``; ``TextError`` if it is not well-formed."""
    reader = _XmlReader(text, path)
    try:
        reader.parse()
    except expat.ExpatError as error:
        raise TextError(f"{path}:{error.lineno}:{error.offset + 1}: is not well-formed XML: {error}.") from error
    return reader.root


class _XmlReader:
    """Makes the tree of a document."""

    def __init__(self, text: str, path: Path) -> None:
        self._text, self._path, self._raw = text, path, text.encode("utf-8")
        # How many characters begin before each block of bytes: expat counts bytes.
        begins = (np.frombuffer(self._raw, np.uint8) & 0xC0) != 0x80
        counts = np.add.reduceat(begins, np.arange(0, len(begins), _BLOCK), dtype=np.int64)
        self._before = [0, *np.cumsum(counts).tolist()]
        self._parser = expat.ParserCreate("utf-8", namespace_separator=None)
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        refuse_declarations(self._parser, path)
        self.root = Node("", {}, 0)
        self._open = [self.root]

    def parse(self) -> None:
        """Read the whole text."""
        try:
            self._parser.Parse(self._raw, True)
        finally:  # or each of the two would keep the other one
            self._parser.StartElementHandler = self._parser.EndElementHandler = None

    @property
    def _place(self) -> int:
        """Where the parser is, in characters."""
        byte = self._parser.CurrentByteIndex
        block = byte // _BLOCK
        return int(self._before[block]) + len(self._raw[block * _BLOCK : byte].decode("utf-8", "ignore"))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > _MAX_DEPTH:
            raise TextError(f"{self._path}: nests more than {_MAX_DEPTH} elements, expected a file of translators.")
        node = Node(name.rpartition(":")[2], attributes, self._place)
        node.inner = self._text.index(">", after_attributes(self._text, node.start)) + 1
        self._open[-1].children.append(node)
        self._open.append(node)

    def _end(self, _: str) -> None:
        node = self._open.pop()
        node.inner_end = self._place
        if self._text[node.inner - 2 : node.inner] == "/>":
            node.inner_end = node.end = node.inner
        else:
            node.end = self._text.index(">", node.inner_end) + 1


def refuse_declarations(parser: expat.XMLParserType, path: Path) -> None:
    """Make a parser raise ``TextError`` where a DOCTYPE declares entities or attributes.

    An attribute's default is copied to each element: 100 KB in 40,000 elements are 4 GB.
    """

    def refuse(declared: str, *_: object) -> None:
        raise TextError(
            f"{path}:{parser.CurrentLineNumber}: declares {declared} in its DOCTYPE, expected none. Write them out "
            "where they are used, and delete the declarations."
        )

    parser.EntityDeclHandler = partial(refuse, "entities")
    parser.AttlistDeclHandler = partial(refuse, "attributes")


class DeclarationGuard:
    """Reads the start of a document that another parser reads, up to its first element, for its declarations."""

    def __init__(self, path: Path) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._end
        refuse_declarations(self._parser, path)
        self.ended = False

    def feed(self, data: bytes) -> None:
        """The next bytes; raises what ``refuse_declarations`` says. What is not well-formed the other parser says."""
        try:
            if not self.ended:
                self._parser.Parse(data)
        except (expat.ExpatError, ValueError, LookupError):  # the latter two: an encoding that is not known
            self.ended = True

    def _end(self, *_: object) -> None:
        self.ended = True


def after_attributes(text: str, start: int) -> int:
    """Where a tag's closing bracket may be looked for: after its attributes, which may hold one."""
    found = re.compile(rf"<[^\s/>]+(?:{_ATTRIBUTE.pattern})*").match(text, start)
    return found.end() if found else start


def set_attributes(text: str, node: Node, attributes: Mapping[str, str]) -> list[Edit]:
    """Give an element these attributes, in the place of those that it has by the same names."""
    end = after_attributes(text, node.start)
    places = {found[1]: found.span(2) for found in _ATTRIBUTE.finditer(text, node.start, end)}
    return [
        Edit(*places[name], quoteattr(value)) if name in places else Edit(end, end, f" {name}={quoteattr(value)}")
        for name, value in attributes.items()
    ]


def plain_text(text: str, node: Node) -> str:
    """What an element says, in one line and without codes."""
    return join_plain(_plain_pieces(text, node))


def _plain_pieces(text: str, node: Node) -> Iterator[str | None]:
    position = node.inner
    for child in node.children:
        yield _unescape(text[position : child.start])
        if child.name in ENCLOSES_TEXT:
            yield from _plain_pieces(text, child)
        elif child.name in STANDS_ALONE:
            yield None
        position = child.end
    yield _unescape(text[position : node.inner_end])


def join_plain(pieces: Iterable[str | None]) -> str:
    """Texts in one line, with a space where a code (None) stands between two words."""
    text = "".join("\0" if piece is None else piece for piece in pieces)

    def gap(found: re.Match[str]) -> str:
        ends = text[found.start() - 1 : found.start()] + text[found.end() : found.end() + 1]
        return " " if len(ends) == 2 and ends.isalnum() and not any(map(is_unspaced, ends)) else ""

    lines = re.sub("\0+", gap, text).split("\n")
    return " ".join(filter(None, map(str.strip, lines)))


def xml_parts(text: str, node: Node) -> tuple[Part, ...]:
    """What an element holds: text, and its inner elements as codes."""
    parts: list[Part] = []
    position = node.inner

    def add_text(end: int) -> None:
        nonlocal position
        for found in _INSTRUCTION.finditer(text, position, end):
            if found["raw"]:
                parts.extend(filter(None, [_unescape(text[position : found.start()]), Code(found["raw"])]))
                position = found.end()
        if end > position:
            parts.append(_unescape(text[position:end]))

    for child in node.children:
        add_text(child.start)
        # XLIFF 1.2 says by ``mtype``, version 2 by ``translate``, that something is not translated.
        kind, translate = child.attributes.get("mtype"), child.attributes.get("translate")
        is_protected = translate == "no" or kind in ("protected", "x-its-translate-no")
        if child.name in ENCLOSES_TEXT and child.inner < child.end and not is_protected:
            parts.append(Code(text[child.start : child.inner], "opens"))
            parts += xml_parts(text, child)
            parts.append(Code(text[child.inner_end : child.end], "closes"))
        else:
            kinds = {"bpt": "opens", "bx": "opens", "sc": "opens", "ept": "closes", "ex": "closes", "ec": "closes"}
            parts.append(Code(text[child.start : child.end], kinds.get(child.name, "alone")))  # type: ignore[arg-type]
        position = child.end
    add_text(node.inner_end)
    return tuple(parts)


_INSTRUCTION = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|(?P<raw><\?.*?\?>)", re.DOTALL)
_COMMENT_OR_CDATA = re.compile(r"<!--.*?-->|<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


def _unescape(raw: str) -> str:
    """The characters that XML writes so; comments and CDATA marks are dropped."""
    pieces, position = [], 0
    for found in _COMMENT_OR_CDATA.finditer(raw):
        pieces += [_unescape_characters(raw[position : found.start()]), found[1] or ""]
        position = found.end()
    return "".join([*pieces, _unescape_characters(raw[position:])])


def _unescape_characters(raw: str) -> str:
    def character(found: re.Match[str]) -> str:
        name = found[1]
        if name.startswith("#"):
            return chr(int(name[2:], 16) if name[1] in "xX" else int(name[1:].lstrip("0")))
        return html5.get(f"{name};", found[0])  # a DTD that is not read may declare more than XML has

    return re.sub(r"&(#?\w+);", character, raw)


def fill_element(text: str, node: Node, written: str) -> Edit:
    """Put ``written`` in the place of what an element holds."""
    if node.inner == node.inner_end == node.end:  # <target/>
        tag = text[node.start : node.end]
        name = tag[1:].split()[0].rstrip("/>")
        return Edit(node.start + len(tag[:-2].rstrip()), node.end, f">{written}</{name}>")
    return Edit(node.inner, node.inner_end, written)


def indent(text: str, position: int) -> str:
    """A line break and the white space before ``position``, if it is the first of its line."""
    start = position
    while start and text[start - 1] != "\n" and text[start - 1].isspace():
        start -= 1
    return f"\n{text[start:position]}" if start and text[start - 1] == "\n" else ""
