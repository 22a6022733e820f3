"""An encoder whose outputs are the same at all positions is detected, and reported once, after warm-up."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from recorded import Lines

from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory
from glassformer.settings import ModelConfig, RunConfig
from glassformer.text.corpus.prepare import prepare
from glassformer.training.evaluation.evaluation import COLLAPSE_SENTENCES, encoder_collapse
from glassformer.training.loop.trainer import Trainer
from glassformer.training.request.data import FileSource

MakeConfig = Callable[..., RunConfig]
CPU = torch.device("cpu")
STILL = {"peak_rate": 1e-30, "warmup": 3, "validate_every": 2, "max_updates": 8}


@pytest.fixture
def make(corpus: tuple[Path, Path], small_config: MakeConfig, lines: Lines, tmp_path: Path) -> Callable[..., Trainer]:
    def build(norm: str = "pre", **settings: object) -> Trainer:
        values = small_config(**settings).to_mapping()
        text = prepare(
            FileSource(*corpus).pairs, None, small_config().text, tmp_path / "text", source="", report=lambda _: None
        )
        sizes = {"src_vocab": text.src_tokenizer.size, "tgt_vocab": text.tgt_tokenizer.size}
        config = RunConfig.from_mapping({**values, "model": {**values["model"], "norm": norm, **sizes}})
        run = RunDirectory(tmp_path / "run")
        run.path.mkdir()
        return Trainer(run, config, text, lines)

    return build


def collapse(model: Transformer) -> None:
    assert model.encoder.final_norm is not None
    with torch.no_grad():
        model.encoder.final_norm.gain.zero_()
        model.encoder.final_norm.bias.fill_(1.0)


@pytest.mark.parametrize("norm", ModelConfig.choices("norm"))
def test_encoder_collapse_is_the_mean_cosine_of_all_pairs_of_positions(make, norm):
    trainer = make(norm)
    model, pairs = trainer.model, trainer.text.valid
    cosines: list[float] = []
    for index in range(min(COLLAPSE_SENTENCES, len(pairs))):
        source = torch.from_numpy(pairs.src_side.ids(index).astype("int64"))
        with torch.no_grad():
            memory = model.eval().encode(source[None])[0][0]
        for one in range(len(memory)):
            others = memory[torch.arange(len(memory)) != one]
            cosines += torch.cosine_similarity(memory[one], others, dim=-1).tolist()
    found = encoder_collapse(model.train(), pairs, CPU)
    assert found == pytest.approx(sum(cosines) / len(cosines), abs=1e-5)
    assert found < 0.9
    assert model.training


def test_a_collapse_is_reported_once_after_warm_up_and_logged_each_time(make, lines):
    trainer = make(**STILL)
    collapse(trainer.model)
    trainer.fit()
    (said,) = (line for line in lines.lines if line.startswith("Warning"))
    assert said.startswith("Warning: at update 4, after warm-up")
    assert "mean cosine is 1.00" in said
    assert "train.peak_rate" in said
    assert [round(validation.encoder_collapse, 6) for validation in lines.validations] == [1.0] * 4


def test_an_encoder_that_distinguishes_positions_is_not_reported(make: Callable[..., Trainer], lines: Lines) -> None:
    make(**STILL).fit()
    assert not any(line.startswith("Warning") for line in lines.lines)
