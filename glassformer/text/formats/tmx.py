"""TMX, translation memories: their pairs, and the units that lack a language."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import Element, ParseError, iterparse
from xml.sax.saxutils import escape, quoteattr

from glassformer.errors import TextError
from glassformer.text.formats.segment import Edit, FileSegment, Part, line_finder, write_parts
from glassformer.text.formats.xml import DeclarationGuard, Node, fill_element, indent, parse_xml, xml_parts
from glassformer.text.lines import LONGEST_LINE, open_text

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


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
        self._guard = DeclarationGuard(path)

    def read(self, size: int = -1) -> bytes:
        """The next bytes; ``TextError`` if the unit is too long, or for declarations of entities or attributes."""
        found = self._stream.read(size)
        self._guard.feed(found)
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


def tmx_segments(text: str, path: Path, language: str | None = None) -> list[FileSegment]:
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
    src, second = languages
    tgt = language or next(_language(variants[second]) for _, variants in units if second in variants)
    line_of = line_finder(text)
    segments = []
    for unit, variants in units:
        source, target = _seg(variants, src), _seg(variants, tgt.lower())
        if source is not None and (target is None or not text[target.inner : target.inner_end].strip()):
            segments.append(_memory_segment(text, unit, (source, target), tgt, line_of(unit.start)))
    return segments


def _language(variant: Node) -> str:
    """The language as the file writes it: de-DE."""
    return variant.attributes.get("xml:lang") or variant.attributes.get("lang") or ""


def _variants(unit: Node) -> dict[str, Node]:
    """The variants of a unit by their language, in their order."""
    variants: dict[str, Node] = {}
    for node in unit.children:
        if node.name == "tuv":
            variants.setdefault(_language(node).lower(), node)
    return variants


def _seg(variants: dict[str, Node], language: str) -> Node | None:
    """The text of the first variant in a language."""
    variant = next((node for tag, node in variants.items() if same_language(tag, language)), None)
    return None if variant is None else variant.child("seg")


def _memory_segment(text: str, unit: Node, sides: tuple[Node, Node | None], language: str, line: int) -> FileSegment:
    source, target = sides
    last = [node for node in unit.children if node.name == "tuv"][-1]

    def edits(parts: Sequence[Part]) -> list[Edit]:
        written = write_parts(parts, escape)
        if target is not None:
            return [fill_element(text, target, written)]
        variant = f"{indent(text, last.start)}<tuv xml:lang={quoteattr(language)}><seg>{written}</seg></tuv>"
        return [Edit(last.end, last.end, variant)]

    return FileSegment(xml_parts(text, source), line, edits)
