"""What stands in a run directory is read with care: no pipe, no device, no name that cannot be kept."""

import json
import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from glassformer.bundled import BUNDLED
from glassformer.errors import CheckpointError, ConfigError, RunError, StorageError, TokenizerError
from glassformer.run_directory import RunDirectory, pick_device
from glassformer.settings import ModelConfig, RunConfig
from glassformer.training.reporting.run_log import Display, RunLog
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import TaskSource
from glassformer.training.train import train


@cache
def dates() -> TaskSource:
    """What the trainings that are refused would train on."""
    return TaskSource.load("dates")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of the bundled run."""
    return Path(shutil.copytree(BUNDLED, tmp_path / "run"))


def weights_of(run: Path) -> Path:
    (found,) = run.glob("final/update-*/model.safetensors")
    return found


@pytest.mark.parametrize("endless", ["pipe", "device"])
def test_weights_that_could_be_read_for_ever_are_damaged(run: Path, endless: str) -> None:
    weights = weights_of(run)
    weights.unlink()
    os.mkfifo(weights) if endless == "pipe" else weights.symlink_to("/dev/zero")
    said: list[str] = []
    with pytest.raises(CheckpointError, match="has no valid checkpoint to use"):
        RunDirectory(run).load("cpu", said.append)
    assert "model.safetensors: is damaged" in said[0]


def test_a_tokenizer_that_is_a_pipe_is_refused(run: Path) -> None:
    (run / "tokenizer.src.json").unlink()
    os.mkfifo(run / "tokenizer.src.json")
    with pytest.raises(TokenizerError, match=r"tokenizer\.src\.json: cannot be read: is a pipe or a device"):
        RunDirectory(run).load("cpu")


@pytest.mark.parametrize("name", ["a\0b", "\udce4"])
def test_a_manifest_with_a_name_that_no_file_can_have_is_damage(run: Path, name: str) -> None:
    manifest = weights_of(run).parent / "manifest.json"
    found = json.loads(manifest.read_text())
    found["files"][name] = {"size": 1, "sha256": ""}
    manifest.write_text(json.dumps(found))
    said: list[str] = []
    with pytest.raises(CheckpointError, match="has no valid checkpoint to use"):
        RunDirectory(run).load("cpu", said.append)
    assert "is missing or damaged" in said[0]


def test_a_wrong_setting_is_told_with_its_file(run: Path) -> None:
    place = run / "config.json"
    place.write_text(place.read_text().replace('"norm": "pre"', '"norm": "middle"'))
    with pytest.raises(ConfigError, match=r"run/config.json: model.norm: found 'middle'"):
        RunDirectory(run).load("cpu")


def test_a_run_is_made_where_checkpoints_can_be_read_again(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"is not UTF-8, as checkpoints need"):
        RunDirectory(tmp_path / "r\udce4").create()
    run = RunDirectory(tmp_path / "run")
    run.create()
    config = RunConfig(model=ModelConfig.tiny())
    run.write_config(config, {"files": ["q\udce4.tsv"]})
    assert run.read_config() == (config, {"files": ["q\udce4.tsv"]})


def test_a_device_whose_module_is_not_there_is_not_available() -> None:
    with pytest.raises(ConfigError, match="'privateuseone' is not available here"):
        pick_device("privateuseone")


def contents(place: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(place)): None if path.is_dir() or path.is_symlink() else path.read_text()
        for path in sorted(place.rglob("*"))
    }


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["thesis.tex"], "holds 'thesis.tex', which no training wrote"),
        ([".notes.writing"], "holds '.notes.writing', which no training wrote"),
        (["a", "b", "c", "d"], "holds 'a', 'b', 'c' and more, which"),
        (["train.log", "metrics.jsonl"], "holds 'metrics.jsonl', 'train.log', which"),  # of another program: no lock
        (["final/update-00000001/model.safetensors", "tokenizer.src.json"], "holds checkpoints but no config.json"),
    ],
)
@pytest.mark.slow
def test_a_directory_that_no_training_wrote_is_refused_before_a_byte_is_written(tmp_path, files, said):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("dear to me")
    before = contents(tmp_path)
    with pytest.raises(RunError, match=said):
        train(TrainRequest(tmp_path, dates(), RunConfig(model=ModelConfig.tiny())), Display())
    assert contents(tmp_path) == before


OWN = ["config.json", "tokenizer.tgt.json", ".lock", "metrics.jsonl", "train.log", "text", "tensorboard"]


@pytest.mark.parametrize("name", [*OWN, "latest", "history", "best", "best-loss", "final"])
def test_a_link_in_a_run_is_refused_before_a_byte_is_written(tmp_path: Path, name: str) -> None:
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    run.mkdir()
    (outside / "mine").write_text("dear to me")
    (run / name).symlink_to(outside if "." not in name else outside / "mine")
    before = contents(tmp_path)
    with pytest.raises(RunError, match=f"run/{name}: is a symbolic link, expected a part of the run itself"):
        train(TrainRequest(run, dates(), RunConfig(model=ModelConfig.tiny())), Display())
    assert contents(tmp_path) == before


def test_no_writer_follows_a_link_that_appears_later(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("dear to me")
    for name in (".lock", "train.log", "config.json"):
        (tmp_path / name).symlink_to(mine)
    run = RunDirectory(tmp_path)
    with pytest.raises(StorageError, match=r"\.lock: cannot be written: is a symbolic link"), run.lock():
        pass
    with pytest.raises(StorageError, match="its log cannot be written: is a symbolic link"):
        RunLog(run, Display(), tensorboard=False)
    run.create()
    run.write_config(RunConfig(model=ModelConfig.tiny()), {})
    assert mine.read_text() == "dear to me"
    assert not (tmp_path / "config.json").is_symlink()


def test_a_lock_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    run = RunDirectory(tmp_path)
    with pytest.raises(StorageError, match=r"\.lock: cannot be written: is not a regular file"), run.lock():
        pass


def test_a_run_as_a_whole_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    run = RunDirectory(tmp_path / "run")
    run.check_writable()
    run.create()
