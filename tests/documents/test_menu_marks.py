"""Menu entries are translated without the mark of their letter, which comes back."""

import re
from pathlib import Path

import pytest

from benchmarks.word_translator import Permuting
from glassformer.documents import FileTranslator
from glassformer.documents.menu_marks import MenuMark, put_mark, take_mark


@pytest.mark.parametrize(
    ("text", "bare", "mark"),
    [
        ("&File", "File", ("&", "F")), ("_Open", "Open", ("_", "O")), ("~Help", "Help", ("~", "H")),
        ("Save &As...", "Save As...", ("&", "A")), ("E&xit", "Exit", ("&", "x")), ("Cu_t", "Cut", ("_", "t")),
        ("Sa~ve", "Save", ("~", "v")), ("文件(&F)", "文件", ("&", "F")), ("打开 (&O)...", "打开...", ("&", "O")),
        ("&Über uns", "Über uns", ("&", "Ü")), ("Close _all", "Close all", ("_", "a")),
    ],
)  # fmt: skip
def test_marks_of_menus_are_found(text: str, bare: str, mark: tuple[str, str]) -> None:
    assert take_mark((text,)) == ((bare,), MenuMark(*mark))


@pytest.mark.parametrize(
    "text", ["AT&T", "R&D", "Q&A", "my_file", "A & B", "&amp;", "~5", "_a_", "&&x", "&copy;", "a~b"]
)
def test_other_signs_are_no_marks(text: str) -> None:
    assert take_mark((text,)) == ((text,), None)


@pytest.mark.parametrize(
    ("text", "mark", "expected"),
    [
        ("Datei", ("&", "F"), "&Datei"), ("Öffnen", ("_", "O"), "_Öffnen"), ("Hilfe", ("~", "H"), "~Hilfe"),
        ("Speichern als...", ("&", "A"), "Speichern &als..."), ("Beenden", ("&", "x"), "&Beenden"),
        ("Ausgang", ("&", "g"), "Aus&gang"), ("文件", ("&", "F"), "文件(&F)"), ("打开...", ("&", "o"), "打开(&O)..."),
        ("12", ("&", "F"), "12"),
    ],
)  # fmt: skip
def test_a_mark_comes_back_at_a_letter(text: str, mark: tuple[str, str], expected: str) -> None:
    assert put_mark((text,), MenuMark(*mark)) == (expected,)


def test_an_entry_is_translated_without_its_mark(tmp_path: Path) -> None:
    source, target = tmp_path / "in.po", tmp_path / "out.po"
    texts = "Save &As...", "_Open %s", "AT&T is big", "See README_de.md now"
    source.write_text("".join(f'msgid "{text}"\nmsgstr ""\n\n' for text in texts), encoding="utf-8")
    report = FileTranslator(Permuting(None, "x")).translate(source, target)  # type: ignore[arg-type]
    written = re.findall('msgstr "(.*)"', target.read_text())
    assert written == ["xS&ave xAs...", "x_Open %s", "xAT&xT xis xbig", "xSee README_de.md xnow"]
    assert not report.flagged


def test_only_catalogs_have_marks(tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("The ~user directory is empty.\nOpen My_file now.\n", encoding="utf-8")
    FileTranslator(Permuting(None, "x")).translate(source, target)  # type: ignore[arg-type]
    assert target.read_text() == "xThe ~xuser xdirectory xis xempty.\nxOpen My_file xnow.\n"
