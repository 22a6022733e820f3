"""gettext catalogs: the pairs of .po files and of compiled .mo files, and the empty messages of a .po file."""

import re
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path

from babel.messages import mofile, pofile
from babel.messages.catalog import Catalog

from glassformer.errors import TextError
from glassformer.text.formats.segment import Edit, FileSegment, Part, join_parts, line_finder, line_number
from glassformer.text.lines import read_bytes

_KEYWORD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d+)\])?)\s*(?=")')
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_STRINGS = re.compile(rf"(?:{_STRING.pattern}\s*)+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MAX_PLURALS = 100  # Arabic has 6
# What a template (.pot) has in its header until somebody starts a translation, and what German and English need.
_NO_PLURALS, _TWO_PLURALS = "nplurals=INTEGER; plural=EXPRESSION", "nplurals=2; plural=(n != 1)"
_CHARSET = re.compile(r"charset=([\w-]+)")
_NO_LANGUAGE = re.compile(r"(?<=\bLanguage:)( *)(?=\\n)")
_PREVIOUS_OBSOLETE = re.compile(rb"^#~\|.*$", re.MULTILINE)  # of msgmerge --previous, unknown to Babel
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_WRITTEN = str.maketrans({plain: f"\\{key}" for key, plain in _ESCAPES.items()})


def read_po(path: Path) -> Iterator[tuple[str, str]]:
    """The translated messages of a catalog, without fuzzy and obsolete ones; ``TextError`` if it is damaged."""
    yield from _messages(_parse(read_bytes(path), path))


class _Catalog(Catalog):
    """A catalog that refuses to make room for a billion plural forms."""

    @property
    def num_plurals(self) -> int:
        """The number of plural forms that the catalog declares, or that its language has."""
        number = int(super().num_plurals)
        if not 0 < number <= _MAX_PLURALS:
            raise ValueError(f"found nplurals={number}, expected 1 to {_MAX_PLURALS} plural forms")
        return number


def _parse(content: bytes, path: Path) -> Catalog:
    try:
        catalog = _Catalog()
        content = _PREVIOUS_OBSOLETE.sub(b"#", content).replace(_NO_PLURALS.encode(), _TWO_PLURALS.encode())
        content = content.replace(b"charset=CHARSET", b"charset=UTF-8")
        pofile.PoFileParser(catalog, abort_invalid=True).parse(BytesIO(content))
        return catalog
    except pofile.PoFileError as error:
        raise TextError(f"{path}:{error.lineno + 1}: is not a gettext catalog: {error}.") from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise TextError(f"{path}: is not a gettext catalog: {error}. Check it with msgfmt -c.") from error


def read_mo(path: Path) -> Iterator[tuple[str, str]]:
    """The messages of a compiled catalog; ``TextError`` if it is damaged."""
    content = read_bytes(path)
    try:
        catalog = mofile.read_mo(BytesIO(content))
    except (ValueError, LookupError, AttributeError, TypeError, struct.error, OSError) as error:
        raise TextError(f"{path}: is not a compiled gettext catalog: {error}. Run msgfmt again.") from error
    yield from _messages(catalog)


def _messages(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for message in catalog:
        if not message.id or message.fuzzy:
            continue
        sources, targets = _forms(message.id), _forms(message.string or "")
        if len(targets) == 1:
            sources = sources[-1:]  # a language without a plural says it of any number
        # Further plural forms of a language, beyond two, have no source: English has two.
        for src, tgt in zip(sources, targets, strict=False):
            if src and tgt:
                yield src, tgt


def _forms(texts: str | Sequence[str]) -> Sequence[str]:
    """The singular and the plurals of a message, or its only form."""
    return [texts] if isinstance(texts, str) else texts


class _Entry:
    """The strings of one message and where they stand, and the line of its flags."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._pieces: dict[str, tuple[list[str], int, int]] = {}  # as strings, the text in pieces
        self.flags: tuple[int, str] | None = None  # where the flags start, and what they are
        self.previous: int | None = None  # where #| lines start, before which flags must stand

    @cached_property
    def strings(self) -> dict[str, tuple[str, int, int]]:
        """By msgid, msgstr, msgstr[0] ...: the text, where it starts and ends. To be asked for when all are added."""
        return {name: ("".join(pieces), start, end) for name, (pieces, start, end) in self._pieces.items()}

    @property
    def is_empty(self) -> bool:
        """Whether there is no string yet."""
        return not self._pieces

    def __contains__(self, name: str) -> bool:
        return name in self._pieces

    def add_string(self, name: str, text: str, start: int, end: int) -> None:
        """Add a further string of that name."""
        pieces, first, _ = self._pieces.get(name, ([], start, end))
        pieces.append(text)
        self._pieces[name] = pieces, first, end

    def add_comment(self, line: str, position: int) -> None:
        """Note where flags stand, or have to stand."""
        stripped = line.strip()
        if stripped.startswith("#|") and self.previous is None:
            self.previous = position
        if stripped.startswith("#,"):
            self.flags = position + line.index("#,") + 2, stripped[2:]

    @property
    def empty(self) -> dict[str, tuple[str, int, int]]:
        """The translations that are to be filled; none of the header, nor of a message that has some text."""
        found = {name: string for name, string in self.strings.items() if name.startswith("msgstr")}
        is_header = not self.strings["msgid"][0]
        return {} if is_header or any(text for text, _, _ in found.values()) else found


def po_segments(text: str, path: Path, language: str | None = None) -> list[FileSegment]:
    """The messages without a translation. One that is filled is marked fuzzy: somebody should look at it.

    Obsolete messages are left alone. All plural forms but the first, and the only one, are translations of the
    plural. The header names UTF-8 afterwards and the ``language``, if it names none, and that of a template has two
    plural forms.
    """
    _parse(text.encode("utf-8"), path)
    segments: list[FileSegment] = []
    header: list[Edit] = []
    line_of = line_finder(text)
    for entry in _entries(text, path):
        sources = entry.strings
        line = line_of(sources["msgid"][1])
        if not sources["msgid"][0] and "msgstr" in sources:
            header = _header_edits(text, *sources["msgstr"][1:], language)
        if ("msgid_plural" in sources) != any(name.startswith("msgstr[") for name in sources):
            raise TextError(
                f"{path}:{line}: found one of msgid_plural and msgstr[0], expected both or neither. Check it with "
                "msgfmt -c."
            )
        empty = list(entry.empty.values())
        for number, place in enumerate(empty):
            is_singular = number == 0 and ("msgid_plural" not in sources or len(empty) > 1)
            mark = _mark_fuzzy(entry) if number == 0 else []
            if not segments:
                mark += header
            segments.append(_segment(sources["msgid" if is_singular else "msgid_plural"][0], place, mark, line))
    return segments


def _header_edits(text: str, start: int, end: int, language: str | None) -> list[Edit]:
    """What a header must say of a file that has been filled."""
    charset = _CHARSET.search(text, start, end)
    is_utf8 = charset is None or charset[1].lower() in ("utf-8", "utf8")
    edits = [] if charset is None or is_utf8 else [Edit(*charset.span(1), "UTF-8")]
    unnamed = _NO_LANGUAGE.search(text, start, end)
    if language is not None and unnamed is not None:
        edits.append(Edit(*unnamed.span(1), f" {language}"))
    plurals = text.find(_NO_PLURALS, start, end)
    return edits if plurals < 0 else [*edits, Edit(plurals, plurals + len(_NO_PLURALS), _TWO_PLURALS)]


def _segment(source: str, place: tuple[str, int, int], mark: list[Edit], line: int) -> FileSegment:
    # msgfmt wants a translation to begin and end with a line break where its source does.
    before = "\n" * (len(source) - len(source.lstrip("\n")))
    after = "\n" * (len(source) - len(source.rstrip("\n"))) if source.strip("\n") else ""

    def edits(parts: Sequence[Part]) -> list[Edit]:
        return [*mark, Edit(place[1], place[2], _quote(f"{before}{join_parts(parts)}{after}"))]

    return FileSegment((source.strip("\n"),), line, edits)


def _entries(text: str, path: Path) -> Iterator[_Entry]:
    """The messages of a catalog, in order; ``TextError`` for a line that is neither a comment nor strings."""
    entry, name, position = _Entry(0), "", 0
    for line in _LINE.findall(text):
        stripped = line.strip()
        keyword = _KEYWORD.match(stripped)
        if keyword is not None:
            starts_new = keyword[1] == "msgctxt" or (keyword[1] == "msgid" and "msgctxt" not in entry)
            if starts_new and "msgid" in entry:
                yield entry
                entry = _Entry(position)
            if entry.is_empty:
                entry.start = position if entry.previous is None else entry.previous
            name = keyword[1]
        elif stripped.startswith("#") or not stripped:
            if "msgid" in entry:
                yield entry
                entry, name = _Entry(position), ""
            entry.add_comment(line, position)
            position += len(line)
            continue
        if not _STRINGS.fullmatch(stripped, 0 if keyword is None else keyword.end()):
            raise TextError(
                f"{path}:{line_number(text, position)}: found {stripped[:80]}, expected a string in quotation marks, "
                'with \\" for one inside. Check it with msgfmt -c.'
            )
        for string in _STRING.finditer(line):
            entry.add_string(name, _unquote(string[1]), position + string.start(), position + string.end())
        position += len(line)
    if "msgid" in entry:
        yield entry


def _mark_fuzzy(entry: _Entry) -> list[Edit]:
    if entry.flags is None:
        return [Edit(entry.start, entry.start, "#, fuzzy\n")]
    start, flags = entry.flags
    return [] if "fuzzy" in flags.replace(",", " ").split() else [Edit(start, start, " fuzzy,")]


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)


def _quote(text: str) -> str:
    """As gettext writes it: a line of the file for each line of the text."""
    lines = [line.translate(_WRITTEN) for line in _LINE.findall(text)]
    if len(lines) > 1:
        lines.insert(0, "")
    return "\n".join(f'"{line}"' for line in lines or [""])
