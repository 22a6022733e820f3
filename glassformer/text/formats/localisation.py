"""Pairs from the files of translators: gettext's .po and .mo, and TMX translation memories.

Each reader yields ``(source, target)`` and raises ``TextError`` naming the file and, where there is one, the
line. Knows nothing of the other formats.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, iterparse

from babel.messages import mofile, pofile
from babel.messages.catalog import Catalog

from glassformer.errors import TextError
from glassformer.text.lines import open_text

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_po(path: Path) -> Iterator[tuple[str, str]]:
    """The translated messages of a gettext catalog; fuzzy and obsolete ones are left out."""
    with open_text(path) as stream:
        try:
            catalog = pofile.read_po(stream, abort_invalid=True)
        except pofile.PoFileError as error:
            raise TextError(f"{path}:{error.lineno + 1}: is not a gettext catalog: {error}.") from error
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise TextError(f"{path}: is not a gettext catalog: {error}. Check it with msgfmt -c.") from error
    yield from _messages(catalog)


def read_mo(path: Path) -> Iterator[tuple[str, str]]:
    """The messages of a compiled gettext catalog."""
    with open_text(path) as stream:
        try:
            catalog = mofile.read_mo(stream)
        except (ValueError, LookupError, AttributeError, TypeError, struct.error, OSError) as error:
            raise TextError(f"{path}: is not a compiled gettext catalog: {error}. Run msgfmt again.") from error
    yield from _messages(catalog)


def _messages(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for message in catalog:
        if not message.id or message.fuzzy:
            continue
        sources, targets = _forms(message.id or ""), _forms(message.string or "")
        # A language with more than two forms gives its second to the English plural; the others have no source.
        for src, tgt in zip(sources, targets, strict=False):
            if src and tgt:
                yield src, tgt


def _forms(texts: str | Sequence[str]) -> Sequence[str]:
    """Singular and plurals of a message; one form when it has no plural."""
    return [texts] if isinstance(texts, str) else texts


def read_tmx(path: Path) -> Iterator[tuple[str, str]]:
    """The units of a translation memory that have both languages of the first unit that has two.

    The source is the header's ``srclang`` where that unit has it, or else its first language. Read as a
    stream: a memory larger than the machine's is no trouble.
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
        name = _local(element)
        if event == "start":
            if name == "body":
                parent = element
            elif name == "header":
                srclang = element.get("srclang", "")
        elif name == "tu":
            segments = _segments(element)
            languages = languages or _two_languages(segments, srclang)
            if languages is not None:
                src, tgt = (_in_language(segments, language) for language in languages)
                if src and tgt:
                    yield src, tgt
            if parent is not None:
                parent.clear()


def _segments(unit: Element) -> dict[str, str]:
    """The text in each language of a unit, in its order."""
    segments: dict[str, str] = {}
    for variant in unit:
        if _local(variant) == "tuv":
            language = variant.get(_LANGUAGE) or variant.get("lang") or ""
            text = "".join(_plain(part) for part in variant if _local(part) == "seg")
            segments.setdefault(language.lower(), re.sub(r"\s*\n\s*", " ", text).strip())
    return segments


def _two_languages(segments: dict[str, str], srclang: str) -> tuple[str, str] | None:
    if len(segments) < 2:
        return None
    found = list(segments)
    src = next((language for language in found if _same(language, srclang.lower())), found[0])
    return src, next(language for language in found if language != src)


def _in_language(segments: dict[str, str], wanted: str) -> str:
    near = (text for language, text in segments.items() if _same(language, wanted))
    return segments.get(wanted) or next(near, "")


def _same(language: str, other: str) -> bool:
    """Whether two tags name one language, of whatever country: en and en-US."""
    return language.replace("_", "-").split("-")[0] == other.replace("_", "-").split("-")[0]


def _plain(element: Element) -> str:
    """The words of a segment, without the layout codes that <bpt>, <ept>, <ph> and <it> hold."""
    inner = [element.text or ""]
    for child in element:
        inner.append(_plain(child) if _local(child) in ("hi", "mrk") else "")
        inner.append(child.tail or "")
    return "".join(inner)


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]
