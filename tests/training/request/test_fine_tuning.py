"""Trainings that start from a model that exists: what is kept, what is shown, what is refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from recorded import Lines

from examples.bundled.int8_rows import quantize_rows
from glassformer.checkpoint import checkpoints, read_json, read_tensors, save_checkpoint, update_number
from glassformer.errors import ConfigError, RunError
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig, TextConfig
from glassformer.text.corpus.dataset import EncodedPairs, EncodedWriter
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import BatchStream, FileSource
from glassformer.training.request.fine_tuning import FINE_TUNING_RATE, InitialModel
from glassformer.training.train import Outcome, train

MakeConfig = Callable[..., RunConfig]
Corpus = tuple[Path, Path]
SHORT = ["train.max_updates=20", "train.validate_every=10", "train.batch_tokens=512", "decode.max_length_b=5"]


@pytest.fixture(scope="module")
def new_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words of the same letters, doubled instead of reversed."""
    random = Random(5)
    words = {"".join(random.choices("abcdef", k=random.randint(2, 6))) for _ in range(300)}
    file = tmp_path_factory.mktemp("new") / "pairs.tsv"
    file.write_text("".join(f"{word}\t{word}{word}\n" for word in sorted(words)))
    return file


@pytest.fixture(scope="module")
def first(corpus: Corpus, small_config: MakeConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("first") / "run"
    train(TrainRequest(run, FileSource(*corpus), small_config(max_updates=60)), Lines())
    return run


def tune(run: Path, pairs: Path, init: Path | str, *overrides: str, mix: Path | None = None) -> tuple[Outcome, Lines]:
    """Fine-tune as the command does."""
    data = {"pairs": str(pairs), "mix": None if mix is None else str(mix)}
    request = TrainRequest.make(run=run, data=data, init=str(init), overrides=[*SHORT, *overrides])
    lines = Lines()
    return train(TrainRequest(run, request.source, request.config, init=request.init, mix=request.mix), lines), lines


def weights(run: Path, series: str = "latest") -> dict[str, torch.Tensor]:
    return read_tensors(checkpoints(run / series)[-1], "model")


@pytest.mark.slow
def test_it_starts_from_the_weights_and_tokenizers_and_shows_what_they_can_do(first, new_pairs, tmp_path):
    outcome, lines = tune(tmp_path / "run", new_pairs, first, "train.average_last=5")
    start = checkpoints(tmp_path / "run" / "history")[0]
    assert start.name == "update-00000000"
    for name, weight in read_tensors(start, "model").items():
        torch.testing.assert_close(weight, weights(first, "final")[name], rtol=0, atol=0)
    assert [one.update for one in lines.validations] == [0, 10, 20]
    assert lines.validations[0].loss > lines.validations[-1].loss
    for old, new in zip(
        RunDirectory(first).read_tokenizers(), RunDirectory(tmp_path / "run").read_tokenizers(), strict=True
    ):
        assert old.digest == new.digest
    assert outcome.final is not None
    config, data = RunDirectory(tmp_path / "run").read_config()
    assert data["init"]["checkpoint"] == str(checkpoints(first / "final")[-1].resolve())
    assert {name: getattr(config.train, name) for name in FINE_TUNING_RATE} == FINE_TUNING_RATE


def to_int8(series: Path) -> dict[str, torch.Tensor]:
    """Rewrite the newest checkpoint with int8 rows; returns the weights that it holds then."""
    newest = checkpoints(series)[-1]
    groups = {file.stem: read_tensors(newest, file.stem) for file in newest.glob("*.safetensors")}
    groups["model"] = quantize_rows(groups["model"])
    save_checkpoint(series, update_number(newest), groups, read_json(newest / "state.json"))
    return read_tensors(newest, "model")


def test_int8_rows_are_a_model_to_start_from_and_to_resume_from(first: Path, new_pairs: Path, tmp_path: Path) -> None:
    packed, run = Path(shutil.copytree(first, tmp_path / "packed")), tmp_path / "run"
    rounded = to_int8(packed / "final")
    tune(run, new_pairs, packed, "train.average_last=5", "train.max_updates=5")
    start = read_tensors(checkpoints(run / "history")[0], "model")
    assert all(torch.equal(start[name], weight) for name, weight in rounded.items())
    to_int8(run / "latest")
    outcome, lines = tune(run, new_pairs, packed, "train.average_last=5", "train.max_updates=8")
    assert any(line.startswith("Resuming after update 5") for line in lines.lines)
    assert outcome.updates == 8


def test_scores_on_what_the_first_model_has_learned_are_marked(first, corpus, tmp_path):
    learned = [path.read_text().splitlines()[:40] for path in corpus]
    pairs, valid = tmp_path / "new.tsv", tmp_path / "valid.tsv"
    pairs.write_text("".join(f"{'ab' * number}z\t{'x' * number}\n" for number in range(1, 40)))
    valid.write_text("".join("\t".join(pair) + "\n" for pair in zip(*learned, strict=True)))
    model = InitialModel.load(first)
    count = model.count_learned(learned[0])
    assert (count or 0) > 30
    assert model.count_learned(["qqqq"]) == 0
    assert InitialModel.load("bundled").count_learned(learned[0]) is None
    request = TrainRequest.make(
        run=tmp_path / "run", data={"pairs": str(pairs), "valid": str(valid)}, init=str(first), overrides=SHORT[:1]
    )
    lines = Lines()
    train(replace(request, config=replace(request.config, train=replace(request.config.train, max_updates=1))), lines)
    assert any(f"{count} of the 40 validation sources" in line for line in lines.lines), lines.lines


def test_a_training_that_does_harm_keeps_the_model_that_it_started_from(first, new_pairs, tmp_path):
    tune(tmp_path / "run", new_pairs, first, "train.peak_rate=1.0", "train.warmup=1", "train.metric=loss")
    for name, weight in weights(tmp_path / "run", "final").items():
        torch.testing.assert_close(weight, weights(first, "final")[name], rtol=0, atol=0)


@pytest.mark.slow
def test_resuming_makes_the_same_updates_and_needs_the_same_model(first, new_pairs, corpus, small_config, tmp_path):
    tune(tmp_path / "whole", new_pairs, first, mix=new_pairs)
    tune(tmp_path / "parts", new_pairs, first, "train.max_updates=13", "train.cooldown=0", mix=new_pairs)
    tune(tmp_path / "straight", new_pairs, first, "train.cooldown=0", mix=new_pairs)
    tune(tmp_path / "parts", new_pairs, first, "train.cooldown=0", mix=new_pairs)
    for name, weight in weights(tmp_path / "straight").items():
        torch.testing.assert_close(weight, weights(tmp_path / "parts")[name], rtol=0, atol=0)
    with pytest.raises(RunError, match="the model of --init is another"):
        tune(tmp_path / "whole", new_pairs, checkpoints(first / "history")[0], mix=new_pairs)
    with pytest.raises(RunError, match="the text of --mix is another"):
        tune(tmp_path / "whole", new_pairs, first)
    request = TrainRequest.make(
        run=tmp_path / "whole", data={"pairs": str(new_pairs)}, init=str(first), overrides=SHORT
    )
    with pytest.raises(RunError, match="the model of --init is another"):
        train(TrainRequest(tmp_path / "whole", request.source, request.config, mix=FileSource(new_pairs)), Lines())


@pytest.mark.slow
def test_a_training_that_has_begun_needs_its_first_model_no_more(first, new_pairs, corpus, small_config, tmp_path):
    begun = Path(shutil.copytree(first, tmp_path / "first"))
    tune(tmp_path / "run", new_pairs, begun, "train.max_updates=10")
    recorded = RunDirectory(tmp_path / "run").read_config()[1]["init"]
    train(TrainRequest(begun, FileSource(*corpus), small_config(max_updates=62)), Lines())
    outcome, lines = tune(tmp_path / "run", new_pairs, begun, "train.max_updates=12")
    assert outcome.updates == 12
    assert any(line.startswith("The model of --init is gone or has been trained further") for line in lines.lines)
    begun.rename(tmp_path / "elsewhere")
    assert tune(tmp_path / "run", new_pairs, begun, "train.max_updates=14")[0].updates == 14
    assert RunDirectory(tmp_path / "run").read_config()[1]["init"] == recorded
    with pytest.raises(RunError, match=r"first: "):
        tune(tmp_path / "new", new_pairs, begun)


def test_frozen_weights_stay_as_they_are_also_after_a_stop(first: Path, new_pairs: Path, tmp_path: Path) -> None:
    frozen = "train.freeze=encoder, *.norm.gain, src_embedding"
    _, lines = tune(tmp_path / "run", new_pairs, first, frozen, "train.max_updates=10")
    tune(tmp_path / "run", new_pairs, first, frozen)
    before, after = weights(first, "final"), weights(tmp_path / "run")
    for name, weight in after.items():
        is_frozen = name.startswith(("encoder.", "src_embedding.")) or name.endswith(".norm.gain")
        assert torch.equal(weight, before[name]) == is_frozen, name
    total = sum(weight.numel() for weight in after.values())
    assert any(line.startswith("Frozen: ") and f"of {total:,} parameters" in line for line in lines.lines)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [("encoder.layers.7", "matches no weight"), ("encodr", "Did you mean 'encoder'"), ("*", "matches every weight")],
)
def test_a_pattern_that_freezes_nothing_or_everything_is_refused(patterns, message, first, new_pairs, tmp_path):
    with pytest.raises(ConfigError, match=r"train\.freeze") as found:
        tune(tmp_path / "run", new_pairs, first, f"train.freeze={patterns}")
    assert message in str(found.value)


