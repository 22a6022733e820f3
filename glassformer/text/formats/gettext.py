"""gettext catalogs: the pairs of .po files and of compiled .mo files, and the empty messages of a .po file."""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from glassformer.errors import TextError
from glassformer.text.codes.code import Code, Part, Parts, join_parts, mark_codes
from glassformer.text.formats.encodings import GETTEXT_CHARSET, read_text
from glassformer.text.formats.segment import Edit, FileSegment, line_finder, line_number
from glassformer.text.lines import read_bytes

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*) | (?P<keyword>(?:domain|msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)(?=[\s"]))
    | "(?P<string>(?:[^"\\\n]|\\.)*)" | \s+""",
    re.VERBOSE,
)
_MESSAGE = re.compile(r"(?:msgctxt, )?msgid, (?:msgstr|msgid_plural(?:, msgstr\[\d+\])+)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# What a template (.pot) has in its header until somebody starts a translation, and what German and English need.
_NO_PLURALS, _TWO_PLURALS = "nplurals=INTEGER; plural=EXPRESSION", "nplurals=2; plural=(n != 1)"
# What a program fills in, by the flag of a message: "%.3fs" of C is %.3f and an s.
_DIRECTIVES = {
    "c-format": re.compile(
        r"%(?:\d+\$)?[-+ #0']*(?:\d+|\*(?:\d+\$)?)?(?:\.(?:\d+|\*(?:\d+\$)?)?)?"
        r"(?:(?:hh?|ll?|[Lqjzt]|I(?:32|64)?)?[diouxXeEfFgGaAcCsSpnm%]|<PRI\w+>)"
    ),
    "python-format": re.compile(r"%(?:\(\w+\))?[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlL]?[diouxXeEfFgGcrsa%]"),
}
_NO_CHARSET = "charset=CHARSET"
_NO_LANGUAGE = re.compile(r"(?<=\bLanguage:)( *)(?=\\n)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = str.maketrans({plain: f"\\{key}" for key, plain in _ESCAPES.items()})
_MO_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}


def read_po(path: Path) -> Iterator[tuple[str, str]]:
    """The translated messages of a catalog, without fuzzy and obsolete ones; ``TextError`` if it is damaged."""
    text = read_text(path, GETTEXT_CHARSET)[0].removeprefix("\ufeff")
    for entry in _entries(text, path):
        if "fuzzy" not in entry.flags and not entry.is_header:
            yield from _pairs(
                [entry.text(name) for name in entry.strings if name.startswith("msgid")],
                [entry.text(name) for name in entry.strings if name.startswith("msgstr")],
            )


def read_mo(path: Path) -> Iterator[tuple[str, str]]:
    """The messages of a compiled catalog; ``TextError`` if it is damaged."""
    content, charset = read_bytes(path), "utf-8"
    try:
        order = _MO_ORDERS[content[:4]]
        count, *tables = struct.unpack_from(f"{order}8x3I", content)
        for number in range(count):
            source, target = (_compiled_string(content, order, table + 8 * number) for table in tables)
            if not source:
                found = re.search(GETTEXT_CHARSET, target.decode("latin-1"))
                charset = found[1] if found else charset
            else:
                sources = source.decode(charset).rpartition("\x04")[2].split("\0")  # without its context
                yield from _pairs(sources, target.decode(charset).split("\0"))
    except (KeyError, ValueError, LookupError, struct.error) as error:
        raise TextError(f"{path}: is not a compiled gettext catalog: {error}. Run msgfmt again.") from error


def _compiled_string(content: bytes, order: str, place: int) -> bytes:
    length, start = struct.unpack_from(f"{order}2I", content, place)
    if start + length > len(content):
        raise ValueError("it ends within a message")
    return content[start : start + length]


def _pairs(sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pairs of a message, which has a singular and plurals, or only one form."""
    if len(targets) == 1:
        sources = sources[-1:]  # a language without a plural says it of any number
    # Further plural forms of a language, beyond two, have no source: English has two.
    for src, tgt in zip(sources, targets, strict=False):
        if src and tgt:
            yield src, tgt


@dataclass
class _Entry:
    """The strings of a message, by msgid, msgstr, msgstr[0] ..., and what the comments before it say."""

    start: int | None = None
    """Where it starts: with the message that it had before, which follows the flags."""
    strings: dict[str, list[re.Match[str]]] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    after_flags: int | None = None
    """Where flags can be added."""

    def text(self, name: str) -> str:
        """What the strings of that name say."""
        raw = "".join(string["string"] for string in self.strings[name])
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), raw)

    def span(self, name: str) -> tuple[int, int]:
        """From where to where they stand."""
        return self.strings[name][0].start(), self.strings[name][-1].end()

    @property
    def is_header(self) -> bool:
        """Whether it tells of the catalog."""
        return "msgctxt" not in self.strings and not self.text("msgid")

    def add_comment(self, token: re.Match[str]) -> None:
        """Note flags, and where they stand or have to stand."""
        comment = token["comment"]
        if comment.startswith("#|") and self.start is None:
            self.start = token.start()
        if comment.startswith("#,"):
            self.flags += comment[2:].replace(",", " ").split()
            self.after_flags = token.start() + 2


def po_segments(text: str, path: Path, language: str | None = None) -> list[FileSegment]:
    """The messages without a translation, obsolete ones left out. One that is filled is marked fuzzy.

    All plural forms but the first, and the only one, are translations of the plural. A header that lacks a
    ``language``, a character set or plural forms gets them.
    """
    segments: list[FileSegment] = []
    header: list[Edit] = []  # comes with each message
    line_of = line_finder(text)
    for entry in _entries(text, path):
        names = [name for name in entry.strings if name.startswith("msgstr")]
        if entry.is_header:
            header += _header_edits(text, *entry.span("msgstr"), language)
            continue
        for name in (name for name in names if not entry.text(name)):
            is_singular = name == names[0] and (len(names) > 1 or "msgid_plural" not in entry.strings)
            source = entry.text("msgid" if is_singular else "msgid_plural")
            others = header, _mark_fuzzy(entry)
            parts = _read_directives(source.strip("\n"), entry.flags)
            segments.append(_segment(source, parts, entry.span(name), line_of(entry.span("msgid")[0]), others))
    return segments


def _header_edits(text: str, start: int, end: int, language: str | None) -> list[Edit]:
    """What a header must say of a file that has been filled."""
    edits = []
    for unset, value in ((_NO_CHARSET, "charset=UTF-8"), (_NO_PLURALS, _TWO_PLURALS)):
        place = text.find(unset, start, end)
        edits += [] if place < 0 else [Edit(place, place + len(unset), value)]
    unnamed = _NO_LANGUAGE.search(text, start, end)
    if language is not None and unnamed is not None:
        edits.append(Edit(*unnamed.span(1), f" {language}"))
    return edits


def _read_directives(text: str, flags: list[str]) -> Parts:
    """A message with its directives as codes, as the language of the program reads them."""
    pattern = next((pattern for flag, pattern in _DIRECTIVES.items() if flag in flags), None)
    return (text,) if pattern is None else mark_codes((text,), pattern, lambda found: Code(found[0], is_text=True))


def _segment(
    source: str, parts: Parts, place: tuple[int, int], line: int, others: tuple[list[Edit], list[Edit]]
) -> FileSegment:
    """A message or one form of it, whose string is at ``place``; with its translation come ``others``."""
    # msgfmt wants a translation to begin and end with a line break where its source does.
    before = "\n" * (len(source) - len(source.lstrip("\n")))
    after = "\n" * (len(source) - len(source.rstrip("\n"))) if source.strip("\n") else ""

    def edits(parts: Sequence[Part]) -> list[Edit]:
        return [*chain(*others), Edit(*place, _quote(f"{before}{join_parts(parts)}{after}"))]

    return FileSegment(parts, line, edits)


def _entries(text: str, path: Path) -> Iterator[_Entry]:
    """The messages of a catalog, in order; ``TextError`` for what is no message."""
    entry, following, name, position = _Entry(), _Entry(), "", 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or (token.lastgroup == "string" and not name):
            line = text[text.rfind("\n", 0, position) + 1 :].partition("\n")[0].strip()
            raise TextError(
                f"{path}:{line_number(text, position)}: found {line[:80]}, expected a string in quotation marks, "
                'with \\" for one inside. Check it with msgfmt -c of gettext.'
            )
        position = token.end()
        if token.lastgroup == "comment":
            following = _Entry() if token["comment"].startswith("#~") else following  # flags of an obsolete message
            following.add_comment(token)
        elif token.lastgroup == "keyword":
            name = token["keyword"]
            if name in ("msgctxt", "domain") or (name == "msgid" and [*entry.strings] != ["msgctxt"]):
                yield from _complete(entry, text, path)
                entry, following = following, _Entry()
                entry.start = token.start() if entry.start is None else entry.start
            entry.strings[name] = entry.strings.get(name, [])
        elif token.lastgroup == "string":
            entry.strings[name].append(token)
    yield from _complete(entry, text, path)


def _complete(entry: _Entry, text: str, path: Path) -> list[_Entry]:
    """The message, if there is one; ``TextError`` if it lacks something."""
    found = ", ".join(entry.strings)
    if not (_MESSAGE.fullmatch(found) and all(entry.strings.values())) and found not in ("", "domain"):
        raise TextError(
            f"{path}:{line_number(text, entry.start or 0)}: is not a gettext catalog: found {found}, expected "
            "msgid and msgstr, or msgid, msgid_plural and msgstr[0], each with a string. Check it with msgfmt -c."
        )
    return [entry] if "msgid" in entry.strings else []


def _mark_fuzzy(entry: _Entry) -> list[Edit]:
    if "fuzzy" in entry.flags:
        return []
    place, mark = (entry.start or 0, "#, fuzzy\n") if entry.after_flags is None else (entry.after_flags, " fuzzy,")
    return [Edit(place, place, mark)]


def _quote(text: str) -> str:
    """As gettext writes it: a line of the file for each line of the text."""
    lines = [line.translate(_WRITTEN) for line in _LINE.findall(text)]
    if len(lines) > 1:
        lines.insert(0, "")
    return "\n".join(f'"{line}"' for line in lines or [""])
