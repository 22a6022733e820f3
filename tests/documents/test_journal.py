"""A translation of a file that is stopped goes on where it was, to what one that was never stopped writes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.decoding.translation import EMPTY, Translation
from glassformer.documents import DocumentReport, FileTranslator, Glossary, journal
from glassformer.documents.glossary import Term
from glassformer.errors import StorageError
from glassformer.files import hidden_names, lock_file, open_to_append
from glassformer.text.codes.code import Code, Parts, join_parts

TEXTS, PER_CHUNK = 20, 3
COMMANDS_CHUNK = journal.TEXTS_PER_CHUNK  # in a process of its own
CHUNKS = -(-TEXTS // PER_CHUNK)


class Stop(BaseException):
    """Ends the process, as a kill does."""


class Shouter(FileTranslator):
    """Says each text in capitals, with a flag, a note and its tags; stops before the chunk of number ``stop``."""

    stop = CHUNKS
    done = 0

    def translate_texts(self, texts: Sequence[Parts]) -> list[Translation]:
        if self.done == self.stop:
            raise Stop
        self.done += 1
        return [_shout(parts) for parts in texts]


def _shout(parts: Parts) -> Translation:
    loud = tuple(each if isinstance(each, Code) else each.upper() for each in parts)
    best = replace(EMPTY, text=join_parts(loud), parts=loud)
    return Translation(join_parts(parts), [], False, [best], flags=("loud",), notes=("a note",))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "TEXTS_PER_CHUNK", PER_CHUNK)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "in.html"
    path.write_text("".join(f"<p>the <b>house</b> {number} &amp; \N{SNOWMAN}</p>\n" for number in range(TEXTS)))
    return path


def translate(page: Path, stop: int = CHUNKS, key: str | None = "a", **more) -> tuple[int, DocumentReport | None]:
    """How many chunks were translated, and the report, if it came to that."""
    files, report = Shouter(None, key=key, **more), None  # type: ignore[arg-type]
    files.stop = stop
    with suppress(Stop):
        report = files.translate(page, page.with_name("out.html"))
    return files.done, report


def hidden(page: Path) -> Path:
    return page.with_name(hidden_names("out.html")[1])


@pytest.fixture
def whole(page: Path) -> tuple[str, DocumentReport]:
    """What is written and reported without a stop."""
    _, report = translate(page, key=None)
    assert report is not None
    return page.with_name("out.html").read_text(), report


@pytest.mark.parametrize("stop", range(CHUNKS))
def test_a_stopped_translation_goes_on_to_the_same_file_and_report(page, whole, stop: int) -> None:
    out = page.with_name("out.html")
    out.write_text("before")
    translate(page, stop)
    assert out.read_text() == "before"
    assert hidden(page).exists() == (stop > 0)
    done, report = translate(page)
    assert done == CHUNKS - stop
    assert report is not None
    assert report.resumed == stop * PER_CHUNK
    report.resumed = 0
    assert (out.read_text(), report) == whole
    assert sorted(os.listdir(page.parent)) == ["in.html", "out.html"]


def test_every_stop_of_many_adds_to_what_is_done(page, whole) -> None:
    for stop in range(1, CHUNKS):
        assert translate(page, stop=1) == (1, None), stop
    assert translate(page)[0] == 1
    assert page.with_name("out.html").read_text() == whole[0]


def test_another_text_model_or_glossary_takes_nothing_of_it(page, whole) -> None:
    glossary = Glossary([Term("house", ("Haus",))])
    for more in ({"key": "b"}, {"glossary": glossary}, {}):
        translate(page, stop=4)
        if not more:
            page.write_text(page.read_text().replace("house", "tree", 1))
        assert translate(page, **more)[0] == CHUNKS
    assert page.with_name("out.html").read_text() == whole[0].replace("HOUSE", "TREE", 1)


def damage(content: bytes, how: str) -> bytes:
    lines = content.splitlines(keepends=True)
    if how == "cut":
        return content[:-9]
    if how == "other results":
        lines[1] = lines[1].replace(b"HOUSE", b"MOUSE", 1)
    if how == "another order":
        lines[1], lines[2] = lines[2], lines[1]
    if how == "no results":
        lines[1] = json.dumps([1, 2]).encode() + b"\n"
    if how == "nested":
        lines[1] = b"[" * 100_000 + b"\n"
    if how == "no text":
        lines[1] = b"\xff\x00\n"
    return b"".join(lines)


@pytest.mark.parametrize("how", ["cut", "other results", "another order", "no results", "nested", "no text"])
def test_what_is_damaged_is_translated_again(page, whole, how: str) -> None:
    translate(page, stop=5)
    hidden(page).write_bytes(damage(hidden(page).read_bytes(), how))
    kept = 4 if how == "cut" else 1
    assert translate(page)[0] == CHUNKS - kept
    assert page.with_name("out.html").read_text() == whole[0]


@pytest.mark.parametrize("content", [b"", b"\0" * 90, b"text\n" * 9])
def test_a_foreign_file_in_its_place_is_no_obstacle(page, whole, content: bytes) -> None:
    hidden(page).write_bytes(content)
    translate(page)
    assert page.with_name("out.html").read_text() == whole[0]
    assert not hidden(page).exists()


def test_a_directory_or_a_link_in_its_place_is_refused_and_left_alone(page, tmp_path) -> None:
    (tmp_path / "other").write_text("not yours")
    for make in (lambda place: place.mkdir(), lambda place: place.symlink_to(tmp_path / "other")):
        make(hidden(page))
        with pytest.raises(StorageError, match="cannot be written"):
            translate(page)
        hidden(page).rmdir() if hidden(page).is_dir() else hidden(page).unlink()
    assert (tmp_path / "other").read_text() == "not yours"


def test_two_processes_do_not_write_one_file(page) -> None:
    with open_to_append(hidden(page)) as held:
        lock_file(held)
        with pytest.raises(StorageError, match=r"/out\.html: another process translates to it"):
            translate(page)
        assert hidden(page).exists()


def test_nothing_is_kept_where_the_output_is_no_file_of_its_own(page, capfdbinary) -> None:
    Shouter(None, key="a").translate(page, Path("/dev/stdout"))  # type: ignore[arg-type]
    assert b"<b>HOUSE</b>" in capfdbinary.readouterr().out
    assert sorted(os.listdir(page.parent)) == ["in.html"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
def test_a_killed_command_goes_on_with_the_same_command(tmp_path) -> None:
    path, out = tmp_path / "in.txt", tmp_path / "out.txt"
    path.write_text("".join(f"The man buys {number} <b>old</b> books.\n" for number in range(5 * COMMANDS_CHUNK)))
    words = [sys.executable, "-m", "glassformer", "translate", "--input", path, "--beam", "1", "--out"]

    def run(*more: object) -> str:
        return subprocess.run([*words, *more], capture_output=True, text=True, check=True).stderr

    run(tmp_path / "whole.txt")
    place = out.with_name(hidden_names("out.txt")[1])
    for chunks in (1, 3):
        process = subprocess.Popen([*words, out], stderr=subprocess.DEVNULL)
        while not place.exists() or len(place.read_bytes().splitlines()) < chunks:
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not out.exists()
    assert f"after {3 * COMMANDS_CHUNK:,} texts that were translated before a stop" in run(out)
    assert out.read_text() == (tmp_path / "whole.txt").read_text()
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt", "whole.txt"]
