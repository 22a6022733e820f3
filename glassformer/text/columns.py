"""Columns of a table: which of them hold source and target, by the names in its first row."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from glassformer.errors import ConfigError, TextError
from glassformer.text.languages import Languages, choose_languages, find_language, same_language

MAX_COLUMNS = 16_384
"""Of a row, as spreadsheets have."""
# Names of columns, by which a first row is known to be a header.
_SOURCE_NAMES = {"source", "src", "original", "text", "source text", "source segment", "source language", "msgid"}
_TARGET_NAMES = {"target", "tgt", "translation", "target text", "target segment", "target language", "msgstr"}
_ID_NAMES = {"id", "no", "nr"}  # codes of languages, too
_LONGEST_CODE = 3  # of a language; such words occur in texts
FEATURE = re.compile(r" ?\([^() ]+\)")
"""A feature behind a text, as ``Columns.join`` writes it."""
_NOT_IN_SYMBOLS = re.compile(r"[()\s]+")
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


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are read, each by its name in the header or its number, from 1: ``1+3:2``.

    The first of ``sources`` has the texts, those after it have features, which ``separator`` parts.
    """

    sources: tuple[str, ...] = ()
    target: str | None = None
    separator: str = ";"

    @classmethod
    def parse(cls, text: str, separator: str = ";") -> Self:
        """From ``1:2``, ``1+3:2``, ``English:German``, ``1`` or ``:2``; ``ConfigError`` for another form."""
        source, _, target = text.partition(":")
        sources = source.split("+") if source else []
        if not text.strip(": ") or ":" in target or not all(map(str.strip, sources)):
            raise ConfigError(
                f"columns: found {text!r:.60}, expected some such as 1:2, 1+3:2 (texts and their features, to "
                "targets) or English:German. Give numbers where a name has a sign of these."
            )
        if not separator.strip():
            raise ConfigError(f"separator: found {separator!r}, expected the sign between features, such as ;")
        return cls(tuple(sources), target or None, separator)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self | None:
        """The columns that ``data`` names as the options do; ``ConfigError`` for a separator alone."""
        columns, separator = data.get("columns"), data.get("separator")
        if columns is None and separator is not None:
            raise ConfigError(
                "separator: found without columns, which name features to separate. Name them, such as 1+3:2."
            )
        return None if columns is None else cls.parse(str(columns), separator or ";")

    def join(self, cells: Sequence[str]) -> str:
        """The text of a row's source cells, with each feature as a symbol in parentheses: walk (V) (PST)."""
        features = [each for cell in cells[1:] for each in cell.split(self.separator)]
        marked = [f"({_NOT_IN_SYMBOLS.sub('_', each.strip())})" for each in features if each.strip()]
        return " ".join([cells[0], *marked])

    def __str__(self) -> str:
        return "+".join(self.sources) + (f":{self.target}" if self.target else "")


class FoundColumns(NamedTuple):
    """Where sources and target stand, from 0, and whether the first row is a header."""

    sources: tuple[int, ...]
    target: int
    header: bool

    @property
    def last(self) -> int:
        """The last column that a pair needs."""
        return max(*self.sources, self.target)


def find_columns(
    first: Sequence[str],
    columns: Columns | None = None,
    *,
    languages: Languages | None = None,
    path: Path | None = None,
) -> FoundColumns:
    """Where the ``columns`` stand in a table with this ``first`` row.

    What they do not name the header decides, else it is the first column and the one after it; ``TextError`` if that
    one has another name, or if the header of the table at ``path`` names other languages than ``languages``.
    """
    columns = columns or Columns()
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

    sources = tuple(map(place, columns.sources)) or ((named[0] if named else 0),)
    if columns.sources and max(sources) >= len(first):
        wanted = columns.sources[sources.index(max(sources))]
        raise TextError(f"column {wanted}: found {len(first)} columns in the first row. Name one of these.")
    if columns.target is not None:
        return FoundColumns(sources, place(columns.target), header)
    if named is not None and named[1] not in sources:
        return FoundColumns(sources, named[1], True)
    after = sources[0] + 1
    if header and any(lower[after : after + 1]):
        raise TextError(
            f"column {columns.sources[0]!r}: found {first[after]!r:.50} after it, expected to know which takes "
            f"the translation. Write {columns}:NAME, or a number, {len(first) + 1} for a new one."
        )
    return FoundColumns(sources, after, header)
