"""XML for translators: TMX translation memories, and XLIFF 1.2 and 2. Their pairs, and what they lack."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import Element, ParseError, iterparse
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from glassformer.errors import TextError
from glassformer.text.formats.segment import Code, Edit, Part, Segment, line_number, write_parts
from glassformer.text.lines import LONGEST_LINE, open_text, read_whole

_MOST_DEPTH = 200  # elements in one another
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Elements inside a text whose content is to be translated; that of the others is code.
_ENCLOSES_TEXT = {"g", "hi", "mrk", "pc", "sub"}


_ENCODING = re.compile(r"""<\?xml[^>]*?encoding\s*=\s*["']([\w.-]+)["']""")


def read_tmx(path: Path) -> Iterator[tuple[str, str]]:
    """The units of a translation memory that have both languages of the first unit with two languages.

    The source is the header's ``srclang`` if that unit has it, else its first language. The file is streamed, so
    that it may be larger than memory. Raises ``TextError`` if it is not well-formed.
    """
    return (pair for _, pair in _read_units(path))


def tmx_languages(path: Path) -> list[str]:
    """The source and the target language that ``read_tmx`` takes, in lower case; none if it finds no pair."""
    return list(next((languages for languages, _ in _read_units(path)), ()))


def _read_units(path: Path) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """The languages and the texts of each unit."""
    with open_text(path) as stream:
        try:
            yield from _units(_LimitedUnits(stream, path))
        except ParseError as error:
            line, column = error.position
            raise TextError(f"{path}:{line}:{column + 1}: is not well-formed TMX: {error}.") from error
        except (ValueError, LookupError) as error:
            raise TextError(f"{path}: is not readable TMX: {error}. Save it as UTF-8.") from error


class _LimitedUnits:
    """A stream of XML, of which no more than ``LONGEST_LINE`` bytes may be read between two units."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self.path, self.since_unit = stream, path, 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes; ``TextError`` if the unit is too long."""
        found = self._stream.read(size)
        self.since_unit += len(found)
        if self.since_unit > LONGEST_LINE:
            raise TextError(
                f"{self.path}: found {LONGEST_LINE:,} bytes without the end of a <tu>, expected units of sentences "
                "or paragraphs. Break them up."
            )
        return found


def _units(stream: _LimitedUnits) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    parent, srclang, languages = None, "", None
    variants: list[str] = []
    for event, element in iterparse(stream, events=("start", "end")):
        name = _local_name(element)
        if event == "start":
            if name == "body":
                parent = element
            elif name == "header":
                srclang = element.get("srclang", "")
        elif name == "tu":
            stream.since_unit = 0
            segments = _segments(element)
            languages = languages or _choose_languages(segments, srclang)
            variants = variants or (list(segments) if len(segments) > 1 else [])
            if languages is not None:
                src, tgt = (_in_language(segments, language) for language in languages)
                if src and tgt:
                    yield languages, (src, tgt)
            if parent is not None:
                parent.clear()  # frees the unit
    if variants and languages is None:
        raise TextError(
            f"{stream.path}: found texts in {' and '.join(variants)}, which are one language, expected two. If they "
            "are what you want to learn, name one of them otherwise."
        )


def _segments(unit: Element) -> dict[str, str]:
    """The text of a unit in each of its languages, in their order."""
    segments: dict[str, str] = {}
    for variant in unit:
        if _local_name(variant) == "tuv":
            language = variant.get(_LANGUAGE) or variant.get("lang") or ""
            text = "".join(_plain_text(part) for part in variant if _local_name(part) == "seg")
            segments.setdefault(language.lower(), re.sub(r"\s*\n\s*", " ", text).strip())
    return segments


def _choose_languages(segments: dict[str, str], srclang: str) -> tuple[str, str] | None:
    """Source and target of a unit: the header's source language, or the first, and the first other language."""
    if len(segments) < 2:
        return None
    found = list(segments)
    src = next((language for language in found if same_language(language, srclang.lower())), found[0])
    tgt = next((language for language in found if not same_language(language, src)), None)
    return None if tgt is None else (src, tgt)


def _in_language(segments: dict[str, str], wanted: str) -> str:
    variants = (text for language, text in segments.items() if same_language(language, wanted))
    return segments.get(wanted) or next(variants, "")


def same_language(tag: str, other: str) -> bool:
    """Whether two tags name the same language, whatever the country: en and en-US."""
    return tag.replace("_", "-").split("-")[0] == other.replace("_", "-").split("-")[0]


def _plain_text(element: Element) -> str:
    """The text of a segment, without the formatting codes in <bpt>, <ept>, <ph> and <it>."""
    inner, open_elements = [element.text or ""], [(element, iter(element))]
    while open_elements:  # a loop, because a file may nest them deeper than Python calls
        current, children = open_elements[-1]
        child = next(children, None)
        if child is None:
            open_elements.pop()
            inner.append((current.tail or "") if open_elements else "")
        elif _local_name(child) in ("hi", "mrk"):
            inner.append(child.text or "")
            open_elements.append((child, iter(child)))
        else:
            inner.append(child.tail or "")
    return "".join(inner)


def _local_name(element: Element) -> str:
    """The tag without its namespace."""
    return str(element.tag).rpartition("}")[2]


class Node:
    """An element and where it stands in the file: it from ``start`` to ``end``, what it holds from ``inner`` on."""

    def __init__(self, name: str, attributes: dict[str, str], start: int) -> None:
        self.name, self.attributes, self.start = name, attributes, start
        self.inner = self.inner_end = self.end = start
        self.children: list[Node] = []

    def child(self, name: str) -> "Node | None":
        """The first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def find_all(self, name: str) -> Iterator["Node"]:
        """All elements of that name below this one, in the order of the file."""
        waiting = self.children[::-1]
        while waiting:
            node = waiting.pop()
            if node.name == name:
                yield node
            else:
                waiting += node.children[::-1]


def parse_xml(text: str, path: Path) -> Node:
    """The document as a tree whose nodes know their places in ``text``; ``TextError`` if it is not well-formed.

    Declarations of entities are refused: the text would not say what it holds. So are those of another encoding than
    UTF-8, which would be wrong of what is written.
    """
    declared = _ENCODING.match(text)
    if declared is not None and declared[1].upper() not in ("UTF-8", "UTF8"):
        raise TextError(
            f"{path}:1: declares the encoding {declared[1]}, expected UTF-8. Convert it (iconv -f {declared[1]} -t "
            "UTF-8) and correct its first line."
        )
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
        # How many characters begin up to each byte: expat counts bytes.
        octets = np.frombuffer(self._raw, np.uint8)
        self._characters = np.cumsum((octets & 0xC0) != 0x80, dtype=np.int32)
        self._parser = expat.ParserCreate("utf-8", namespace_separator=None)
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self._parser.EntityDeclHandler = self._refuse_entity
        self.root = Node("", {}, 0)
        self._open = [self.root]

    def parse(self) -> None:
        """Read the whole text."""
        self._parser.Parse(self._raw, True)

    @property
    def _place(self) -> int:
        """Where the parser is, in characters."""
        byte = self._parser.CurrentByteIndex
        return int(self._characters[byte]) - 1 if byte < len(self._raw) else len(self._text)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > _MOST_DEPTH:
            raise TextError(f"{self._path}: nests more than {_MOST_DEPTH} elements, expected a file of translators.")
        node = Node(name.rpartition(":")[2], attributes, self._place)
        node.inner = self._text.index(">", _after_attributes(self._text, node.start)) + 1
        self._open[-1].children.append(node)
        self._open.append(node)

    def _end(self, _: str) -> None:
        node = self._open.pop()
        node.inner_end = self._place
        if self._text[node.inner - 2 : node.inner] == "/>":
            node.inner_end = node.end = node.inner
        else:
            node.end = self._text.index(">", node.inner_end) + 1

    def _refuse_entity(self, *_: object) -> None:
        raise TextError(f"{self._path}: declares entities, expected none. Replace them by their text.")


def _after_attributes(text: str, start: int) -> int:
    """Where a tag's closing bracket may be looked for: after its attributes, which may hold one."""
    found = re.compile(r"""<[^\s/>]+(?:\s+[^\s=/>]+\s*=\s*(?:"[^"]*"|'[^']*'))*\s*""").match(text, start)
    return found.end() if found else start


def xml_parts(text: str, node: Node) -> tuple[Part, ...]:
    """What an element holds: text, and its inner elements as codes."""
    parts: list[Part] = []
    position = node.inner

    def add_text(end: int) -> None:
        if end > position:
            parts.append(_unescape(text[position:end]))

    for child in node.children:
        add_text(child.start)
        if child.name in _ENCLOSES_TEXT and child.inner < child.end:
            parts.append(Code(text[child.start : child.inner], "opens"))
            parts += xml_parts(text, child)
            parts.append(Code(text[child.inner_end : child.end], "closes"))
        else:
            kinds = {"bpt": "opens", "bx": "opens", "sc": "opens", "ept": "closes", "ex": "closes", "ec": "closes"}
            parts.append(Code(text[child.start : child.end], kinds.get(child.name, "alone")))  # type: ignore[arg-type]
        position = child.end
    add_text(node.inner_end)
    return tuple(parts)


_COMMENT_OR_CDATA = re.compile(r"<!--.*?-->|<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


def _unescape(raw: str) -> str:
    """The characters that XML writes so; comments and CDATA marks are dropped."""
    pieces, position = [], 0
    for found in _COMMENT_OR_CDATA.finditer(raw):
        pieces += [_unescape_characters(raw[position : found.start()]), found[1] or ""]
        position = found.end()
    return "".join([*pieces, _unescape_characters(raw[position:])])


def _unescape_characters(raw: str) -> str:
    named = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

    def character(found: re.Match[str]) -> str:
        name = found[1]
        if name.startswith("#"):
            return chr(int(name[2:], 16) if name[1] in "xX" else int(name[1:]))
        return named.get(name, found[0])

    return re.sub(r"&(#?\w+);", character, raw)


def xliff_segments(text: str, path: Path, language: str | None = None) -> list[Segment]:
    """The units of XLIFF 1.2 or 2 without a translation, except those that are not to be translated.

    A target that repeats its source is none if its state says so. ``language`` becomes the target language of a file
    that names none: XLIFF 2 wants one. Raises ``TextError`` if there is neither.
    """
    root = parse_xml(text, path)
    units = [unit for unit in _translatable_units(root, translate=True) if _lacks_target(text, unit)]
    named = _name_target(text, path, root, language) if units else []
    return [_unit_segment(text, unit, named if number == 0 else []) for number, unit in enumerate(units)]


def _name_target(text: str, path: Path, root: Node, language: str | None) -> list[Edit]:
    top = root.child("xliff")
    if top is None or not top.attributes.get("version", "").startswith("2"):
        files = [] if language is None else list(root.find_all("file"))
        return [
            Edit(end, end, f" target-language={quoteattr(language or '')}")
            for file in files
            if "target-language" not in file.attributes
            for end in [_after_attributes(text, file.start)]
        ]
    if "trgLang" in top.attributes:
        return []
    if language is None:
        raise TextError(
            f"{path}: names no target language, expected trgLang in <xliff>, as XLIFF 2 has it. Give --language, for "
            "example de."
        )
    end = _after_attributes(text, top.start)
    return [Edit(end, end, f" trgLang={quoteattr(language)}")]


def _translatable_units(node: Node, *, translate: bool) -> Iterator[Node]:
    """The units (1.2) and segments (2) in their order; ``translate`` holds for what an element encloses."""
    for child in node.children:
        own = child.attributes.get("translate", "yes" if translate else "no") == "yes"
        if child.name in ("trans-unit", "segment"):
            if own:
                yield child
        else:
            yield from _translatable_units(child, translate=own)


# The states of targets that nobody has translated: of 1.2 and of 2.
_UNTRANSLATED_STATES = {"new", "needs-translation", "initial"}
_STATE = re.compile(r"""\sstate\s*=\s*["'](new|needs-translation|initial)["']""")


def _is_untranslated(text: str, unit: Node) -> bool:
    """Whether the target repeats the source and the state says that this is no translation."""
    source, target = unit.child("source"), unit.child("target")
    if source is None or target is None:
        return False
    states = {unit.attributes.get("state"), target.attributes.get("state")}
    return bool(states & _UNTRANSLATED_STATES) and xml_parts(text, source) == xml_parts(text, target)


def _lacks_target(text: str, unit: Node) -> bool:
    source, target = unit.child("source"), unit.child("target")
    if source is None:
        return False
    return target is None or not text[target.inner : target.inner_end].strip() or _is_untranslated(text, unit)


def _unit_segment(text: str, unit: Node, others: list[Edit]) -> Segment:
    """The segment of a unit; ``others`` are further edits that the file needs."""
    source, target = unit.child("source"), unit.child("target")
    assert source is not None
    prefix = text[source.start + 1 :].partition("source")[0]  # of a namespace
    indent, end = _indent(text, source.start), (unit.child("seg-source") or source).end

    def edits(parts: Sequence[Part]) -> list[Edit]:
        written = write_parts(parts, escape)
        states = [edit for node in (unit, target) if node is not None for edit in _review(text, node)]
        if target is not None:
            return [*others, *states, _fill_element(text, target, written)]
        return [*others, *states, Edit(end, end, f"{indent}<{prefix}target>{written}</{prefix}target>")]

    return Segment(xml_parts(text, source), line_number(text, unit.start), edits)


def _review(text: str, node: Node) -> list[Edit]:
    """A state that says "not translated" becomes one that says "translated, to be reviewed"."""
    found = _STATE.search(text, node.start, node.inner)
    if found is None or node.attributes.get("state") not in _UNTRANSLATED_STATES:
        return []
    return [Edit(*found.span(1), "translated" if found[1] == "initial" else "needs-review-translation")]


def _fill_element(text: str, node: Node, written: str) -> Edit:
    if node.inner == node.inner_end == node.end:  # <target/>
        tag = text[node.start : node.end]
        name = tag[1:].split()[0].rstrip("/>")
        return Edit(node.start + len(tag[:-2].rstrip()), node.end, f">{written}</{name}>")
    return Edit(node.inner, node.inner_end, written)


def _indent(text: str, position: int) -> str:
    """A line break and the white space before ``position``, if it is the first of its line."""
    line = text.rfind("\n", 0, position) + 1
    return "\n" + text[line:position] if not text[line:position].strip() and line else ""


def read_xliff(path: Path) -> Iterator[tuple[str, str]]:
    """The units that have a source and a target, without their codes."""
    text = read_whole(path).removeprefix("\ufeff")
    root = parse_xml(text, path)
    for unit in (*root.find_all("trans-unit"), *root.find_all("segment")):
        source, target = unit.child("source"), unit.child("target")
        if source is not None and target is not None and not _is_untranslated(text, unit):
            yield tuple(  # type: ignore[misc]
                "".join(part for part in xml_parts(text, side) if isinstance(part, str)).strip()
                for side in (source, target)
            )


def tmx_segments(text: str, path: Path, language: str | None = None) -> list[Segment]:
    """The units of a translation memory that lack the target language, or have an empty text in it.

    Without ``language`` it is the second language of the first unit with two. ``TextError`` if there is none.
    """
    root = parse_xml(text, path)
    units = [(unit, _variants(unit)) for unit in root.find_all("tu")]
    header = next(root.find_all("header"), None)
    srclang = header.attributes.get("srclang", "") if header else ""
    languages = next(
        (found for _, variants in units if (found := _choose_languages(dict.fromkeys(variants, ""), srclang))), None
    )
    if languages is None and units and language is not None:
        languages = next(iter(units[0][1])), language.lower()
    if languages is None:
        raise TextError(f"{path}: no unit has two languages, expected to see which one is missing. Give --language.")
    src, tgt = languages[0], language or _as_written(languages[1], (variants for _, variants in units))
    segments = []
    for unit, variants in units:
        source = next((node for tag, node in variants.items() if same_language(tag, src)), None)
        target = next((node for tag, node in variants.items() if same_language(tag, tgt.lower())), None)
        seg = None if source is None else source.child("seg")
        filled = (
            target is not None
            and (own := target.child("seg")) is not None
            and text[own.inner : own.inner_end].strip()
        )
        if seg is not None and not filled:
            segments.append(_memory_segment(text, unit, seg, target, tgt))
    return segments


def _as_written(language: str, units: Iterable[dict[str, Node]]) -> str:
    """A language as the file writes it: de-DE."""
    node = next(variants[language] for variants in units if language in variants)
    return node.attributes.get("xml:lang") or node.attributes.get("lang") or language


def _variants(unit: Node) -> dict[str, Node]:
    """The variants of a unit by their language, in their order."""
    variants: dict[str, Node] = {}
    for node in unit.children:
        if node.name == "tuv":
            tag = node.attributes.get("xml:lang") or node.attributes.get("lang") or ""
            variants.setdefault(tag.lower(), node)
    return variants


def _memory_segment(text: str, unit: Node, seg: Node, target: Node | None, language: str) -> Segment:
    own = None if target is None else target.child("seg")
    last = [node for node in unit.children if node.name == "tuv"][-1]

    def edits(parts: Sequence[Part]) -> list[Edit]:
        written = write_parts(parts, escape)
        if own is not None:
            return [_fill_element(text, own, written)]
        variant = f"{_indent(text, last.start)}<tuv xml:lang={quoteattr(language)}><seg>{written}</seg></tuv>"
        return [Edit(last.end, last.end, variant)]

    return Segment(xml_parts(text, seg), line_number(text, unit.start), edits)