def test_settings_that_contradict_the_model_are_refused(first: Path, new_pairs: Path, tmp_path: Path) -> None:
    for override in ("model.d_model=64", "text.tokenizer=bpe", "model.norm=post"):
        with pytest.raises(ConfigError, match="which the model of --init has"):
            tune(tmp_path / "run", new_pairs, first, override)
    with pytest.raises(ConfigError, match="--model: found 'small' with --init"):
        TrainRequest.make(run=tmp_path / "run", data={"pairs": str(new_pairs)}, model="small", init=str(first))
    with pytest.raises(ConfigError, match=r"train\.mix: found 0\.2 without other pairs"):
        tune(tmp_path / "run", new_pairs, first, "train.mix=0.2")
    with pytest.raises(RunError, match="is not a run directory"):
        tune(tmp_path / "run", new_pairs, tmp_path / "nothing")
    assert not (tmp_path / "run").exists()
    config = TrainRequest.make(
        run=tmp_path / "run", data={"pairs": str(new_pairs)}, init=str(first), overrides=["model.dropout=0.4"]
    ).config
    assert config.model.dropout == 0.4


@pytest.mark.slow
def test_the_bundled_model_can_be_fine_tuned(new_pairs: Path, tmp_path: Path) -> None:
    outcome, lines = tune(tmp_path / "run", new_pairs, "bundled", "train.max_updates=2", "train.validate_every=2")
    assert outcome.updates == 2
    assert [one.update for one in lines.validations] == [0, 2]
    assert InitialModel.load("bundled").run.config.model == RunDirectory(tmp_path / "run").read_config()[0].model


