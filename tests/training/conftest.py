"""A corpus that a very small model learns in seconds, and the settings for it."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from recorded import Lines

from glassformer.config import RunConfig

MODEL = {"name": "tiny", "d_model": 32, "n_heads": 2, "d_ff": 48, "n_encoder_layers": 1, "n_decoder_layers": 1}


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Path, Path]:
    """Sources of letters, targets that hold them reversed."""
    random = Random(11)
    words = ["".join(random.choices("abcdef", k=random.randint(2, 6))) for _ in range(400)]
    src, tgt = tmp_path / "corpus.src", tmp_path / "corpus.tgt"
    src.write_text("\n".join(words) + "\n")
    tgt.write_text("\n".join(word[::-1] for word in words) + "\n")
    return src, tgt


@pytest.fixture
def small_config() -> Callable[..., RunConfig]:
    def make(**train: Any) -> RunConfig:
        settings = {
            "batch_tokens": 512,
            "schedule": "inverse_sqrt",
            "peak_rate": 5e-3,
            "warmup": 20,
            "validate_every": 10,
            "max_updates": 20,
            "log_every": 5,
            **train,
        }
        return RunConfig.from_mapping({"model": MODEL, "text": {"tokenizer": "characters"}, "train": settings})

    return make
