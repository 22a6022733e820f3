"""A corpus that a very small model learns in seconds, and the settings for it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from recorded import Lines

from glassformer.settings import RunConfig
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

MODEL = {"name": "tiny", "d_model": 32, "n_heads": 2, "d_ff": 48, "n_encoder_layers": 1, "n_decoder_layers": 1}


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Sources of letters, targets that hold them reversed; nobody may change them."""
    random = Random(11)
    words = ["".join(random.choices("abcdef", k=random.randint(2, 6))) for _ in range(400)]
    home = tmp_path_factory.mktemp("corpus")
    src, tgt = home / "corpus.src", home / "corpus.tgt"
    src.write_text("\n".join(words) + "\n")
    tgt.write_text("\n".join(word[::-1] for word in words) + "\n")
    return src, tgt


@pytest.fixture(scope="session")
def small_config() -> Callable[..., RunConfig]:
    """Settings of a training of 20 updates; a model that has learned little writes no long outputs."""

    def make(**train: Any) -> RunConfig:
        settings = {
            "batch_tokens": 512,
            "schedule": "inverse_sqrt",
            "peak_rate": 5e-3,
            "warmup": 20,
            "validate_every": 10,
            "max_updates": 20,
            "log_every": 5,
            "metric": "loss",
            **train,
        }
        sections = {"model": MODEL, "text": {"tokenizer": "characters"}, "decode": {"max_length_b": 5}}
        return RunConfig.from_mapping({**sections, "train": settings})

    return make


@pytest.fixture(scope="session")
def _trained(
    corpus: tuple[Path, Path], small_config: Callable[..., RunConfig], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    train(TrainRequest(run, FileSource(*corpus), small_config()), Lines())
    return run


@pytest.fixture
def trained(_trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that ``small_config()`` trains on ``corpus``, which a test may spoil."""
    return shutil.copytree(_trained, tmp_path / "run")
