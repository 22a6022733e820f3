"""Writing files: whole or not at all, and never through a link that nobody named."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.files import (
    check_output,
    read_sealed_json,
    real_path,
    write_durably,
    write_output,
    write_sealed_json,
)


def write(path: Path, text: str = "new\n") -> None:
    with write_output(path) as stream:
        stream.write(text)


def test_what_is_replaced_keeps_its_permissions_and_an_error_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 255)
    path.write_text("old\n")
    path.chmod(0o640)
    write(path)
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(UnicodeEncodeError), write_durably(path) as stream:
        stream.writelines(["half", "\ud800"])
    assert path.read_text() == "new\n"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_link_that_a_person_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new\n"


def test_what_is_written_over_says_so(tmp_path: Path, monkeypatch, caplog) -> None:
    path = tmp_path / "file"
    path.write_text("old\n")
    monkeypatch.setattr(os, "access", lambda place, _: Path(place) != tmp_path)  # root may write everywhere
    inode = path.stat().st_ino
    check_output(path)
    write(path)
    assert (path.read_text(), path.stat().st_ino) == ("new\n", inode)
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: its directory takes no new files, so it is written over: a stop leaves half of it."
    ]


def test_devices_and_pipes_are_written_to_and_stay_what_they_are(tmp_path: Path) -> None:
    write(Path("/dev/null"))
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    program = "from pathlib import Path\nfrom glassformer.files import write_output\nwith write_output(Path('/dev/stdout')) as s: s.write('x')"
    with (tmp_path / "out").open("w") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "x"
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"))
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True) as reader:
        write(tmp_path / "pipe")
        assert reader.communicate()[0] == "new\n"


def test_a_loop_of_links_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert real_path(tmp_path / "loop").name == "loop"
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "loop" / "x")


def test_sealed_values_come_back_and_what_is_changed_is_named(tmp_path: Path) -> None:
    path, values = tmp_path / "values.json", {"b": [1, 2.5], "a": {"ü": None}}
    write_sealed_json(path, 3, values)
    assert list(json.loads(path.read_text())) == ["format", "b", "a", "sha256"]
    assert read_sealed_json(path, 3, 1000) == values
    whole = path.read_text()
    for text, message in (
        (whole.replace("2.5", "2.6"), "does not match its SHA-256 sum"),
        (whole.replace('"b"', '"c"'), "does not match its SHA-256 sum"),
        (whole.replace('"format": 3', '"format": 4'), "found format 4, but this version reads 3"),
        ("[]", "expected an object with format and sha256"),
        ('{"format": 3}', "expected an object with format and sha256"),
        (whole[:-2], "Unterminated string"),
        (whole + " " * 1000, "has more than 1,000 bytes"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_sealed_json(path, 3, 1000)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="is a symbolic link"):
        write_sealed_json(tmp_path / "link", 3, values)


def test_what_cannot_be_written_is_known_before_there_is_something_to_write(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("old")
    for name, message in (
        ("pipe", "is a pipe"), (".", "is a directory"), ("none/out", "No such file"), ("file/out", "Not a directory"),
    ):  # fmt: skip
        with pytest.raises(OSError, match=message):
            check_output(tmp_path / name)
    for place in (tmp_path / "file", tmp_path / "new", Path("/dev/null"), Path("/dev/stdout")):
        check_output(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pipe"]
    assert (tmp_path / "file").read_text() == "old"
