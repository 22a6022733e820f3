"""Model directories that somebody crafted: each is refused in words, before memory is taken for it."""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import Translator
from glassformer.bundled import BUNDLED
from glassformer.checkpoint import MANIFEST, check_shapes, checkpoints, read_tensors
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.files import LARGEST_HEADER, sha256
from glassformer.interop.shortlist import read_shortlist
from glassformer.interop.transformers import _read_weights
from glassformer.run_directory import RunDirectory
from glassformer.trace import Trace
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.reporting.report import read_metrics

MAX_MEMORY_MB = 1500  # PyTorch itself takes some 300
LITTLE_MEMORY = 200_000_000  # bytes
ENDLESS = 300_000_000  # bytes of a file that take no room on the disk, and more than LITTLE_MEMORY if they are read


@pytest.fixture
def crafted(tmp_path: Path) -> Path:
    """A copy of the bundled model, which a test may spoil."""
    return Path(shutil.copytree(BUNDLED, tmp_path / "run"))


def final_of(run: Path) -> Path:
    return checkpoints(run / "final")[-1]


def reseal(run: Path) -> None:
    """Write a manifest that fits whatever the files hold now."""
    final = final_of(run)
    files = [path for path in final.iterdir() if path.name != MANIFEST]
    sums = {path.name: {"sha256": sha256(path), "size": path.stat().st_size} for path in files}
    manifest = json.loads((final / MANIFEST).read_text())
    (final / MANIFEST).write_text(json.dumps({**manifest, "files": sums}))


def change_config(run: Path, **model: Any) -> None:
    """Other settings of the model, in config.json and, resealed, in the checkpoint's state."""
    document = json.loads((run / "config.json").read_text())
    document["config"]["model"] |= model
    (run / "config.json").write_text(json.dumps(document))
    state = json.loads((final_of(run) / "state.json").read_text())
    if "model" in state:
        state["model"] |= model
        (final_of(run) / "state.json").write_text(json.dumps(state))
        reseal(run)


def change_weights(run: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    file = final_of(run) / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file)
    reseal(run)


OTHER_SIZES: list[tuple[dict[str, Any], str]] = [
    ({"d_model": 2**16, "d_k": 2**14, "d_v": 2**14}, "the configuration says"),
    ({"d_ff": 10**6}, "the configuration says"),
    ({"n_encoder_layers": 900}, "weights differ"),
    ({"max_length": 1_000_000}, "tables of positions take"),
    ({"positions": "learned", "max_length": 1_000_000}, "weights differ"),
]


@pytest.mark.slow
def test_configurations_of_other_sizes_are_refused_without_taking_their_memory(tmp_path: Path) -> None:
    runs = [tmp_path / str(number) for number in range(len(OTHER_SIZES))]
    for run, (settings, _) in zip(runs, OTHER_SIZES, strict=True):
        shutil.copytree(BUNDLED, run)
        change_config(run, **settings)
    program = (
        "import sys\nfrom pathlib import Path\nfrom glassformer import Translator\nfrom glassformer.errors import CheckpointError\n"
        "for run in sys.argv[1:]:\n"
        "    try:\n        Translator.load(run)\n"
        "    except CheckpointError as error:\n        print(' '.join(str(error).split()))\n"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"  # ru_maxrss is the parent's
    )
    done = subprocess.run([sys.executable, "-c", program, *runs], capture_output=True, text=True, check=True)
    *messages, memory_kb = done.stdout.splitlines()
    for message, (_, expected) in zip(messages, OTHER_SIZES, strict=True):
        assert expected in message
    assert int(memory_kb) < 1000 * MAX_MEMORY_MB


