"""What stands in a run directory is read with care: no pipe, no device, no name that cannot be kept."""

import json
import os
import shutil
from pathlib import Path

import pytest

from glassformer.bundled import BUNDLED
from glassformer.config import ModelConfig, RunConfig
from glassformer.errors import ConfigError, RunError, StorageError, TokenizerError
from glassformer.run_directory import RunDirectory, pick_device


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
    with pytest.raises(RunError, match="has no valid checkpoint"):
        RunDirectory(run).load("cpu", said.append)
    assert "model.safetensors': is missing or damaged: is not a regular file." in said[0]


def test_a_tokenizer_that_is_a_pipe_is_refused(run: Path) -> None:
    (run / "tokenizer.src.json").unlink()
    os.mkfifo(run / "tokenizer.src.json")
    with pytest.raises(TokenizerError, match=r"tokenizer\.src\.json: cannot be read: is not a regular file"):
        RunDirectory(run).load("cpu")


@pytest.mark.parametrize("name", ["a\0b", "\udce4"])
def test_a_manifest_with_a_name_that_no_file_can_have_is_damage(run: Path, name: str) -> None:
    manifest = weights_of(run).parent / "manifest.json"
    found = json.loads(manifest.read_text())
    found["files"][name] = {"size": 1, "sha256": ""}
    manifest.write_text(json.dumps(found))
    said: list[str] = []
    with pytest.raises(RunError, match="has no valid checkpoint"):
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
