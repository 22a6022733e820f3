"""A file is read in the encoding that it says it has, and written back in it."""

import codecs
import gzip
import subprocess
from pathlib import Path

import pytest

from glassformer.errors import TextError
from glassformer.text.corpus.corpus import read_pairs
from glassformer.text.formats import find_format
from glassformer.text.formats.encodings import read_text
from glassformer.text.lines import read_lines

XLIFF = (
    '<?xml version="1.0" encoding="{}"?>\n<xliff version="1.2"><file><body><trans-unit id="1"><source>a\u00a0bü</source>'
    "<target>cü</target></trans-unit></body></file></xliff>\n"
)
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n\nmsgid "a\u00a0bü"\nmsgstr "cü"\n'
HTML = "<html><head><meta charset={}></head><p>a\u00a0bü</p></html>"


def write(path: Path, text: str, encoding: str) -> bytes:
    path.write_bytes(codecs.BOM_UTF16_BE * (encoding == "utf-16-be") + text.encode(encoding))
    return path.read_bytes()


@pytest.mark.parametrize(("ending", "text"), [("xliff", XLIFF), ("po", PO), ("html", HTML)])
@pytest.mark.parametrize("encoding", ["windows-1252", "ISO-8859-15", "utf-16", "utf-16-be", "UTF-8"])
def test_a_file_is_written_back_in_its_encoding(tmp_path: Path, ending: str, text: str, encoding: str) -> None:
    path = tmp_path / f"a.{ending}"
    raw, file_format = write(path, text.format(encoding), encoding), find_format(path)
    read, name = read_text(path, file_format.charset)
    assert read.removeprefix("\ufeff") == text.format(encoding)
    assert file_format.encode(read, name) == raw
    if file_format.pairs is not None:
        assert list(read_pairs(path)) == [("a\u00a0bü", "cü")]


def test_a_table_in_utf_16_is_read_by_its_mark(tmp_path: Path) -> None:
    raw = write(tmp_path / "a.csv", "source,target\r\nfür,for\r\n", "utf-16")
    assert list(read_pairs(tmp_path / "a.csv")) == [("für", "for")]
    assert find_format(tmp_path / "a.csv").encode(*read_text(tmp_path / "a.csv")) == raw


@pytest.mark.parametrize("encoding", ["latin-1", "us-ascii", "no-such", "utf-16", "base64", "UTF-8"])
def test_utf_8_that_says_another_encoding_is_utf_8(tmp_path: Path, encoding: str) -> None:
    write(tmp_path / "a.xliff", XLIFF.format(encoding), "utf-8")
    assert read_text(tmp_path / "a.xliff", find_format(tmp_path / "a.xliff").charset)[1] == "utf-8"


def test_what_an_encoding_lacks_is_a_reference_or_the_file_becomes_utf_8(tmp_path: Path) -> None:
    for ending, text, expected in (
        ("xliff", XLIFF, '<?xml version="1.0" encoding="us-ascii"?>\n<a>&#1078;</a>'),
        ("po", PO, 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n# ж'),
    ):
        path = tmp_path / f"a.{ending}"
        write(path, text.format("us-ascii").replace("\u00a0", "").replace("ü", ""), "ascii")
        read, encoding = read_text(path, find_format(path).charset)
        start, added = read.split("\n"), "<a>ж</a>" if ending == "xliff" else "# ж"
        changed = "\n".join([*start[: expected.count("\n")], added])
        assert find_format(path).encode(changed, encoding).decode() == expected


def test_what_could_not_be_written_back_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_bytes(PO.format("windows-1252").encode("latin-1") + b"# \x81")
    with pytest.raises(TextError, match=r"a\.po: is not text in windows-1252, as it says"):
        list(read_pairs(tmp_path / "a.po"))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("raw", "converted"), [("für".encode("latin-1"), "für"), ("a".encode("utf-32"), "a"), (b"a\rb", "a\nb")]
)
def test_the_command_of_a_hint_writes_a_file_that_can_be_read(tmp_path, raw, converted, packed):
    path = tmp_path / ("my text.txt" + ".gz" * packed)
    path.write_bytes(gzip.compress(raw, mtime=0) if packed else raw)
    with pytest.raises(TextError) as caught:
        list(read_lines(path))
    command = str(caught.value).partition("onvert it: ")[2]
    assert subprocess.run(["sh", "-c", command], check=True, capture_output=True).stdout == b""
    assert "\n".join(read_lines(path.with_name(f"utf8-{path.name}"))).lstrip("\ufeff") == converted


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ("中文翻译".encode("gb2312"), "found byte 0xD6, expected UTF-8. Save the file as UTF-8, or convert it"),
        ("привет".encode("cp1251"), "expected UTF-8. Save the file as UTF-8, or convert it"),
    ],
)
def test_an_encoding_is_not_guessed(tmp_path: Path, raw: bytes, hint: str) -> None:
    (tmp_path / "a.txt").write_bytes(raw)
    with pytest.raises(TextError) as caught:
        list(read_lines(tmp_path / "a.txt"))
    assert hint in str(caught.value)
