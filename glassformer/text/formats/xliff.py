"""XLIFF 1.2 and 2: their pairs, and the units that lack a translation."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree.ElementTree import ParseError, iterparse
from xml.sax.saxutils import escape, quoteattr

from glassformer.errors import TextError
from glassformer.text.codes.code import Part, write_parts
from glassformer.text.formats.encodings import XML_CHARSET, read_text
from glassformer.text.formats.segment import Edit, FileSegment, line_finder
from glassformer.text.formats.xml import (
    Node,
    fill_element,
    indent,
    join_lines,
    join_spaces,
    parse_xml,
    plain_text,
    set_attributes,
    trim_breaks,
    xml_parts,
)
from glassformer.text.languages import Languages, choose_languages, same_language
from glassformer.text.lines import open_text

# What is filled is to be reviewed: the state of a target of 1.2, and of a segment of 2.
_REVIEW, _REVIEW_2 = "needs-review-translation", {"state": "translated", "subState": "glassformer:needs-review"}
_Sides = tuple[str, Node, Node | None]
_UNTRANSLATED_STATES = {"new", "needs-translation", "initial"}  # of targets that nobody has translated


def read_xliff(path: Path, languages: Languages | None = None) -> Iterator[tuple[str, str]]:
    """The units that have a source and a target, without their codes and without those to be reviewed.

    With ``languages``, those of each file between these, in either direction.
    """
    text = read_text(path, XML_CHARSET)[0].removeprefix("\ufeff")
    root = parse_xml(text, path)
    top = root.child("xliff")
    for file in root.find_all("file"):
        way = _named_languages({**(top.attributes if top else {}), **file.attributes})
        is_turned = False
        if languages is not None and way:
            if not _is_between(way, languages):
                continue
            is_turned = not same_language(way[0], languages[0])
        for pair in _pairs(text, file):
            yield pair[::-1] if is_turned else pair


def _pairs(text: str, file: Node) -> Iterator[tuple[str, str]]:
    for unit in (*file.find_all("trans-unit"), *file.find_all("segment")):
        target = unit.child("target")
        states = unit.attributes.get("subState"), target.attributes.get("state") if target else None
        if (
            target is None
            or _is_untranslated(text, unit)
            or states[0] == _REVIEW_2["subState"]
            or states[1] == _REVIEW
        ):
            continue
        for _, src, tgt in _sides(unit):
            if tgt is not None:
                yield plain_text(text, src), plain_text(text, tgt)


def xliff_languages(path: Path, languages: Languages | None = None) -> list[str]:
    """Source and target language that the file names, or only the former; 1.2 names them in each ``file``.

    With ``languages``, these, if one of its files is between them, else ``TextError``.
    """
    ways, top = list[list[str]](), dict[str, str]()
    with open_text(path) as stream, suppress(ParseError, ValueError, LookupError):  # what is damaged, its reader says
        for _, element in iterparse(stream, events=("start",)):
            if element.tag.endswith("file"):
                ways.append(_named_languages(top | element.attrib))
                if languages is None or _is_between(ways[-1], languages):
                    break
            elif not ways:
                top |= element.attrib
    if languages is None or not any(ways):
        return ways[0] if ways else []
    return list(languages if _is_between(ways[-1], languages) else choose_languages(ways[0], languages, path))


def _named_languages(attributes: Mapping[str, str]) -> list[str]:
    names = (("srcLang", "source-language"), ("trgLang", "target-language"))
    src, tgt = (next(filter(None, map(attributes.get, each)), "") for each in names)
    return [name for name in (src, tgt) if name] if src else []


def _is_between(way: Sequence[str], languages: Languages) -> bool:
    """Whether both languages are those of the way, in one direction or the other; the way may have no target."""
    turned = languages[::-1]
    return bool(way) and (all(map(same_language, way, languages)) or all(map(same_language, way, turned)))


def describe_xliff(path: Path, language: str | None = None) -> str | None:
    """From which language to which the file is translated, in a line: to ``language`` only if it names no target."""
    src, tgt = [*xliff_languages(path), "", ""][:2]
    if not src or not (tgt or language):
        return None
    other = f", not {language}: the file says so" if tgt and language and not same_language(tgt, language) else ""
    return f"{path}: translations from {src} to {tgt or language}{other}."


def xliff_segments(text: str, path: Path, language: str | None = None) -> list[FileSegment]:
    """The units of XLIFF 1.2 or 2 without a translation, except those that are not to be translated.

    Of a unit that a program has divided, those parts (``mrk``) without one. What is filled is marked for review.
    ``language`` becomes the target language of a file that names none; XLIFF 2 wants one, else ``TextError``.
    """
    root, line_of = parse_xml(text, path), line_finder(text)
    units = [
        (unit, sides, is_kept)
        for unit, is_kept in _translatable_units(root, translate=True)
        for sides in _sides_to_fill(text, unit)
    ]
    name_target = _name_target(text, path, root, language) if units else lambda _: []
    segments: list[FileSegment] = []
    for unit, sides, is_kept in units:
        marked, state = (unit, _REVIEW_2) if unit.name == "segment" else (unit.child("target"), {"state": _REVIEW})
        others = [*name_target(unit), *([] if marked is None else set_attributes(text, marked, state))]
        edits = _edits(text, unit, sides, others)
        parts = xml_parts(text, sides[1])
        parts = join_lines(parts) if is_kept else join_spaces(parts)
        segments.append(FileSegment(parts, line_of(unit.start), edits))
    return segments


def _name_target(text: str, path: Path, root: Node, language: str | None) -> Callable[[Node], list[Edit]]:
    """What names the target language for a unit where the file does not: in its <file>, or for all (2) in <xliff>."""
    top = root.child("xliff")
    if top is None or not top.attributes.get("version", "").startswith("2"):
        files = [] if language is None else list(root.find_all("file"))
        starts = [file.start for file in files]
        missing = {"target-language": language or ""}
        edits = [
            [] if "target-language" in file.attributes else set_attributes(text, file, missing) for file in files
        ]
        edits.insert(0, [])
        return lambda unit: edits[bisect_right(starts, unit.start)]
    if "trgLang" in top.attributes:
        return lambda _: []
    if language is None:
        raise TextError(
            f"{path}: names no target language, expected trgLang in <xliff>, as XLIFF 2 has it; nor does the run "
            "name it. Give its language, for example de."
        )
    named = set_attributes(text, top, {"trgLang": language})
    return lambda _: named


def _translatable_units(node: Node, *, translate: bool, keeps_spaces: bool = False) -> Iterator[tuple[Node, bool]]:
    """The units (1.2) and segments (2) in their order, and whether their white space is kept (xml:space).

    What is said of an element holds for what it encloses, too.
    """
    for child in node.children:
        own = child.attributes.get("translate", "yes" if translate else "no") == "yes"
        is_kept = child.attributes.get("xml:space", "preserve" if keeps_spaces else "") == "preserve"
        if child.name in ("trans-unit", "segment"):
            source = child.child("source")
            if own:
                yield child, is_kept or (source is not None and source.attributes.get("xml:space") == "preserve")
        else:
            yield from _translatable_units(child, translate=own, keeps_spaces=is_kept)


def _sides(unit: Node) -> list[_Sides]:
    """Source and target of a unit, or of each part (``mrk``) of one that is divided, with its number (``mid``)."""
    source, target = unit.child("source"), unit.child("target")
    sources, targets = _divisions(unit.child("seg-source")), _divisions(target)
    if sources and targets:
        return [(mid, part, targets.get(mid)) for mid, part in sources.items()]
    divided = unit.child("seg-source")
    if divided is not None and sources and target is None:  # a target with a part for each
        return [("", divided, None)]
    return [] if source is None else [("", source, target)]


def _divisions(node: Node | None) -> dict[str, Node]:
    parts = node.find_all("mrk") if node is not None else ()
    return {part.attributes.get("mid", ""): part for part in parts if part.attributes.get("mtype") == "seg"}


def _is_untranslated(text: str, unit: Node) -> bool:
    """Whether the target repeats the source and the state says that this is no translation."""
    source, target = unit.child("source"), unit.child("target")
    if source is None or target is None:
        return False
    states = {unit.attributes.get("state"), target.attributes.get("state")}
    return bool(states & _UNTRANSLATED_STATES) and xml_parts(text, source) == xml_parts(text, target)


def _sides_to_fill(text: str, unit: Node) -> list[_Sides]:
    """The sides of a unit that lack a translation: tags alone are none of a source with words."""
    is_copy = _is_untranslated(text, unit)
    return [
        (mid, source, target)
        for mid, source, target in _sides(unit)
        if target is None
        or is_copy
        or not text[target.inner : target.inner_end].strip()
        or (not _has_text(text, target) and _has_text(text, source))
    ]


def _has_text(text: str, node: Node) -> bool:
    return any(isinstance(part, str) and part.strip() for part in xml_parts(text, node))


def _edits(text: str, unit: Node, sides: _Sides, others: list[Edit]) -> Callable[[Sequence[Part]], list[Edit]]:
    """What puts a translation into a target, a part of one, or a new one. It keeps little of the tree."""
    source, whole = unit.child("source"), unit.child("target")
    mid, _, target = sides
    assert source is not None
    read = text[source.inner : source.inner_end]

    def write(parts: Sequence[Part]) -> str:
        return write_parts(trim_breaks(parts, read), escape)

    if target is not None:
        return lambda parts: [*others, fill_element(text, target, write(parts))]
    prefix = text[source.start + 1 : source.inner].partition("source")[0]  # of a namespace
    if whole is not None:
        place, before, after = whole.inner_end, f'<{prefix}mrk mtype="seg" mid={quoteattr(mid)}>', f"</{prefix}mrk>"
    else:
        state = f' state="{_REVIEW}"' if unit.name == "trans-unit" else ""
        place = (unit.child("seg-source") or source).end
        before, after = f"{indent(text, source.start)}<{prefix}target{state}>", f"</{prefix}target>"
    return lambda parts: [
        *others,
        Edit(place, place, f"{before}{write(parts)}{after}"),
    ]
