"""Checkpoints while processes are killed at each step of saving, and while others read what a training replaces."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from glassformer.checkpoint import prune, save_checkpoint, verify_checkpoint
from glassformer.errors import StorageError

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def report() -> dict[str, int]:
    """What ``saving.py`` did, without an error; in memory, where a training saves fastest."""
    memory = Path("/dev/shm")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as place:
        command = [sys.executable, str(HERE / "saving.py"), place]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_whenever_a_process_is_killed_the_old_or_the_new_checkpoint_is_whole(report: dict[str, int]) -> None:
    assert report["kills"] > 10
    assert report["standing_in"] > 0  # one was killed between two renames, and what it had written was adopted


def test_a_reader_finds_a_whole_checkpoint_while_a_training_saves(report: dict[str, int]) -> None:
    assert report["readings"] == 200
    assert report["saved"] > 10


def test_all_files_of_a_checkpoint_have_the_mode_of_an_ordinary_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        saved = save_checkpoint(tmp_path / "final", 1, {"model": {"weight": torch.zeros(2)}}, {})
    finally:
        os.umask(before)
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in saved.iterdir()} == dict.fromkeys(
        ("manifest.json", "model.safetensors", "state.json"), 0o640
    )


def test_a_series_that_is_a_link_is_not_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "final").symlink_to(outside)
    with pytest.raises(StorageError, match="is a symbolic link"):
        save_checkpoint(tmp_path / "final", 1, {}, {})
    assert not list(outside.iterdir())


def test_a_checkpoint_that_is_a_link_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    outside, series = tmp_path / "outside", tmp_path / "final"
    outside.mkdir()
    series.mkdir()
    (outside / "mine").write_text("dear to me")
    for update in (1, 2):
        (series / f"update-{update:08d}").symlink_to(outside)
    prune(save_checkpoint(series, 2, {"model": {}}, {}), keep=1)
    verify_checkpoint(series / "update-00000002")
    assert [path.name for path in series.iterdir()] == ["update-00000002"]
    assert (outside / "mine").read_text() == "dear to me"
