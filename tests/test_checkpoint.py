"""Checkpoints while processes are killed at each step of saving, and while others read what a training replaces."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from examples.bundled.int8_rows import quantize_rows
from glassformer.bundled import BUNDLED
from glassformer.checkpoint import (
    check_shapes,
    load_weights,
    prune,
    read_json,
    read_tensors,
    save_checkpoint,
    verify_checkpoint,
    weights_of,
)
from glassformer.errors import CheckpointError, StorageError
from glassformer.run_directory import WEIGHTS, RunDirectory

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


@pytest.mark.slow
def test_whenever_a_process_is_killed_the_old_or_the_new_checkpoint_is_whole(report: dict[str, int]) -> None:
    assert report["kills"] > 10
    assert report["standing_in"] > 0  # one was killed between two renames, and what it had written was adopted


@pytest.mark.slow
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


MATRIX = {"w": (5, 7), "bias": (5,)}


@pytest.fixture
def whole(tmp_path: Path) -> tuple[dict[str, Tensor], Path]:
    """Weights, and a checkpoint that holds them as int8 rows."""
    weights = {"w": torch.randn(5, 7) * torch.tensor([1e-3, 1.0, 0.0, 50.0, 1e4])[:, None], "bias": torch.randn(5)}
    return weights, save_checkpoint(tmp_path / "final", 3, {WEIGHTS: quantize_rows(weights)}, {})


def test_int8_rows_are_read_as_float32_no_further_off_than_half_a_step(whole: tuple[dict[str, Tensor], Path]) -> None:
    weights, checkpoint = whole
    verify_checkpoint(checkpoint)
    check_shapes(checkpoint, WEIGHTS, MATRIX)
    stored, found = load_file(checkpoint / f"{WEIGHTS}.safetensors"), read_tensors(checkpoint, WEIGHTS)
    assert (stored["w"].dtype, stored["scale/w"].dtype, stored["bias"].dtype) == (
        torch.int8, torch.float32, torch.float32,
    )  # fmt: skip
    assert found.keys() == weights.keys()
    assert torch.equal(found["bias"], weights["bias"])
    step = weights["w"].abs().amax(dim=1, keepdim=True) / 127
    assert bool(((found["w"] - weights["w"]).abs() <= 0.501 * step).all())
    assert torch.equal(found["w"][2], torch.zeros(7))
    assert torch.allclose(found["w"].abs().amax(dim=1), weights["w"].abs().amax(dim=1))
    # Rounded once, nothing changes when it is rounded again.
    assert torch.equal(quantize_rows(found)["w"], stored["w"])


def test_only_a_checkpoint_with_int8_rows_has_the_new_format(tmp_path: Path) -> None:
    plain = save_checkpoint(tmp_path / "final", 1, {WEIGHTS: {"w": torch.ones(2, 2)}}, {})
    rounded = save_checkpoint(tmp_path / "final", 2, {WEIGHTS: quantize_rows({"w": torch.ones(2, 2)})}, {})
    assert [read_json(one / "manifest.json")["format"] for one in (plain, rounded)] == [1, 2]
    manifest = rounded / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 3'))
    with pytest.raises(CheckpointError, match="found format 3, expected 1 or 2"):
        verify_checkpoint(rounded)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scale/w", None, "w holds torch.int8, expected floating-point numbers"),
        ("scale/w", torch.ones(4), "scale/w does not fit w, expected a matrix of int8 and a float32 for each row"),
        ("scale/w", torch.ones(5, dtype=torch.float64), "scale/w does not fit w"),
        ("w", torch.ones(5, 7), "scale/w does not fit w"),
        ("bias", torch.ones(5, dtype=torch.int8), "bias holds torch.int8"),
        ("scale/other", torch.ones(5), "scale/other does not fit other"),
        ("w", torch.ones(6, 7, dtype=torch.int8), r"w is \(6, 7\), the configuration says \(5, 7\)"),
    ],
)
def test_int8_rows_of_another_form_are_refused(whole, name, value, message):
    _, checkpoint = whole
    path = checkpoint / f"{WEIGHTS}.safetensors"
    stored = load_file(path)
    if value is None:
        del stored[name]
    else:
        stored[name] = value
    save_file(stored, path)
    model = torch.nn.Module()
    for key, shape in MATRIX.items():
        model.register_parameter(key, torch.nn.Parameter(torch.zeros(shape)))

    def load() -> None:
        check_shapes(checkpoint, WEIGHTS, MATRIX)
        load_weights(model, read_tensors(checkpoint, WEIGHTS), checkpoint)

    with pytest.raises(CheckpointError, match=message):
        load()


def test_rows_that_int8_cannot_hold_are_not_rounded() -> None:
    with pytest.raises(ValueError, match="w: has a value that is not finite"):
        quantize_rows({"w": torch.tensor([[1.0, torch.inf]])})


def test_a_run_with_int8_rows_loads_like_any_other(tmp_path: Path) -> None:
    run = Path(shutil.copytree(BUNDLED, tmp_path / "run"))
    (checkpoint,) = (run / "final").iterdir()
    state, weights = read_json(checkpoint / "state.json"), read_tensors(checkpoint, WEIGHTS)
    size = (checkpoint / f"{WEIGHTS}.safetensors").stat().st_size
    saved = save_checkpoint(run / "final", int(checkpoint.name[-8:]), {WEIGHTS: quantize_rows(weights)}, state)
    numbers = sum(weight.numel() for weight in weights.values())
    assert numbers < (saved / f"{WEIGHTS}.safetensors").stat().st_size < min(1.15 * numbers, size + 1)
    loaded = weights_of(RunDirectory(run).load("cpu").model)
    for name, weight in weights.items():
        assert loaded[name].dtype == torch.float32
        step = weight.float().abs().max() / 127
        assert float((loaded[name] - weight.float()).abs().max()) <= 0.51 * step, name
