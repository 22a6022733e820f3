"""Pairs from XML: TMX translation memories."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, iterparse

from glassformer.errors import TextError
from glassformer.text.lines import open_text

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(path: Path) -> Iterator[tuple[str, str]]:
    """The units of a translation memory that have both languages of the first unit with two languages.

    The source is the header's ``srclang`` if that unit has it, else its first language. The file is streamed, so
    that it may be larger than memory. Raises ``TextError`` if it is not well-formed.
    """
    with open_text(path) as stream:
        try:
            yield from _units(iterparse(stream, events=("start", "end")))
        except ParseError as error:
            line, column = error.position
            raise TextError(f"{path}:{line}:{column + 1}: is not well-formed TMX: {error}.") from error
        except (ValueError, LookupError) as error:
            raise TextError(f"{path}: is not readable TMX: {error}. Save it as UTF-8.") from error


def _units(events: Iterator[tuple[str, Element]]) -> Iterator[tuple[str, str]]:
    parent, srclang, languages = None, "", None
    for event, element in events:
        name = _local_name(element)
        if event == "start":
            if name == "body":
                parent = element
            elif name == "header":
                srclang = element.get("srclang", "")
        elif name == "tu":
            segments = _segments(element)
            languages = languages or _choose_languages(segments, srclang)
            if languages is not None:
                src, tgt = (_in_language(segments, language) for language in languages)
                if src and tgt:
                    yield src, tgt
            if parent is not None:
                parent.clear()  # frees the unit


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
    if len(segments) < 2:
        return None
    found = list(segments)
    src = next((language for language in found if _same_language(language, srclang.lower())), found[0])
    return src, next(language for language in found if language != src)


def _in_language(segments: dict[str, str], wanted: str) -> str:
    variants = (text for language, text in segments.items() if _same_language(language, wanted))
    return segments.get(wanted) or next(variants, "")


def _same_language(tag: str, other: str) -> bool:
    """Whether two tags name the same language, whatever the country: en and en-US."""
    return tag.replace("_", "-").split("-")[0] == other.replace("_", "-").split("-")[0]


def _plain_text(element: Element) -> str:
    """The text of a segment, without the formatting codes in <bpt>, <ept>, <ph> and <it>."""
    inner = [element.text or ""]
    for child in element:
        inner.append(_plain_text(child) if _local_name(child) in ("hi", "mrk") else "")
        inner.append(child.tail or "")
    return "".join(inner)


def _local_name(element: Element) -> str:
    """The tag without its namespace."""
    return str(element.tag).rpartition("}")[2]
