"""Inputs without an end, or much larger than they look: each is refused in words, soon and with little memory."""

import gzip
import os
import re
import resource
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from glassformer.cli.streams import read_stdin
from glassformer.documents.translate_file import find_segments
from glassformer.errors import ConfigError, TextError
from glassformer.settings import RunConfig
from glassformer.settings.section import Section, read_toml
from glassformer.text import Tokenizer, read_lines
from glassformer.text.columns import Columns, find_columns
from glassformer.text.corpus.corpus import fingerprint, read_pairs
from glassformer.text.formats import FormatOptions, endings, find_format
from glassformer.text.formats.encodings import read_text
from glassformer.text.lines import LONGEST_LINE

MAX_MEMORY_MB = 200
ENDINGS = endings(lambda each: each.pairs)


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gzip file of some 300 kB that holds 300 MB of one letter."""
    path = tmp_path_factory.mktemp("bomb") / "letters.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"<tmx><body><tu><tuv><seg>")
        for _ in range(300):
            stream.write(b"a" * 10**6)
    return path


def memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize("ending", [".txt", ".tsv", ".jsonl", ".tmx"])
def test_a_line_without_an_end_is_refused_before_it_is_read(bomb: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}.gz"
    path.symlink_to(bomb)
    before = memory_mb()
    with pytest.raises(TextError, match=r"10,000,000 bytes.*expected"):
        list(read_lines(path) if ending == ".txt" else read_pairs(path))
    assert memory_mb() - before < MAX_MEMORY_MB


def test_standard_input_without_a_line_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        with pytest.raises(TextError, match=r"standard input:1: the line is longer than 10,000,000 bytes"):
            list(read_stdin())


def test_the_longest_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a" * (LONGEST_LINE - 1) + b"\nb\n")
    assert [len(line) for line in read_lines(tmp_path / "a")] == [LONGEST_LINE - 1, 1]


def test_a_file_that_is_read_as_a_whole_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.text.lines.LARGEST_WHOLE", 10)
    for ending in (".csv", ".po", ".mo", ".xliff"):
        (tmp_path / f"a{ending}").write_bytes(b"0123456789a")
        with pytest.raises(TextError, match="larger than 10 bytes"):
            list(read_pairs(tmp_path / f"a{ending}"))


@pytest.mark.parametrize("ending", [".txt", ".tsv", ".md", ".tmx"])
def test_a_small_file_that_unpacks_to_very_many_lines_is_refused(tmp_path, monkeypatch, ending):
    monkeypatch.setattr("glassformer.text.lines._ALWAYS_INFLATED", 200_000)
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(b"\n" * 300_000))
    with pytest.raises(TextError, match=r"would inflate to more than 200,000 bytes, .*unpack it: gzip -d"):
        read_text(path, None) if ending == ".md" else list(read_lines(path) if ending == ".txt" else read_pairs(path))
    path.write_bytes(gzip.compress(b"\n" * 199_999))
    assert len(list(read_lines(path))) == 199_999


def test_a_workbook_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    with (
        zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open("xl/workbook.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(501):
            part.write(b" " * 10**6)
    with pytest.raises(TextError, match="501,000,000 bytes"):
        list(read_pairs(tmp_path / "a.xlsx"))


@pytest.fixture(params=["/dev/zero", "a pipe that nobody writes to", "a pipe"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "/dev/zero":
        yield Path("/dev/zero")
        return
    path = tmp_path / "pipe"
    os.mkfifo(path)
    if request.param != "a pipe":
        yield path
        return
    with subprocess.Popen([sys.executable, "-c", f"open({str(path)!r}, 'w').write('a\\n')"]) as writer:
        yield path
        writer.kill()


def test_a_pipe_or_a_device_is_refused_at_once(endless: Path, tmp_path: Path) -> None:
    for read in (lambda path: list(read_lines(path)), read_text, lambda path: fingerprint([path])):
        with pytest.raises(TextError, match="is a pipe or a device, not a regular file"):
            read(endless)
    with pytest.raises(ConfigError, match=r"is a pipe or a device, not a regular file\. Name a file of TOML"):
        read_toml(endless)
    for ending in ENDINGS:
        if ending == ".xlsx":
            pytest.importorskip("openpyxl")
        link = tmp_path / f"a{ending}"
        link.symlink_to(endless)
        with pytest.raises(TextError, match="is a pipe or a device, not a regular file"):
            list(read_pairs(link))


@pytest.mark.parametrize("text", ["a{} = 1\n", "[a{}]\n", "[[a{}]]\n", "a = {{b{} = 1}}\n", '"a"{} = 1\n'])
def test_names_in_names_without_end_are_refused_before_they_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.toml").write_text("# settings\n" + text.format(".a" * 50_000))
    with pytest.raises(ConfigError, match=r"is not valid TOML: line 2 has 50,000 full stops, expected section\.key"):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("name", "row"),
    [("a.csv", "a,"), ("b.csv", "a|"), ("c.csv", '"a";'), ("d.tsv", "a\t"), ("e.tsv", '"a""b"\t'), ("f.tsv", "\t")],
)
def test_a_row_of_more_columns_than_spreadsheets_have_is_refused(name: str, row: str, tmp_path: Path) -> None:
    path, before = tmp_path / name, memory_mb()
    path.write_text("source\ttarget\n" * name.endswith(".tsv") + row * 10**6 + "b\n")
    find, describe = find_segments(path, FormatOptions()), find_format(path).describe_segments
    assert describe is not None
    for read in (lambda: list(read_pairs(path)), lambda: find(path.read_text()), lambda: describe(path)):
        with pytest.raises(TextError, match=r":[12]: found more than 16,384 columns, expected .*Break the row up"):
            read()
    assert memory_mb() - before < MAX_MEMORY_MB


@pytest.mark.parametrize("number", ["0", "16385", "9" * 5000, "²"])
def test_a_number_of_a_column_has_a_highest_value(number: str) -> None:
    with pytest.raises(TextError, match=r"column '.*expected it in the first row.* from 1 to 16,384\.$"):
        find_columns(["a", "b"], Columns(("1",), number))
    assert find_columns(["a", "b"], Columns.parse("1:16384")) == ((0,), 16_383, False)


@pytest.mark.parametrize("rows", ['<row r="999999999"><c r="A999999999"/></row>', '<row><c r="XFD1"/></row>' * 99])
def test_a_workbook_whose_few_cells_make_many_is_refused(rows, tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as old, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as new:
        for part in old.namelist():
            raw = re.sub(
                rb"(<sheetData)(?: ?/>|></sheetData>)", rb"\1>%s</sheetData>" % rows.encode(), old.read(part)
            )
            new.writestr(part, raw)
    monkeypatch.setattr("glassformer.text.formats.sheets._MAX_CELLS", 10**6)
    with pytest.raises(TextError, match=r"more than 1,000,000 cells, empty ones counted\. Save it as CSV"):
        list(read_pairs(tmp_path / "b.xlsx"))


def test_a_workbook_that_declares_attributes_is_refused(tmp_path: Path) -> None:
    bomb = f'<!DOCTYPE worksheet [<!ATTLIST c a CDATA "{"x" * 100_000}">]><worksheet>{"<c/>" * 20_000}</worksheet>'
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/worksheets/sheet1.xml", bomb)
    pytest.importorskip("openpyxl")
    before = memory_mb()
    with pytest.raises(TextError, match=r"a\.xlsx:1: declares attributes"):
        list(read_pairs(tmp_path / "a.xlsx"))
    assert memory_mb() - before < MAX_MEMORY_MB


@pytest.mark.slow
def test_text_of_a_process_substitution_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"one\n" * 10))
    train = f"'{sys.executable}' -m glassformer train --src <(zcat < a) --tgt <(zcat < a) --run run"
    done = subprocess.run(["bash", "-c", train], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is a pipe or a device" in done.stderr
    assert "may be gzip. Name the file itself" in done.stderr


@pytest.mark.parametrize("count", ["1000000000", '1000"\n"000000', "-5", "0"])
def test_no_room_is_made_for_a_billion_plural_forms(tmp_path: Path, count: str) -> None:
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: nplurals='
    header += f'{count}; plural=0;\\n"\n'
    message = '\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] "c"\nmsgstr[1000000000] "d"\n'
    (tmp_path / "a.po").write_text(header + message)
    assert list(read_pairs(tmp_path / "a.po")) == [("a", "c"), ("b", "d")]


def _numbers() -> Iterator[tuple[str, str]]:
    for section in fields(RunConfig):
        kind = section.default_factory  # type: ignore[misc]  # each has one
        assert isinstance(kind, type)
        assert issubclass(kind, Section)
        for setting in fields(kind):
            if type(setting.default) is int:
                yield section.name, setting.name


@pytest.mark.parametrize(("section", "name"), list(_numbers()))
def test_every_number_has_a_highest_value(section: str, name: str) -> None:
    if name == "seed":
        return
    with pytest.raises(ConfigError, match=rf"{section}\.{name}: found {2**62}, expected a value from \d+ to \d+"):
        RunConfig.from_mapping({section: {name: 2**62}})


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "words", "characters"])
def test_the_largest_vocabulary_that_may_be_asked_for_can_be_trained(kind: str) -> None:
    largest = 1_000_000
    assert Tokenizer.train(kind, ["one two three four five six seven"] * 3, largest).size < 1000
