"""A training that is stopped again and again ends with the very same weights, bit for bit; and what breaks that shows.

With accumulated batches, bfloat16, a cooldown, packed rows, BPE-dropout, text prepared by two processes; with FULL=1 at two threads, too.
"""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from covering import FULL
from recorded import Lines, StopsAt
from safetensors.torch import load_file, save_file

from glassformer.checkpoint import MANIFEST, checkpoints, read_tensors
from glassformer.files import sha256
from glassformer.settings import RunConfig, TextConfig
from glassformer.text.corpus import workers
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

CUTS = (1, 5, 6, 11)
UPDATES = 12


@pytest.fixture(params=[1, 2] if FULL else [1])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def source(corpus: tuple[Path, Path]) -> FileSource:
    return FileSource(*corpus)


@pytest.fixture
def config(small_config, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    monkeypatch.setattr(workers, "CHUNKS_BEFORE_POOL", 0)
    made = small_config(max_updates=UPDATES, validate_every=4, accumulate=3, precision="bf16")
    return replace(made, text=TextConfig(tokenizer="bpe", vocab_size=300, bpe_dropout=0.1, workers=2))


def last_weights(run: Path) -> dict[str, torch.Tensor]:
    return read_tensors(checkpoints(run / "latest")[-1], "model")


def differ(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return any(not torch.equal(one[name], other[name]) for name in one)


def draw_other_numbers(run: Path) -> None:
    """Change the random state of the newest checkpoint, and seal it again."""
    newest = checkpoints(run / "latest")[-1]
    file = newest / "random.safetensors"
    states = load_file(file)
    save_file({**states, "cpu": torch.Generator().manual_seed(5).get_state()}, file)
    manifest = json.loads((newest / MANIFEST).read_text())
    manifest["files"][file.name] = {"sha256": sha256(file), "size": file.stat().st_size}
    (newest / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.slow
@pytest.mark.usefixtures("threads")
def test_a_training_cut_at_many_updates_ends_with_the_same_bits(source, config, tmp_path):
    train(TrainRequest(tmp_path / "whole", source, config), Lines())
    for cut in CUTS:
        assert train(TrainRequest(tmp_path / "cut", source, config), StopsAt(cut, signal.SIGTERM)).updates == cut
    assert train(TrainRequest(tmp_path / "cut", source, config), Lines()).updates == UPDATES
    assert not differ(last_weights(tmp_path / "cut"), last_weights(tmp_path / "whole"))

    train(TrainRequest(tmp_path / "other", source, config), StopsAt(CUTS[0], signal.SIGTERM))
    draw_other_numbers(tmp_path / "other")
    train(TrainRequest(tmp_path / "other", source, config), Lines())
    assert differ(last_weights(tmp_path / "other"), last_weights(tmp_path / "whole"))  # the comparison can fail
