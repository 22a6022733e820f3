"""Catalogs: what msgfmt accepts is read, and what is filled is marked fuzzy, beside the flags of its own message."""

import shutil
import subprocess
from pathlib import Path

import pytest
from babel.messages import mofile
from babel.messages.catalog import Catalog

from glassformer.errors import TextError
from glassformer.text.corpus.corpus import read_pairs
from glassformer.text.formats.gettext import po_segments
from glassformer.text.formats.segment import apply_edits

HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n{}\n'
MESSAGE = '\nmsgid "a"\nmsgstr "b"\n'
FIELDS = [
    *(f'"{name}: {date}\\n"' for name in ("PO-Revision-Date", "POT-Creation-Date") for date in (
        "", "2024-01-05", "2024-01-05T10:00:00+01:00", "2024-01-05 10:00:33+0100", "2024-01-05 10:00CET",
        "2024-01-05 10:00 +0100", "2024-01-05 10:00Z", "5 Jan 2024 10:00", "YEAR-MO-DA HO:MI+ZONE", "tomorrow ",
    )),
    *(f'"Language: {language}\\n"' for language in ("", "German (Germany)", "de, at", "de_DE.UTF-8", "x!")),
    '"No field at all"',
]  # fmt: skip
ACCEPTED = [
    *(HEADER.format(field) + MESSAGE for field in FIELDS),
    MESSAGE,
    HEADER.format("") + "\n#: \u2068a b.c\n#: c.c:1\n#= no-wrap\n#| msgid \"old\"" + MESSAGE,
    HEADER.format("") + 'msgid\n"a"\nmsgstr\n\n"b"\n',
    HEADER.format("") + 'msgid "" "a" msgstr"b"\n',
    HEADER.format("") + '#~ msgid "x"\n#~ msgstr "y"\nmsgid "a"\nmsgstr "b"',
    HEADER.format("") + 'domain "other"\n' + MESSAGE,
    HEADER.format("").replace("\n", "\r\n") + MESSAGE.replace("\n", "\r\n"),
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_msgfmt_accepts_is_read(tmp_path: Path, text: str, mark: str) -> None:
    path = tmp_path / "a.po"
    path.write_text(mark + text, encoding="utf-8", newline="")
    assert list(read_pairs(path)) == [("a", "b")]
    if not mark and shutil.which("msgfmt") and "\r" not in text and "domain" not in text:
        subprocess.run(["msgfmt", "-o", tmp_path / "a.mo", path], check=True, capture_output=True)
        assert list(read_pairs(tmp_path / "a.mo")) == [("a", "b")]


@pytest.mark.parametrize(
    "text",
    [
        'msgid "a"\nmsgid_plural "b"\nmsgstr "c"\n', 'msgid "a"\nmsgstr "b"\nmsgstr "c"\nmsgid_plural "d"\n', '"a"\n',
        'msgid "a"\nmsgstr\n', 'msgstr "a"\n', 'msgctxt "a"\n', "msgid 'a'\nmsgstr 'b'\n", 'msgid "a\nb"\nmsgstr ""\n',
        '#, fuzzy\nmsgid "a"\n', 'msgid "a" x\nmsgstr ""\n',
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(TextError, match=r"a\.po:[1-4]: .*Check it with msgfmt -c"):
        po_segments(text, Path("a.po"))


def fill(text: str) -> str:
    return apply_edits(text, [edit for one in po_segments(text, Path("a.po")) for edit in one.edits(["X"])])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "#, fuzzy\n"),
        ("#: a.c:10\n", "#: a.c:10\n#, fuzzy\n"),
        ("#, c-format\n#: a.c:1\n", "#, fuzzy, c-format\n#: a.c:1\n"),
        ("#, fuzzy\n#, c-format\n", "#, fuzzy\n#, c-format\n"),
        ('#| msgid "x"\n', '#, fuzzy\n#| msgid "x"\n'),
        ('#, fuzzy\n#~ msgid "x"\n#~ msgstr "y"\n\n#: a.c:1\n', '#, fuzzy\n#~ msgid "x"\n#~ msgstr "y"\n\n#: a.c:1\n#, fuzzy\n'),
        ('#, fuzzy\n#~| msgid "w"\n#~ msgid "x"\n#~ msgstr "y"\n#, c-format\n', '#, fuzzy\n#~| msgid "w"\n#~ msgid "x"\n#~ msgstr "y"\n#, fuzzy, c-format\n'),
        ('#, fuzzy\nmsgid "x"\nmsgstr "y"\n', '#, fuzzy\nmsgid "x"\nmsgstr "y"\n#, fuzzy\n'),
    ],
)  # fmt: skip
def test_a_message_that_is_filled_is_fuzzy_and_no_other(before: str, after: str) -> None:
    assert fill(f'{before}msgid "a"\nmsgstr ""\n') == f'{after}msgid "a"\nmsgstr "X"\n'


def test_forms_of_a_plural_that_are_missing_are_filled() -> None:
    text = 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] "{}"\nmsgstr[1] "{}"\nmsgstr[2] "{}"\n'
    assert [one.text for one in po_segments(text.format("", "", ""), Path("a.po"))] == ["one", "many", "many"]
    assert [one.text for one in po_segments(text.format("eins", "", ""), Path("a.po"))] == ["many", "many"]
    assert fill(text.format("eins", "", "")) == "#, fuzzy\n" + text.format("eins", "X", "X")


def test_a_compiled_catalog_may_name_any_date_and_another_character_set(tmp_path: Path) -> None:
    catalog = Catalog(charset="iso-8859-1", header_comment="")
    catalog.add("a", "ä", context="menu")
    catalog.add(("one", "two"), ("ü", "ö"))
    with (tmp_path / "a.mo").open("wb") as stream:
        mofile.write_mo(stream, catalog)
    raw = (tmp_path / "a.mo").read_bytes()
    (tmp_path / "a.mo").write_bytes(raw.replace(b"YEAR-MO-DA", b"2024/01/02"))
    assert sorted(read_pairs(tmp_path / "a.mo")) == [("a", "ä"), ("one", "ü"), ("two", "ö")]
