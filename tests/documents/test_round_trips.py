"""Files of other programs: each is read, or refused in words, and one that is translated into itself stays as it is.

The files are not part of the project (``../shared``): where they are absent these tests are skipped.
"""

import re
import warnings
from itertools import pairwise
from pathlib import Path

import pytest
from test_codes import Permuting

from glassformer.documents import FileTranslator
from glassformer.documents.translate_file import find_segments
from glassformer.errors import TextError
from glassformer.text.corpus.corpus import describe_pairs, read_pairs
from glassformer.text.formats import FormatOptions, find_format
from glassformer.text.formats.encodings import read_text
from glassformer.text.lines import normalize_source

SHARED = Path(__file__).parents[3] / "shared"
CASES, FILES = SHARED / "cases", SHARED / "data" / "files"
# Files that are to be refused, and why.
DAMAGED = {
    "17e-ctrl.tmx": "not well-formed", "20-odd-lines.txt": "NUL byte", "32g-utf16nobom.tsv": "UTF-16", "32h-cr.tsv": "",
    "32o-jsonarray.jsonl": "not an object", "32p-pretty.jsonl": "is not JSON", "32r-keys.jsonl": "no text to translate",
    "32s-multi.jsonl": "no text to translate", "09-de-first.jsonl": "no text to translate", "12.tsv": "Double each mark", "32u-zip.tsv": "looks binary",
    "computer_science_article.csv": "convert it: iconv -f WINDOWS-1252", "gb2312.srt": "from the encoding that it has",
    "testContent_escaped.csv": "Double each mark", "test_ignore_IBM420.html": "looks binary",
}  # fmt: skip


def files_of(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    known = [path for path in found if find_format(path).segments or find_format(path, packed=True).pairs]
    return [path for path in known if path.name != "README.md"] or [folder / "absent"]


def is_between(pieces: list[str], text: str) -> bool:
    """Whether the text has these pieces in their order, the first and the last at its ends."""
    place = 0
    for piece in pieces:
        place = text.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return text.startswith(pieces[0]) and text.endswith(pieces[-1])


def check_round_trip(path: Path, folder: Path) -> None:
    """A file that is translated into itself has the same bytes, or the same outside of what is filled."""
    file_format, out = find_format(path), folder / f"out{path.suffix}"
    options = FormatOptions(language="de")
    if path.name in DAMAGED:
        with pytest.raises(TextError, match=rf"{path.name}.*{DAMAGED[path.name]}"):
            FileTranslator(Permuting(None)).translate(path, out, options)
        assert not out.exists()
        return
    report = FileTranslator(Permuting(None)).translate(path, out, options)
    assert [one for one in report.flagged if "left as it was" in one.remark] == []
    if not file_format.is_bilingual:
        assert out.read_bytes() == path.read_bytes()
        return
    body, filled = (read_text(each, file_format.charset)[0].removeprefix("\ufeff") for each in (path, out))
    segments = find_segments(path, options)(body)
    edits = sorted(
        (edit for one in segments if one.text.strip() for edit in one.edits(one.parts)), key=lambda e: e[:2]
    )
    spans = pairwise([(0, 0), *((edit.start, edit.end) for edit in edits), (len(body), len(body))])
    assert is_between([body[end:start] for (_, end), (start, _) in spans], filled)
    assert (filled == body) == (report.segments == 0)


MARK = "\u2c76"  # a letter that no file has


def simplify(text: str) -> str:
    """A text without what may change: the mark of translated words, where lines break, and signs that escape others."""
    return re.sub(r"\\(?=[!-/:-@\[-`{-~])", "", normalize_source(text.replace(MARK, "")))


def check_marked_words(path: Path, folder: Path) -> None:
    """With a mark at each word all else is what it was, in its order, or the text is flagged."""
    out, options = folder / f"marked{path.suffix}", FormatOptions(language="de")
    report = FileTranslator(Permuting(None, MARK)).translate(path, out, options)
    flagged = {one.line for one in report.flagged}
    before, after = (
        [
            one
            for one in find_segments(path, options)(read_text(each, find_format(path).charset)[0])
            if one.text.strip()
        ]
        for each in (path, out)
    )
    for source, output in zip(before, after, strict=True):
        if source.line not in flagged:
            assert simplify(output.text) == simplify(source.text), f"{path.name}:{source.line}"


def check_pairs(path: Path) -> None:
    """Pairs are read and it is said from where, or the file is refused with its place."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of openpyxl
            pairs = list(read_pairs(path))
            assert (
                describe_pairs(path) is not None or not pairs or path.suffix not in (".tsv", ".csv", ".xlsx", ".tmx")
            )
    except TextError as error:
        if not str(error).startswith(str(path)):
            raise


def check(path: Path, folder: Path) -> None:
    if not path.is_file():
        pytest.skip(f"no {path.parent} here")
    if find_format(path).segments is not None:
        check_round_trip(path, folder)
    if find_format(path, packed=True).pairs is not None:
        check_pairs(path)


@pytest.mark.parametrize("path", files_of(CASES), ids=lambda path: path.name)
def test_small_files_that_people_reported_are_read_and_stay_what_they_are(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("path", files_of(FILES), ids=lambda path: path.name)
def test_files_of_other_programs_keep_all_but_the_words(path: Path, tmp_path: Path) -> None:
    if not path.is_file():
        pytest.skip(f"no {path.parent} here")
    file_format = find_format(path)
    if file_format.segments is not None and not file_format.is_bilingual and path.name not in DAMAGED:
        check_marked_words(path, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("path", files_of(FILES), ids=lambda path: path.name)
def test_files_of_other_programs_are_read_and_stay_what_they_are(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)
