"""TMX translation memories: pairs, and units that lack a language."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import Element, ParseError, iterparse
from xml.sax.saxutils import escape, quoteattr

from glassformer.errors import TextError
from glassformer.text.codes.code import Part, write_parts
from glassformer.text.formats.segment import Edit, FileSegment, line_finder
from glassformer.text.formats.xml import (
    ENCLOSES_TEXT,
    STANDS_ALONE,
    DeclarationGuard,
    Node,
    fill_element,
    indent,
    join_plain,
    parse_xml,
    xml_parts,
)
from glassformer.text.languages import Languages, choose_languages, same_language
from glassformer.text.lines import LONGEST_LINE, open_text

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(path: Path, languages: Languages | None = None) -> Iterator[tuple[str, str]]:
    """The units of a translation memory that have both ``languages``, streamed. Raises ``TextError``.

    Without ``languages`` those of the first unit with two. Its source is the header's ``srclang``, else its first.
    """
    return (pair for _, _, pair in _read_units(path, languages=languages))


def tmx_languages(path: Path, languages: Languages | None = None) -> list[str]:
    """The source and the target language that ``read_tmx`` takes, in lower case; none if it finds no pair."""
    return list(next((found for found, _, _ in _read_units(path, languages=languages)), ()))


def describe_tmx(path: Path, language: str | None = None, languages: Languages | None = None) -> str | None:
    """Which languages are taken, and of how many units a variant of them, in a line; None if no unit has both."""
    taken, variants = ("", ""), Counter[str]()
    for taken, tags, _ in _read_units(path, language, languages):
        variants.update(set(tags) - set(taken))
    others = "".join(f"; {tag} where it is alone, in {count:,} units" for tag, count in sorted(variants.items()))
    return f"{path}: translations from {' to '.join(taken)}{others}." if any(taken) else None


def _read_units(
    path: Path, language: str | None = None, languages: Languages | None = None
) -> Iterator[tuple[tuple[str, str], ...]]:
    """The languages that are taken, and those and the texts of each unit."""
    with open_text(path) as stream:
        try:
            yield from _units(_LimitedUnits(stream, path), language, languages)
        except ParseError as error:
            line, column = error.position
            raise TextError(f"{path}:{line}:{column + 1}: is not well-formed TMX: {error}.") from error
        except (ValueError, LookupError) as error:
            raise TextError(f"{path}: is not readable TMX: {error}. Save it as UTF-8.") from error


class _LimitedUnits:
    """XML with at most ``LONGEST_LINE`` bytes between units."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self.path, self.since_unit = stream, path, 0
        self._guard = DeclarationGuard(path)

    def read(self, size: int = -1) -> bytes:
        """The next bytes; or ``TextError``."""
        found = self._stream.read(size)
        self._guard.feed(found)
        self.since_unit += len(found)
        if self.since_unit > LONGEST_LINE:
            raise TextError(
                f"{self.path}: found {LONGEST_LINE:,} bytes without the end of a <tu>, expected units of sentences "
                "or paragraphs. Break them up."
            )
        return found


def _units(
    stream: _LimitedUnits, target: str | None, wanted: Languages | None
) -> Iterator[tuple[tuple[str, str], ...]]:
    languages = None if wanted is None else (wanted[0].lower(), wanted[1].lower())
    variants, outside, found = dict[str, None](), 0, 0
    for srclang, unit in _unit_elements(stream):
        segments = _segments(unit)
        languages = languages or _choose_languages(segments, srclang)
        if wanted is not None or not variants:
            variants |= dict.fromkeys(segments if len(segments) > 1 else ())
        outside += any(_has_text_outside(variant) for variant in unit)
        if languages is not None:
            languages = languages[0], target.lower() if target else languages[1]
            src, tgt = (find_variant(segments, language) for language in languages)
            if src and tgt and segments[src] and segments[tgt]:
                found += 1
                yield languages, (src, tgt), (segments[src], segments[tgt])
    if not found:
        _check_texts(stream.path, variants, outside, wanted)
    if variants and languages is None and target is None:
        raise TextError(
            f"{stream.path}: found texts in {' and '.join(variants)}, which are one language, expected two. If they "
            "are what you want to learn, name one of them otherwise."
        )


def _unit_elements(stream: _LimitedUnits) -> Iterator[tuple[str, Element]]:
    """Each unit, with the source language that the header names."""
    parent, srclang = None, ""
    for event, element in iterparse(stream, events=("start", "end")):
        name = _local_name(element)
        if event == "start":
            if name == "body":
                parent = element
            elif name == "header":
                srclang = element.get("srclang", "")
        elif name == "tu":
            stream.since_unit = 0
            yield srclang, element
            if parent is not None:
                parent.clear()  # frees the unit


