"""One update, of the training loop and of the traced training step: both move the same weights at the same rate."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from recorded import Lines

from glassformer.decoding import Translator
from glassformer.explain.verify import verify_walk
from glassformer.explain.walks import walk_training
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig
from glassformer.text.corpus.prepare import prepare
from glassformer.training.loop.trainer import Trainer
from glassformer.training.request.data import FileSource, UpdateBatches

SOURCES, TARGETS = ["abc", "fade"], ["cba", "edaf"]


@pytest.fixture
def make(corpus: tuple[Path, Path], small_config: Callable[..., RunConfig], tmp_path: Path) -> Callable[..., Trainer]:
    """A trainer in a run directory."""

    def build(**settings: object) -> Trainer:
        values = small_config(**settings).to_mapping()
        pairs = FileSource(*corpus).pairs
        text = prepare(pairs, None, small_config().text, tmp_path / "text", source="", report=lambda _: None)
        sizes = {"src_vocab": text.src_tokenizer.size, "tgt_vocab": text.tgt_tokenizer.size, "dropout": 0.0}
        config = RunConfig.from_mapping({**values, "model": {**values["model"], **sizes}})
        run = RunDirectory(tmp_path / "run")
        run.path.mkdir()
        return Trainer(run, config, text, Lines())

    return build


@pytest.mark.parametrize(
    ("settings", "counters"),
    [
        ({}, {}),
        ({}, {"restarts": 1}),
        ({"freeze": "encoder,*.w_v.weight"}, {}),
        ({"freeze": "tgt_embedding", "clip_norm": 0.1}, {"restarts": 2, "cooldown_from": 2, "cooldown_to": 9}),
    ],
)
def test_the_traced_update_is_the_one_that_training_makes(make, monkeypatch, settings, counters):
    trainer = make(**settings)
    for _ in range(3):
        trainer._update()
    trainer.state = replace(trainer.state, **counters)
    trainer._save()
    text, config = trainer.text, trainer.config
    translator = Translator(trainer.model, text.src_tokenizer, text.tgt_tokenizer, config.decode)
    walked = walk_training(translator, SOURCES, TARGETS, config.train, run=trainer.run.path)
    assert verify_walk(walked, trainer.model).holds

    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    batch = walked.sentences.batch
    monkeypatch.setattr(trainer.stream, "next_update", lambda: UpdateBatches([batch], batch.target_tokens))
    metrics = trainer._update()
    assert walked["update.rate"].value.item() == metrics.rate
    assert metrics.loss == pytest.approx(walked["loss.mean"].value.item(), rel=1e-5)
    assert walked["update.gradient_norm"].value.item() == pytest.approx(metrics.gradient_norm, rel=1e-5)
    for name, weight in trainer.model.named_parameters():
        torch.testing.assert_close(walked[f"{name}.value"].value, weight.detach(), atol=1e-6, rtol=1e-4)
        assert torch.equal(weight, before[name]) != weight.requires_grad