@pytest.mark.slow
def test_weights_that_are_no_floats_or_have_other_names_are_refused(crafted: Path) -> None:
    name = "encoder.final_norm.gain"

    def to_integers(weights: dict[str, torch.Tensor]) -> None:
        weights[name] = weights[name].to(torch.int64)

    change_weights(crafted, to_integers)
    with pytest.raises(CheckpointError, match=f"{name} holds torch.int64, expected floating-point numbers"):
        Translator.load(crafted)
    change_weights(crafted, lambda weights: weights.update(more=torch.zeros(1)))
    with pytest.raises(CheckpointError, match="1 weights differ, the first is more"):
        Translator.load(crafted)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_every_command(crafted: Path, value: float) -> None:
    name = "encoder.final_norm.gain"
    change_weights(crafted, lambda weights: weights[name].fill_(value))
    with pytest.raises(CheckpointError, match=f"{name} holds values that are not finite"):
        Translator.load(crafted)


def test_a_run_whose_checkpoints_are_all_damaged_is_said_to_be_so(crafted: Path) -> None:
    with (final_of(crafted) / "model.safetensors").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(CheckpointError, match="no valid checkpoint to use: those that it has are damaged") as raised:
        Translator.load(crafted)
    assert raised.value.exit_code == 4


def test_a_manifest_of_nothing_does_not_verify(crafted: Path) -> None:
    manifest = final_of(crafted) / MANIFEST
    for names in ([], ["state.json"], ["model.safetensors"]):
        full = json.loads((BUNDLED / manifest.relative_to(crafted)).read_text())
        full["files"] = {name: full["files"][name] for name in names}
        manifest.write_text(json.dumps(full))
        with pytest.raises(GlassformerError, match="no valid checkpoint"):
            Translator.load(crafted)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.src.json", "final/*/model.safetensors", "final/*/manifest.json"]
)
def test_a_pipe_in_the_place_of_a_file_does_not_hang(name: str, crafted: Path) -> None:
    (file,) = crafted.glob(name)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(GlassformerError):
        Translator.load(crafted)


@pytest.mark.parametrize("name", ["config.json", "final/*/manifest.json", "final/*/state.json", "shortlist.json"])
def test_json_without_end_is_refused_before_it_is_read(name: str, crafted: Path, caplog: Any) -> None:
    file = next(crafted.glob(name), crafted / name)
    with file.open("ab") as stream:
        stream.truncate(ENDLESS)
    if "state" in name:
        reseal(crafted)
    with little_memory(), pytest.raises(CheckpointError) as raised:
        read_shortlist(RunDirectory(crafted).load("cpu"))
    assert "has more than " in str(raised.value) + caplog.text


@pytest.mark.slow
def test_lines_of_json_without_end_are_no_records(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    with run.metrics_file.open("w") as stream:
        stream.write('{"update": 1}\n')
        stream.truncate(ENDLESS)
    with little_memory():
        assert read_metrics(run) == [{"update": 1}]


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails if Python takes more."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < LITTLE_MEMORY
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "counters", [[], "x", {"update": "7"}, {"best": [1]}, {"cooldown_cause": 3}, {"epoch": True}]
)
def test_counters_of_wrong_types_are_refused(counters: Any, tmp_path: Path) -> None:
    values = counters
    if isinstance(counters, dict):
        values = json.loads(json.dumps(TrainState().__dict__)) | counters
    (tmp_path / "state.json").write_text(json.dumps({"counters": values}))
    with pytest.raises(CheckpointError, match=r"state\.json: counters: .*found .*, expected"):
        TrainState.read(tmp_path)


def test_weights_that_name_tensors_without_end_are_refused_before_these_are_made(tmp_path: Path) -> None:
    for name in ("model.safetensors", "values.safetensors"):
        (tmp_path / name).write_bytes((LARGEST_HEADER + 1).to_bytes(8, "little") + b"{")
    (tmp_path / "trace.json").write_text('{"format": "glassformer trace", "version": 1, "steps": []}')
    for read in (
        lambda: read_tensors(tmp_path, "model"),
        lambda: check_shapes(tmp_path, "model", {}),
        lambda: _read_weights(tmp_path),
        lambda: Trace.load(tmp_path),
    ):
        with pytest.raises(GlassformerError, match=r"its header has 16,777,217 bytes, expected at most 16,777,216"):
            read()
