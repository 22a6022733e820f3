"""XLIFF 1.2 and 2: their pairs, and the units that lack a translation."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from glassformer.errors import TextError
from glassformer.text.formats.encodings import XML_CHARSET, read_text
from glassformer.text.formats.segment import Edit, FileSegment, Part, line_finder, write_parts
from glassformer.text.formats.xml import Node, after_attributes, fill_element, indent, parse_xml, xml_parts


def read_xliff(path: Path) -> Iterator[tuple[str, str]]:
    """The units that have a source and a target, without their codes."""
    text = read_text(path, XML_CHARSET)[0].removeprefix("\ufeff")
    root = parse_xml(text, path)
    for unit in (*root.find_all("trans-unit"), *root.find_all("segment")):
        source, target = unit.child("source"), unit.child("target")
        if source is not None and target is not None and not _is_untranslated(text, unit, source, target):
            yield _plain_text(text, source), _plain_text(text, target)


def _plain_text(text: str, side: Node) -> str:
    return "".join(part for part in xml_parts(text, side) if isinstance(part, str)).strip()


def xliff_segments(text: str, path: Path, language: str | None = None) -> list[FileSegment]:
    """The units of XLIFF 1.2 or 2 without a translation, except those that are not to be translated.

    A target that repeats its source is none if its state says so. ``language`` becomes the target language of a file
    that names none: XLIFF 2 wants one. Raises ``TextError`` if there is neither.
    """
    root = parse_xml(text, path)
    units = [unit for unit in _translatable_units(root, translate=True) if _lacks_target(text, unit)]
    named = _name_target(text, path, root, language) if units else []
    line_of = line_finder(text)
    return [
        _unit_segment(text, unit, named if number == 0 else [], line_of(unit.start))
        for number, unit in enumerate(units)
    ]


def _name_target(text: str, path: Path, root: Node, language: str | None) -> list[Edit]:
    top = root.child("xliff")
    if top is None or not top.attributes.get("version", "").startswith("2"):
        files = [] if language is None else list(root.find_all("file"))
        return [
            Edit(end, end, f" target-language={quoteattr(language or '')}")
            for file in files
            if "target-language" not in file.attributes
            for end in [after_attributes(text, file.start)]
        ]
    if "trgLang" in top.attributes:
        return []
    if language is None:
        raise TextError(
            f"{path}: names no target language, expected trgLang in <xliff>, as XLIFF 2 has it. Give --language, for "
            "example de."
        )
    end = after_attributes(text, top.start)
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


def _is_untranslated(text: str, unit: Node, source: Node, target: Node) -> bool:
    """Whether the target repeats the source and the state says that this is no translation."""
    states = {unit.attributes.get("state"), target.attributes.get("state")}
    return bool(states & _UNTRANSLATED_STATES) and xml_parts(text, source) == xml_parts(text, target)


def _lacks_target(text: str, unit: Node) -> bool:
    source, target = unit.child("source"), unit.child("target")
    if source is None or target is None:
        return source is not None
    return not text[target.inner : target.inner_end].strip() or _is_untranslated(text, unit, source, target)


def _unit_segment(text: str, unit: Node, others: list[Edit], line: int) -> FileSegment:
    """The segment of a unit; ``others`` are further edits that the file needs."""
    source, target = unit.child("source"), unit.child("target")
    assert source is not None
    prefix = text[source.start + 1 : source.inner].partition("source")[0]  # of a namespace
    before, end = indent(text, source.start), (unit.child("seg-source") or source).end

    def edits(parts: Sequence[Part]) -> list[Edit]:
        written = write_parts(parts, escape)
        states = [edit for node in (unit, target) if node is not None for edit in _review(text, node)]
        if target is not None:
            return [*others, *states, fill_element(text, target, written)]
        return [*others, *states, Edit(end, end, f"{before}<{prefix}target>{written}</{prefix}target>")]

    return FileSegment(xml_parts(text, source), line, edits)


def _review(text: str, node: Node) -> list[Edit]:
    """A state that says "not translated" becomes one that says "translated, to be reviewed"."""
    found = _STATE.search(text, node.start, node.inner)
    if found is None or node.attributes.get("state") not in _UNTRANSLATED_STATES:
        return []
    return [Edit(*found.span(1), "translated" if found[1] == "initial" else "needs-review-translation")]
