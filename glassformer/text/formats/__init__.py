"""The register of file formats: all that depends on a format is read from its entry here.

A new format is one entry of ``FORMATS`` and its functions, in a module of this folder, loaded at the first call.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import check_type
from glassformer.text.columns import Columns
from glassformer.text.formats.encodings import GETTEXT_CHARSET, HTML_CHARSET, START, XML_CHARSET
from glassformer.text.formats.segment import FileSegment


@dataclass(frozen=True)
class FormatOptions:
    """Which columns of a table hold the text and its translation, and the target language if a file does not say."""

    columns: Columns | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        check_type("columns", self.columns, Columns | None, "Columns; Columns.parse gives them")
        check_type("language", self.language, str | None, "a str")


@dataclass(frozen=True)
class Format:
    """What is known of a file format. One without functions is known as no text, so that it is refused."""

    name: str
    endings: tuple[str, ...]
    """In lower case; help shows the first one."""
    pairs: Callable[..., Iterator[tuple[str, str]]] | None = None
    """Reads pairs of a source and its target; with ``languages`` those from one to the other, if it has any."""
    languages: Callable[..., list[str]] | None = None
    """Source and target language of the pairs, or only the former; empty if the file names none. It takes
    ``languages``, too: these are to be found, else ``TextError``."""
    describe_pairs: Callable[..., str | None] | None = None
    """Says in a line what ``pairs`` takes for source and target, if the file leaves a choice."""
    segments: Callable[..., list[FileSegment]] | None = None
    """Finds what is to be translated in a ``text`` of the file at ``path``; takes ``options`` as keywords, too."""
    count: Callable[..., int] | None = None
    """Says how many texts ``segments`` finds that are not blank, if that takes less time."""
    describe_segments: Callable[..., str | None] | None = None
    """Says in a line what ``segments`` takes for source and target, of a path and ``options``."""
    options: tuple[str, ...] = ()
    """Which of ``FormatOptions`` the format has a use for."""
    lines: Literal["texts", "requests"] | None = None
    """What each line is to ``translate`` without ``--out``; None for a structured file, whose lines are no texts."""
    charset: str | None = None
    """Finds the encoding that a file declares."""
    has_menu_marks: bool = False
    """Whether it holds the texts of a program, such as &File."""
    has_references: bool = False
    """Whether a file may have a character as a reference, such as &#228;."""

    @property
    def is_bilingual(self) -> bool:
        """Whether a file keeps each source next to its translation, so that a filled one has nothing left to fill."""
        return self.pairs is not None and self.segments is not None

    def encode(self, text: str, encoding: str) -> bytes:
        """The bytes of a file in the encoding that it has. What this lacks becomes references, or the file UTF-8."""
        try:
            return text.encode(encoding, "xmlcharrefreplace" if self.has_references else "strict")
        except UnicodeEncodeError:
            found = re.search(self.charset or "", text[:START])
            start, end = found.span(found.lastindex or 0) if found else (0, 0)
            return f"{text[:start]}UTF-8{text[end:]}".encode()

    def select(self, options: FormatOptions) -> dict[str, Any]:
        """The options that the format has a use for, as keywords."""
        return {name: getattr(options, name) for name in self.options}


def _lazy(function: str, **settings: bool) -> Callable[..., Any]:
    """``module:function`` of this folder, with ``settings``; the module is loaded at the first call."""
    module, name = function.split(":")

    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(f"{__name__}.{module}"), name)(*args, **settings, **options)

    return call


_COLUMNS, _LANGUAGE = ("columns",), ("language",)

FORMATS = (
    Format("text", (".txt",), segments=_lazy("segment:line_segments"), lines="texts"),
    Format("TSV", (".tsv", ".train", ".dev", ".test", ".gold"), options=_COLUMNS,
           pairs=_lazy("sheets:read_tsv"), languages=_lazy("sheets:table_languages"),
           describe_pairs=_lazy("sheets:describe_tsv"),
           segments=_lazy("sheets:csv_segments", tsv=True), describe_segments=_lazy("sheets:describe_tsv")),
    Format("CSV", (".csv",), options=_COLUMNS,
           pairs=_lazy("sheets:read_csv"), languages=_lazy("sheets:table_languages"),
           describe_pairs=_lazy("sheets:describe_csv"),
           segments=_lazy("sheets:csv_segments"), describe_segments=_lazy("sheets:describe_csv")),
    Format("JSONL", (".jsonl",), lines="requests",
           pairs=_lazy("jsonl:read_jsonl"), languages=_lazy("jsonl:first_languages"),
           segments=_lazy("jsonl:jsonl_segments")),
    Format("gettext", (".po", ".pot"), options=_LANGUAGE, charset=GETTEXT_CHARSET, has_menu_marks=True,
           pairs=_lazy("gettext:read_po"), segments=_lazy("gettext:po_segments")),
    Format("compiled gettext", (".mo",), pairs=_lazy("gettext:read_mo")),
    Format("TMX", (".tmx",), options=_LANGUAGE, charset=XML_CHARSET, has_references=True,
           pairs=_lazy("tmx:read_tmx"), languages=_lazy("tmx:tmx_languages"),
           describe_pairs=_lazy("tmx:describe_tmx"),
           segments=_lazy("tmx:tmx_segments"), describe_segments=_lazy("tmx:describe_tmx")),
    Format("XLIFF", (".xliff", ".xlf", ".sdlxliff"), options=_LANGUAGE, charset=XML_CHARSET, has_references=True,
           has_menu_marks=True,
           pairs=_lazy("xliff:read_xliff"), languages=_lazy("xliff:xliff_languages"),
           segments=_lazy("xliff:xliff_segments"), describe_segments=_lazy("xliff:describe_xliff")),
    Format("Excel", (".xlsx",), options=_COLUMNS,
           pairs=_lazy("sheets:read_xlsx"), languages=_lazy("sheets:table_languages"),
           describe_pairs=_lazy("sheets:describe_xlsx")),
    Format("SubRip", (".srt",), segments=_lazy("subtitles:subtitle_segments", is_subrip=True)),
    Format("WebVTT", (".vtt",), segments=_lazy("subtitles:subtitle_segments", is_subrip=False)),
    Format("HTML", (".html", ".htm", ".xhtml"), charset=HTML_CHARSET, has_references=True,
           segments=_lazy("html:html_segments")),
    Format("Markdown", (".md", ".mdx"), segments=_lazy("markdown_reader:markdown_segments"),
           count=_lazy("markdown_reader:count_markdown")),
    Format("Word", (".docx",)), Format("OpenDocument", (".odt",)), Format("PDF", (".pdf",)),
)  # fmt: skip
_UNKNOWN = Format("unknown", (), lines="texts")


def find_format(path: Path, *, packed: bool = False, columns: Columns | None = None) -> Format:
    """The format of a file by its ending; of a ``packed`` one .gz does not count.

    An unknown one has no functions, unless ``columns`` are named: then it is a table.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if not packed or suffix.lower() != ".gz"]
    ending = suffixes[-1] if suffixes else ""
    found = next((each for each in FORMATS if ending in each.endings), _UNKNOWN)
    return FORMATS[1] if found is _UNKNOWN and columns is not None else found


def endings(fitting: Callable[[Format], object], *, first: bool = False) -> list[str]:
    """All endings of the formats that fit, or only the ``first`` of each, in the order of the register."""
    return [ending for each in FORMATS if fitting(each) for ending in each.endings[: 1 if first else None]]
