"""Each format is known in one place: its entry is all that readers, command line, help and pages need."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from glassformer.cli.documents import check_input
from glassformer.documents.translate_file import find_segments
from glassformer.errors import ConfigError, TextError
from glassformer.text import formats
from glassformer.text.columns import Columns
from glassformer.text.corpus.corpus import describe_pairs, read_pairs
from glassformer.text.formats import FORMATS, Format, FormatOptions, endings, find_format
from glassformer.text.formats.segment import FileSegment, line_segments

ROOT = Path(__file__).parents[3]
IDS = [entry.name for entry in FORMATS]


def test_no_ending_and_no_name_stands_for_two_formats() -> None:
    known = endings(lambda _: True)
    assert sorted(known) == sorted({ending.lower() for ending in known})
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize("entry", FORMATS, ids=IDS)
def test_the_functions_of_an_entry_exist(entry: Format, tmp_path: Path) -> None:
    missing = tmp_path / f"a{entry.endings[0]}"
    for function in (entry.pairs, entry.languages, entry.describe_pairs, entry.describe_segments):
        if function is not None:
            with pytest.raises(TextError, match="cannot be read"):
                list(function(missing) or ())
    if entry.segments is not None:
        with suppress(TextError):  # an empty text is no XML
            assert find_segments(missing, FormatOptions(Columns.parse("1:2"), "de"))("") == []


def read_shouted(path: Path) -> Iterator[tuple[str, str]]:
    yield from ((line, line.upper()) for line in path.read_text().splitlines())


def find_shouted(text: str, path: Path, columns: Columns | None = None) -> list[FileSegment]:
    return line_segments(text.replace("!", (columns and columns.target) or "!"), path)


SHOUTED = Format(
    "Shouted", (".shout", ".loud"), options=("columns",), pairs=read_shouted, segments=find_shouted,
    languages=lambda _: ["en", "loud"],
)  # fmt: skip


def check(path: str, out: str | None, *options: str) -> None:
    check_input(
        Path(path),
        None if out is None else Path(out),
        document_options=list(options),
        line_options=[],
        engine="torch",
    )


def test_a_new_format_is_an_entry_and_its_functions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "a.LOUD"
    path.write_text("Yes!\n")
    with pytest.raises(TextError, match="expected a file of pairs"):
        read_pairs(path)
    monkeypatch.setattr(formats, "FORMATS", (*FORMATS, SHOUTED))
    assert list(read_pairs(path)) == [("Yes!", "YES!")]
    assert describe_pairs(path) == f"{path}: translations from en to loud."
    assert [one.text for one in find_segments(path, FormatOptions(Columns(target="?")))("Yes!\n")] == ["Yes?"]
    check("a.shout", "b.loud", "--columns")
    check("a.loud", "b.out")
    for out, options, message in (
        (None, [], r"is a \.shout file, whose lines are no texts, expected --out with it"),
        ("b.po", [], r"found b\.po, expected a \.shout file, as --input is"),
        ("b.shout", ["--language"], r"--language: found with a \.shout file, expected one of \.po"),
    ):
        with pytest.raises(ConfigError, match=message):
            check("a.shout", out, *options)
    with pytest.raises(
        ConfigError, match=r"--columns: found with a \.po file, expected one of \.csv, \.dev, \.gold, \.loud, \.shout"
    ):
        check("a.po", "b.po", "--columns")
    with pytest.raises(TextError, match=r"\.mdx, \.shout, \.loud\. Save"):
        find_segments(Path("a.docx"), FormatOptions())


def test_help_names_a_new_format() -> None:
    code = (
        "from glassformer.text import formats\nformats.FORMATS += (formats.Format('Shouted', ('.shout',), pairs=print,"
        " segments=print, options=('language',)),)\nfrom glassformer.cli.main import app\n"
        "from typer.testing import CliRunner\n"
        "for name in ('train', 'translate'):\n    print(CliRunner().invoke(app, [name, '--help']).output)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    said = " ".join(re.sub(r"\x1b\[[0-9;]*m|│", " ", done.stdout).split())
    assert said.count(".shout") == 3, said


def test_parsers_are_not_loaded_before_a_file_needs_them() -> None:
    parsers = {"babel", "html.parser", "xml", "openpyxl", "markdown_it", "numpy"}
    code = f"import sys, glassformer.cli.main, glassformer.text.corpus.corpus; print(*({parsers} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == ""


def test_packed_files_are_known_by_the_ending_before_gz() -> None:
    assert find_format(Path("x.JSONL.gz"), packed=True) is find_format(Path("a.jsonl"))
    assert find_format(Path("x.jsonl.gz")) is find_format(Path("gz"), packed=True)


def test_the_pages_name_every_format() -> None:
    readable = [entry for entry in FORMATS if entry.pairs]
    lines = (ROOT / "README.md").read_text().splitlines()
    sentence = next(line for line in lines if line.startswith("Pairs are read from text"))
    assert [name for entry in readable if (name := entry.name) not in sentence] == []
    for page, fitting in (("training", lambda one: one.pairs), ("translating", lambda one: one.segments)):
        cells = re.findall(r"^\| ([^|]*`\.[^|]*) \|", (ROOT / f"docs/{page}.md").read_text(), re.MULTILINE)
        assert set(endings(fitting)) <= set(re.findall(r"`(\.\w+)`", " ".join(cells))), page
