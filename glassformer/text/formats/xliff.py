"""XLIFF 1.2 and 2: their pairs, and the units that lack a translation."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from glassformer.errors import TextError
from glassformer.text.formats.encodings import XML_CHARSET, read_text
from glassformer.text.formats.segment import Edit, FileSegment, Part, line_finder, write_parts
from glassformer.text.formats.xml import (
    Node,
    fill_element,
    indent,
    parse_xml,
    plain_text,
    set_attributes,
    xml_parts,
)

# What is filled is to be reviewed: the state of a target of 1.2, and of a segment of 2.
_REVIEW, _REVIEW_2 = "needs-review-translation", {"state": "translated", "subState": "glassformer:needs-review"}
_UNTRANSLATED_STATES = {"new", "needs-translation", "initial"}  # of targets that nobody has translated


def read_xliff(path: Path) -> Iterator[tuple[str, str]]:
    """The units that have a source and a target, without their codes and without those to be reviewed."""
    text = read_text(path, XML_CHARSET)[0].removeprefix("\ufeff")
    root = parse_xml(text, path)
    for unit in (*root.find_all("trans-unit"), *root.find_all("segment")):
        target = unit.child("target")
        if target is None or _is_untranslated(text, unit) or _needs_review(unit, target):
            continue
        for _, src, tgt in _sides(unit):
            if tgt is not None:
                yield plain_text(text, src), plain_text(text, tgt)


def xliff_languages(path: Path) -> list[str]:
    """The source and the target language of the first file in an XLIFF file; none if it does not name both."""
    root = parse_xml(read_text(path, XML_CHARSET)[0].removeprefix("\ufeff"), path)
    top, file = root.child("xliff"), next(root.find_all("file"), None)
    attributes = (top.attributes if top else {}) | (file.attributes if file else {})
    names = (attributes.get(old) or attributes.get(new) for old, new in _LANGUAGES)
    languages = [name.lower() for name in names if name]
    return languages if len(languages) == 2 else []


_LANGUAGES = (("source-language", "srcLang"), ("target-language", "trgLang"))


def xliff_segments(text: str, path: Path, language: str | None = None) -> list[FileSegment]:
    """The units of XLIFF 1.2 or 2 without a translation, except those that are not to be translated.

    Of a unit that a program has divided, those parts (``mrk``) without one. A target that repeats its source is none
    if its state says so. What is filled is marked for review. ``language`` becomes the target language of a file that
    names none: XLIFF 2 wants one. Raises ``TextError`` if there is neither.
    """
    root, line_of = parse_xml(text, path), line_finder(text)
    segments: list[FileSegment] = []
    others: list[Edit] = []  # that the file needs beside the translations
    for unit in _translatable_units(root, translate=True):
        for number, (mid, source, target) in enumerate(_lacking(text, unit)):
            others = [] if segments else _name_target(text, path, root, language)
            others += _marks_review(text, unit) if number == 0 else []
            edit = partial(_put_in, text, unit, mid, target)
            segments.append(_unit_segment(xml_parts(text, source), edit, others, line_of(unit.start)))
    return segments


def _name_target(text: str, path: Path, root: Node, language: str | None) -> list[Edit]:
    top = root.child("xliff")
    if top is None or not top.attributes.get("version", "").startswith("2"):
        files = [] if language is None else list(root.find_all("file"))
        unnamed = [file for file in files if "target-language" not in file.attributes]
        return [edit for file in unnamed for edit in set_attributes(text, file, {"target-language": language or ""})]
    if "trgLang" in top.attributes:
        return []
    if language is None:
        raise TextError(
            f"{path}: names no target language, expected trgLang in <xliff>, as XLIFF 2 has it. Give --language, for "
            "example de."
        )
    return set_attributes(text, top, {"trgLang": language})


def _translatable_units(node: Node, *, translate: bool) -> Iterator[Node]:
    """The units (1.2) and segments (2) in their order; ``translate`` holds for what an element encloses."""
    for child in node.children:
        own = child.attributes.get("translate", "yes" if translate else "no") == "yes"
        if child.name in ("trans-unit", "segment"):
            if own:
                yield child
        else:
            yield from _translatable_units(child, translate=own)


def _sides(unit: Node) -> list[tuple[str, Node, Node | None]]:
    """Source and target of a unit, or of each part (``mrk``) of one that is divided, with its number (``mid``)."""
    source, target = unit.child("source"), unit.child("target")
    sources, targets = _divisions(unit.child("seg-source")), _divisions(target)
    if sources and targets:
        return [(mid, part, targets.get(mid)) for mid, part in sources.items()]
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


def _needs_review(unit: Node, target: Node) -> bool:
    return target.attributes.get("state") == _REVIEW or unit.attributes.get("subState") == _REVIEW_2["subState"]


def _lacking(text: str, unit: Node) -> list[tuple[str, Node, Node | None]]:
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


def _unit_segment(
    parts: tuple[Part, ...], put_in: Callable[[str], Edit], others: list[Edit], line: int
) -> FileSegment:
    """The segment of a unit; ``others`` are further edits that the file needs."""
    return FileSegment(parts, line, lambda translated: [*others, put_in(write_parts(translated, escape))])


def _put_in(text: str, unit: Node, mid: str, target: Node | None, written: str) -> Edit:
    """Put a translation into a target or a part of one; one that is missing is added."""
    if target is not None:
        return fill_element(text, target, written)
    source, whole = unit.child("source"), unit.child("target")
    assert source is not None
    prefix = text[source.start + 1 : source.inner].partition("source")[0]  # of a namespace
    if whole is not None:
        part = f'<{prefix}mrk mtype="seg" mid={quoteattr(mid)}>{written}</{prefix}mrk>'
        return Edit(whole.inner_end, whole.inner_end, part)
    before, end = indent(text, source.start), (unit.child("seg-source") or source).end
    state = f' state="{_REVIEW}"' if unit.name == "trans-unit" else ""
    return Edit(end, end, f"{before}<{prefix}target{state}>{written}</{prefix}target>")


def _marks_review(text: str, unit: Node) -> list[Edit]:
    """The states that say of what is filled that somebody has to look at it."""
    target = unit.child("target")
    if unit.name == "segment":
        return set_attributes(text, unit, _REVIEW_2)
    return [] if target is None else set_attributes(text, target, {"state": _REVIEW})