def _check_texts(path: Path, variants: Iterable[str], outside: int, wanted: Languages | None) -> None:
    """Raise ``TextError`` if no pair was found because texts are not in <seg>, or not in the languages wanted."""
    if outside:
        raise TextError(
            f"{path}: found {outside:,} units with text outside <seg>, expected <tuv><seg>text</seg></tuv>. "
            "Put each text in a <seg>."
        )
    if wanted is not None:
        choose_languages(variants, wanted, path)


def _has_text_outside(variant: Element) -> bool:
    """Whether a variant of a unit has text of its own."""
    return _local_name(variant) == "tuv" and bool((variant.text or "").strip())


def _segments(unit: Element) -> dict[str, str]:
    segments: dict[str, str] = {}
    for variant in unit:
        if _local_name(variant) == "tuv":
            language = variant.get(_LANGUAGE) or variant.get("lang") or ""
            text = "".join(join_plain(_plain_pieces(part)) for part in variant if _local_name(part) == "seg")
            segments.setdefault(language.lower(), text)
    return segments


def _choose_languages(segments: dict[str, str], srclang: str) -> tuple[str, str] | None:
    """A unit's source language and the first other one."""
    if len(segments) < 2:
        return None
    found = list(segments)
    src = next((language for language in found if same_language(language, srclang.lower())), found[0])
    tgt = next((language for language in found if not same_language(language, src)), None)
    return None if tgt is None else (src, tgt)


def find_variant(tags: Iterable[str], wanted: str) -> str | None:
    """The wanted tag or, without it, the language's only one."""
    variants = [tag for tag in tags if same_language(tag, wanted)]
    exact = [tag for tag in variants if tag.replace("_", "-") == wanted.replace("_", "-")]
    return exact[0] if exact else variants[0] if len(variants) == 1 else None


def _plain_pieces(element: Element) -> Iterator[str | None]:
    """A segment's text without <bpt>, <ept> and <it>; None for a <ph>."""
    open_elements = [(element, iter(element))]
    yield element.text or ""
    while open_elements:  # a loop: files may nest deeper than Python calls
        current, children = open_elements[-1]
        child = next(children, None)
        if child is None:
            open_elements.pop()
            yield (current.tail or "") if open_elements else ""
        elif _local_name(child) in ENCLOSES_TEXT:
            yield child.text or ""
            open_elements.append((child, iter(child)))
        else:
            if _local_name(child) in STANDS_ALONE:
                yield None
            yield child.tail or ""


def _local_name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def tmx_segments(text: str, path: Path, language: str | None = None) -> list[FileSegment]:
    """Units without text in ``language``, or the first pair's second one."""
    root = parse_xml(text, path)
    units = [(unit, _variants(unit)) for unit in root.find_all("tu")]
    header = next(root.find_all("header"), None)
    srclang = header.attributes.get("srclang", "") if header else ""
    both = (_choose_languages(dict.fromkeys(variants, ""), srclang) for _, variants in units)
    languages = next(filter(None, both), None)
    if languages is None and units and language is None:
        raise TextError(
            f"{path}: no unit has two languages, expected to see which one is missing; nor does the run say to which "
            "it translates. Give its language, for example de."
        )
    src, second = languages or (next(iter(units[0][1]), "") if units else "", "")
    tgt = language or next((_language(variants[second]) for _, variants in units if second in variants), "")
    line_of = line_finder(text)
    segments = []
    for unit, variants in units:
        tags = [find_variant(variants, tag.lower()) for tag in (src, tgt)]
        source, target = (None if tag is None else variants[tag].child("seg") for tag in tags)
        if source is not None and (target is None or not text[target.inner : target.inner_end].strip()):
            segments.append(_memory_segment(text, unit, (source, target), tgt, line_of(unit.start)))
    return segments


def _language(variant: Node) -> str:
    """The language as written: de-DE."""
    return variant.attributes.get("xml:lang") or variant.attributes.get("lang") or ""


def _variants(unit: Node) -> dict[str, Node]:
    variants: dict[str, Node] = {}
    for node in unit.children:
        if node.name == "tuv":
            variants.setdefault(_language(node).lower(), node)
    return variants


def _memory_segment(text: str, unit: Node, sides: tuple[Node, Node | None], language: str, line: int) -> FileSegment:
    source, target = sides
    last = [node for node in unit.children if node.name == "tuv"][-1]
    start, end = last.start, last.end  # only these are kept

    def edits(parts: Sequence[Part]) -> list[Edit]:
        written = write_parts(parts, escape)
        if target is not None:
            return [fill_element(text, target, written)]
        variant = f"{indent(text, start)}<tuv xml:lang={quoteattr(language)}><seg>{written}</seg></tuv>"
        return [Edit(end, end, variant)]

    return FileSegment(xml_parts(text, source), line, edits)