def encoded(directory: Path, pairs: int, token: int) -> EncodedPairs:
    with EncodedWriter(directory, vocab=100) as writer:
        rows = [[token, 4 + number % 90, 2] for number in range(pairs)]
        writer.append(rows, rows)
    return EncodedPairs(directory)


def test_pairs_of_other_languages_than_the_model_translates_are_named() -> None:
    model = InitialModel.load("bundled")

    def difference(languages: str) -> str | None:
        return model.describe_difference(RunConfig(text=TextConfig(languages=languages)))

    assert difference("de-en") == (
        "the pairs are de-en, and the model of --init translates en-de, expected the same: it will unlearn much. If "
        "that is not meant, exchange the two sides, or name another --init."
    )
    assert [difference(same) for same in ("en-de", "")] == [None, None]


def test_other_pairs_have_their_share_of_each_epoch_and_are_drawn_anew(small_config, tmp_path):
    own, other = encoded(tmp_path / "own", 60, token=98), encoded(tmp_path / "other", 90, token=99)
    settings = replace(small_config().train, mix=0.25)

    def epoch(number: int) -> tuple[list[int], list[tuple[int, ...]]]:
        stream = BatchStream(own, settings, number, 0, mix=other)
        rows = [tuple(row) for _ in range(len(stream)) for row in stream.next().src_ids.tolist()]
        return [row[1] for row in rows if row[0] == 98], [row for row in rows if row[0] == 99]

    own_first, other_first = epoch(1)
    own_second, other_second = epoch(2)
    assert sorted(own_first) == sorted(own_second) == sorted(4 + np.arange(60) % 90)
    assert len(other_first) == len(other_second) == 20
    assert sorted(other_first) != sorted(other_second)
    assert epoch(1) == (own_first, other_first)
    most = BatchStream(own, replace(settings, mix=0.9), 1, 0, mix=other)
    assert sum(len(most.next().src_ids) for _ in range(len(most))) == 60 + 90


@pytest.mark.slow
def test_what_is_forgotten_of_the_other_text_is_said(first, new_pairs, corpus, tmp_path):
    old = tmp_path / "old.tsv"
    old.write_text("".join(f"{s}\t{t}\n" for s, t in zip(*(p.read_text().split() for p in corpus), strict=True)))
    _, lines = tune(tmp_path / "run", new_pairs, first, "train.metric=loss", mix=old)
    said = [line for line in lines.lines if "held-out pairs of the other text" in line]
    assert len(said) == 2
    assert said[0] != said[1]
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert min(one["update"] for one in records) == 0


@pytest.mark.slow
def test_what_was_frozen_can_be_trained_later(first: Path, new_pairs: Path, tmp_path: Path) -> None:
    tune(tmp_path / "run", new_pairs, first, "train.freeze=encoder", "train.max_updates=10")
    frozen = weights(tmp_path / "run")
    data = {"pairs": str(new_pairs)}
    request = TrainRequest.make(run=tmp_path / "run", data=data, init=str(first), overrides=SHORT)
    train(TrainRequest(request.run, request.source, request.config, init=request.init, force=True), Lines())
    name = "encoder.layers.0.feed_forward.w_1.weight"
    assert torch.equal(frozen[name], weights(first, "final")[name])
    assert not torch.equal(frozen[name], weights(tmp_path / "run")[name])
