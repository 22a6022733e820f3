"""Many files, by processes that are killed and started again: each line is translated exactly once."""

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.cli.shards import translate_shards
from glassformer.cli.streams import read_file
from glassformer.errors import ConfigError, StorageError, TextError
from glassformer.files import hidden_names, lock_file, open_to_append

SHARDS = {"a.txt": ["one", "two", ""], "b.txt": ["three"], "c.txt.gz": ["four", "five"], "d.txt": []}

# Translates by turning lines round, slowly, and writes down each line that it has done.
SLOW = """
import sys, time
from pathlib import Path
from glassformer.cli.shards import translate_shards
from glassformer.cli.streams import read_file
done = open(sys.argv[3], "a")
def translate(shard):
    for line in read_file(shard):
        time.sleep(0.004)
        done.write(f"{shard.name} {line}\\n"); done.flush()
        yield line[::-1]
translate_shards(Path(sys.argv[1]), Path(sys.argv[2]), translate)
"""


@pytest.fixture
def shards(tmp_path) -> Path:
    (tmp_path / "in").mkdir()
    for name, lines in SHARDS.items():
        text = "".join(f"{line}\n" for line in lines).encode()
        (tmp_path / "in" / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return tmp_path / "in"


def lines_of(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


def turn_round(shard: Path):
    return (line[::-1] for line in lines_of(shard))


def test_each_shard_gets_a_file_of_its_name_and_form_and_finished_ones_are_skipped(shards, tmp_path, capsys):
    out, asked = tmp_path / "out", []

    def translate(shard: Path):
        asked.append(shard.name)
        return turn_round(shard)

    translate_shards(shards / "*.txt*", out, translate)
    assert {path.name: lines_of(path) for path in out.iterdir()} == {
        name: [line[::-1] for line in lines] for name, lines in SHARDS.items()
    }
    assert asked == sorted(SHARDS)
    (out / "b.txt").unlink()
    translate_shards(shards / "*.txt*", out, translate)
    assert asked == [*sorted(SHARDS), "b.txt"]
    assert capsys.readouterr().err.endswith(f"{out}: 1 of 4 shards translated now, 3 before.\n")
    assert sorted(os.listdir(out)) == sorted(SHARDS)


def test_an_error_leaves_finished_shards_and_no_half_one(shards, tmp_path):
    out = tmp_path / "out"

    def translate(shard: Path):
        yield "half"
        if shard.name == "b.txt":
            raise ConfigError("b is bad")

    with pytest.raises(ConfigError, match="b is bad"):
        translate_shards(shards / "*.txt", out, translate)
    assert [name for name in sorted(os.listdir(out)) if not name.startswith(".")] == ["a.txt"]
    translate_shards(shards / "*.txt", out, turn_round)
    assert sorted(os.listdir(out)) == ["a.txt", "b.txt", "d.txt"]
    assert lines_of(out / "b.txt") == ["eerht"]


def test_after_an_error_in_the_text_the_lock_is_free_only_when_the_half_file_is_gone(shards, tmp_path, monkeypatch):
    out, delete = tmp_path / "out", Path.unlink
    lock, unfinished = (out / name for name in hidden_names("a.txt"))
    seen = []

    def pause(path: Path, **more) -> None:
        if path == unfinished and path.exists():  # here another process looks for work
            with open_to_append(lock) as other, pytest.raises(BlockingIOError):
                lock_file(other)
            seen.append(path)
        delete(path, **more)

    def translate(shard: Path):
        yield "half"
        if shard.name == "a.txt":
            raise TextError("a is bad")

    monkeypatch.setattr(Path, "unlink", pause)
    with pytest.raises(TextError, match="1 of 3 shards cannot be read"):
        translate_shards(shards / "*.txt", out, translate)
    assert seen == [unfinished]
    assert sorted(os.listdir(out)) == ["b.txt", "d.txt"]


def test_a_shard_in_the_hands_of_another_process_is_left_to_it(shards, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    with open_to_append(out / hidden_names("a.txt")[0]) as held:
        lock_file(held)
        translate_shards(shards / "*.txt", out, turn_round)
    assert capsys.readouterr().err.endswith(
        "2 of 3 shards translated now, 0 before, 1 in the hands of other processes.\n"
    )
    assert not (out / "a.txt").exists()
    translate_shards(shards / "*.txt", out, turn_round)  # the other process has ended without finishing it
    assert lines_of(out / "a.txt") == ["eno", "owt", ""]


def test_a_shard_that_cannot_be_read_leaves_the_others_to_be_translated(shards, tmp_path, capsys):
    (shards / "c.txt.gz").write_bytes((shards / "c.txt.gz").read_bytes()[:-9])
    (shards / "x.txt").symlink_to("nowhere")

    def translate(shard: Path):
        return (line[::-1] for line in read_file(shard))

    for before in (0, 3):
        with pytest.raises(TextError, match=r"in/c\.txt\.gz, \S*in/x\.txt: 2 of 5 shards cannot be read"):
            translate_shards(shards / "*.txt*", tmp_path / "out", translate)
        said = capsys.readouterr().err
        assert f"error: {shards}/c.txt.gz" in said
        assert f"{3 - before} of 5 shards translated now, {before} before" in said
        assert sorted(os.listdir(tmp_path / "out")) == ["a.txt", "b.txt", "d.txt"]


def test_the_same_command_is_right_again_where_the_pattern_reaches_into_the_output(shards, capsys):
    for before in (0, 4):
        translate_shards(shards / "**" / "*.txt*", shards / "out", turn_round)
        assert f"{4 - before} of 4 shards translated now, {before} before" in capsys.readouterr().err


def test_a_name_may_be_as_long_as_the_system_allows(shards, tmp_path):
    name = "n" * 251 + ".txt"
    (shards / name).write_text("one\n")
    translate_shards(shards / "n*", tmp_path / "out", turn_round)
    assert lines_of(tmp_path / "out" / name) == ["eno"]


@pytest.mark.parametrize("option", ["--stream", "--attention"])
def test_what_is_shown_while_it_is_made_goes_not_with_shards(shards, tmp_path, option):
    result = CliRunner().invoke(
        app, ["translate", "--input", str(shards / "*.txt"), "--out", str(tmp_path / "out"), option]
    )
    assert isinstance(result.exception, ConfigError)
    assert f"{option}: found with a pattern of files" in str(result.exception)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
def test_killed_processes_that_are_started_again_translate_each_line_once(tmp_path):
    (tmp_path / "in").mkdir()
    texts = {f"{shard:02}.txt": [f"shard {shard} line {line}" for line in range(40)] for shard in range(12)}
    for name, lines in texts.items():
        (tmp_path / "in" / name).write_text("".join(f"{line}\n" for line in lines))
    script, out, log = tmp_path / "slow.py", tmp_path / "out", tmp_path / "done"
    script.write_text(SLOW)

    def start() -> subprocess.Popen:
        arguments = [sys.executable, script, tmp_path / "in" / "*.txt", out, log]
        return subprocess.Popen(arguments, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2])

    deadline = time.monotonic() + 240
    running = [start(), start()]
    for kills in (2, 5, 9):  # kill one of two each time that some more shards are finished
        while len([*out.glob("*.txt")]) < kills and time.monotonic() < deadline:
            time.sleep(0.01)
        victim = running.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        finished = {path: path.stat().st_ino for path in out.glob("*.txt")}
        assert all(len(lines_of(path)) == 40 for path in finished)
        running.append(start())
    for process in running:
        process.wait()
    start().wait()
    assert all(path.stat().st_ino == inode for path, inode in finished.items())  # not written again
    assert {path.name: lines_of(path) for path in out.glob("*")} == {
        name: [line[::-1] for line in lines] for name, lines in texts.items()
    }
    assert sorted(os.listdir(out)) == sorted(texts)


@pytest.mark.parametrize(
    ("pattern", "out", "message"),
    [
        ("*.xyz", "out", "matches no file, expected at least one"),
        ("*", "in", "is where the shards are, expected another directory"),
        ("*.txt", "in/a.txt", "is a file, expected a directory"),
        ("**/a.txt", "out", "matches two files named a.txt"),
        ("*.po", "out", "is a .po file, whose lines are no texts"),
    ],
)
def test_what_cannot_be_meant_is_refused(shards, tmp_path, pattern, out, message):
    (shards / "more").mkdir()
    (shards / "more" / "a.txt").write_text("x\n")
    if pattern == "*.po":
        (shards / "app.po").write_text("")
    with pytest.raises(ConfigError, match=message):
        translate_shards(shards / pattern, tmp_path / out, turn_round)


def test_a_directory_that_cannot_be_made_is_an_error(shards, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        translate_shards(shards / "*.txt", tmp_path / "file" / "out", turn_round)


@pytest.mark.slow
def test_the_command_writes_what_it_prints_for_each_file(shards, tmp_path):
    short = ["--max-length-a", "0", "--max-length-b", "4", "--beam", "1"]

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["translate", *arguments, *short])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert call("--input", str(shards / "[ab].txt"), "--out", str(tmp_path / "out")) == ""
    for name in ("a.txt", "b.txt"):
        assert (tmp_path / "out" / name).read_text() == call("--input", str(shards / name))
    (shards / "e.txt").write_text("big tree " * 900 + "\n")
    cut = CliRunner().invoke(
        app, ["translate", "--input", str(shards / "e*.txt"), "--out", str(tmp_path / "out"), *short]
    )
    assert f"warning: {shards}/e.txt:1: is longer than the model takes" in cut.stderr
    alone = CliRunner().invoke(app, ["translate", "--input", str(shards / "*.txt")])
    assert isinstance(alone.exception, ConfigError)
    assert "is a pattern of files, found without --out" in str(alone.exception)
