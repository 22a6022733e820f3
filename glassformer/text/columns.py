"""Columns of a table: which of them hold source and target, by the names in its first row."""

import re
from collections.abc import Sequence
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.languages import Languages, choose_languages, find_language, same_language

MAX_COLUMNS = 16_384
"""Of a row, as spreadsheets have."""
# Names of columns, by which a first row is known to be a header.
_SOURCE_NAMES = {"source", "src", "original", "text", "source text", "source segment", "source language", "msgid"}
_TARGET_NAMES = {"target", "tgt", "translation", "target text", "target segment", "target language", "msgstr"}
_ID_NAMES = {"id", "no", "nr"}  # codes of languages, too
_LONGEST_CODE = 3  # of a language; such words occur in texts
_ADDITION = re.compile(r"(?<=[^\s(\[])\s*[(\[][^()\[\]]*[)\]]$")  # behind the name of a column: (en-US)


def header_languages(first: Sequence[str], columns: tuple[int, int]) -> list[str]:
    """The languages that a header names above two columns; none unless both are known."""
    found = [find_language(_ADDITION.sub("", first[column])) for column in columns if column < len(first)]
    return found if len(list(filter(None, found))) == 2 else []


def named_columns(
    first: Sequence[str], wanted: Languages | None = None, path: Path | None = None
) -> tuple[int, int] | None:
    """Where a header has source and target, by their names or as names of two languages.

    Of languages, English is one of them, or both are written out: is and no are words, too.
    """
    written = [cell.strip().lower() for cell in first]
    if len(set(filter(None, written))) < len(list(filter(None, written))):
        return None
    names = [_ADDITION.sub("", cell) for cell in written]
    source = next((index for index, name in enumerate(names) if name in _SOURCE_NAMES), None)
    target = next((index for index, name in enumerate(names) if name in _TARGET_NAMES), None)
    found = [(find_language(name), index) for index, name in enumerate(names)]
    places = {tag: index for tag, index in reversed(found) if tag}
    missing = (source is None) + (target is None)
    others = {tag: index for tag, index in places.items() if names[index] not in _ID_NAMES}
    places = dict(reversed((others if len(others) >= missing else places).items()))
    if source is None and target is None:
        has_wanted = wanted is not None and all(any(same_language(each, tag) for tag in places) for each in wanted)
        is_written = sum(len(names[index]) > _LONGEST_CODE for index in places.values()) > 1
        if len(places) < 2 or not (has_wanted or is_written or any(same_language("en", tag) for tag in places)):
            return None
        if wanted is not None:
            src, tgt = choose_languages(places, wanted, path)
            return places[src], places[tgt]
    languages = list(places.values())
    if len(languages) < missing:
        return None
    source = languages.pop(0) if source is None else source
    return source, languages.pop(0) if target is None else target


def find_columns(
    first: Sequence[str],
    src: str | None = None,
    tgt: str | None = None,
    *,
    languages: Languages | None = None,
    path: Path | None = None,
) -> tuple[int, int, bool]:
    """Where source and target stand, from 0, and whether the first row is a header.

    ``src`` and ``tgt`` name a column or its number, from 1. Without them the header decides, else it is the first
    column and the one after it; ``TextError`` if that one has another name, or if the header of the table at
    ``path`` names other languages than ``languages``.
    """
    lower, named = [cell.strip().lower() for cell in first], named_columns(first, languages, path)
    header = named is not None

    def place(name: str) -> int:
        nonlocal header
        if name.isdecimal() and len(name) < 10 and 0 < int(name) <= MAX_COLUMNS:
            return int(name) - 1
        if name.strip().lower() not in lower:
            raise TextError(
                f"column {name!r:.50}: found {', '.join(cell[:50] for cell in first[:10])}, expected it in the first "
                f"row. Name one of these, or give its number, from 1 to {MAX_COLUMNS:,}."
            )
        header = True
        return lower.index(name.strip().lower())

    source = place(src) if src is not None else named[0] if named else 0
    if src is not None and source >= len(first):
        raise TextError(f"column {src}: found {len(first)} columns in the first row. Name one of these.")
    if tgt is not None:
        return source, place(tgt), header
    if named is not None and named[1] != source:
        return source, named[1], True
    if header and any(lower[source + 1 : source + 2]):
        raise TextError(
            f"column {src!r}: found {first[source + 1]!r:.50} after it, expected to know which column takes the "
            f"translation. Give into, a name or a number, {len(first) + 1} for a new one."
        )
    return source, source + 1, header
