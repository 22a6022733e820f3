"""Resuming a run that has damaged or later checkpoints, leftovers, lost text or a full disk."""

import errno
import hashlib
import json
import os
import resource
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
from recorded import Lines, StopsAt

from glassformer import Translator
from glassformer.checkpoint import checkpoints, read_json
from glassformer.errors import CheckpointError, ConfigError, RunError, StorageError, TokenizerError
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig, TextConfig
from glassformer.training.loop.averaging import average_run
from glassformer.training.reporting.run_log import RunLog
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

MakeConfig = Callable[..., RunConfig]
Corpus = tuple[Path, Path]


def damage(checkpoint: Path) -> None:
    """Turn one bit of the weights."""
    file = checkpoint / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)


def updates(series: Path) -> list[int]:
    return sorted(int(checkpoint.name.removeprefix("update-")) for checkpoint in series.glob("update-*"))


def validation_loss(run: Path, update: int) -> float:
    """What was logged of a validation."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return next(one["valid_loss"] for one in records if one["update"] == update and "valid_loss" in one)


@pytest.mark.slow
def test_a_checkpoint_saved_after_skipping_a_damaged_later_one_is_the_newest(corpus, small_config, trained):
    run, source = trained, FileSource(*corpus)
    damage(checkpoints(run / "latest")[-1])
    assert train(TrainRequest(run, source, small_config()), StopsAt(15)).final is None
    assert updates(run / "latest") == [10, 15]
    again = Lines()
    assert train(TrainRequest(run, source, small_config()), again).updates == 20
    assert again.updates[0].update == 16


def test_checkpoints_later_than_the_resumed_one_do_not_count(corpus, small_config, trained):
    run, source = trained, FileSource(*corpus)
    shutil.rmtree(checkpoints(run / "latest")[-1])
    train(TrainRequest(run, source, small_config(max_updates=15)), Lines())
    for series, expected in {"latest": [10, 15], "history": [10, 15], "best": [15], "final": [15]}.items():
        assert updates(run / series) == expected, series


def test_a_best_checkpoint_later_than_the_resumed_one_is_not_the_final_model(corpus, small_config, trained):
    run, source = trained, FileSource(*corpus)
    assert updates(run / "best") == [20]
    shutil.rmtree(checkpoints(run / "latest")[-1])
    outcome = train(TrainRequest(run, source, small_config(max_updates=10, average_last=1)), Lines())
    assert outcome.final is not None
    assert outcome.final.loss == pytest.approx(validation_loss(run, 10))


def test_a_damaged_checkpoint_is_left_out_of_the_average(corpus, small_config, trained):
    run, source = trained, FileSource(*corpus)
    damage(checkpoints(run / "history")[0])
    lines = Lines()
    train(TrainRequest(run, source, small_config(max_updates=30)), lines)
    assert any("is damaged" in line and "skipped" in line for line in lines.lines)
    assert any(line.startswith("  average of the last 2 checkpoints") for line in lines.lines)


def test_without_a_valid_checkpoint_to_average_the_last_update_is_validated(corpus, small_config, trained):
    run, source = trained, FileSource(*corpus)
    for series in ("history", "best", "best-loss"):
        for checkpoint in checkpoints(run / series):
            damage(checkpoint)
    lines = Lines()
    outcome = train(TrainRequest(run, source, small_config()), lines)
    assert any(line.startswith("The last update is kept: validation loss") for line in lines.lines)
    assert outcome.final is not None
    with pytest.raises(CheckpointError, match="history: none of its checkpoints is valid"):
        average_run(run, None, lambda _: None)


@pytest.mark.slow
def test_a_final_model_is_used_until_resumed_training_finds_a_better_one(corpus, small_config, trained):
    run, source = trained, FileSource(*corpus)

    def usable() -> Path:
        return RunDirectory(run).usable_checkpoint(lambda _: None)

    assert usable() == run / "final" / "update-00000020"
    train(TrainRequest(run, source, small_config(max_updates=40)), StopsAt(25))
    assert usable() == run / "final" / "update-00000020"
    train(TrainRequest(run, source, small_config(max_updates=40)), StopsAt(35))
    assert usable() == run / "best" / "update-00000030"
    average_run(run, None, lambda _: None)
    assert usable() == run / "final" / "update-00000030"
    assert read_json(usable() / "state.json")["averaged"] == 3
    train(TrainRequest(run, source, small_config(max_updates=40)), Lines())
    assert usable() == run / "final" / "update-00000040"
    damage(usable())
    assert usable().parent == run / "best"


def test_leftovers_of_a_killed_process_do_not_prevent_a_save(corpus, small_config, trained):
    run = trained
    leftovers = [
        run / "latest" / f".update-00000030.{pid}.{kind}" for pid in (os.getpid(), 1) for kind in ("tmp", "old")
    ]
    for leftover in leftovers:
        leftover.mkdir(parents=True)
        (leftover / "model.safetensors").write_bytes(b"half")
    train(TrainRequest(run, FileSource(*corpus), small_config(max_updates=30)), Lines())
    assert not any(leftover.exists() for leftover in leftovers)


def test_a_checkpoint_whose_process_was_killed_before_its_last_step_is_adopted(corpus, small_config, trained):
    run, lines = trained, Lines()
    for series in ("latest", "final"):
        newest = checkpoints(run / series)[-1]
        newest.rename(newest.with_name(f".{newest.name}.0123456789abcdef.tmp"))
    assert Translator.load(run).translate(["abc"])  # reads it where it is, and changes nothing
    assert updates(run / "final") == []
    train(TrainRequest(run, FileSource(*corpus), small_config(max_updates=30)), lines)
    assert any(line.startswith("Resuming after update 20") for line in lines.lines)


def test_a_model_that_stands_in_for_a_lost_final_one_is_told(trained: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(trained / "final")
    Translator.load(trained)
    (said,) = caplog.messages
    assert said.startswith(f"{trained}/final: holds no model that can be used")
    assert said.endswith(f"The newest of {trained}/best stands in for it.")


def test_a_file_that_cannot_be_read_is_damage(corpus, small_config, trained, monkeypatch):
    run = trained
    bad, digest = checkpoints(run / "latest")[-1], hashlib.file_digest

    def file_digest(file: BinaryIO, name: str) -> object:
        if Path(file.name).parent == bad:
            raise OSError(errno.EIO, "Input/output error")
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    lines = Lines()
    train(TrainRequest(run, FileSource(*corpus), small_config(max_updates=10)), lines)
    assert any("is missing or damaged: Input/output error" in line for line in lines.lines)
    assert any(line.startswith("Resuming after update 10") for line in lines.lines)


def test_a_run_without_a_valid_checkpoint_to_resume_from_is_not_changed(corpus, small_config, trained):
    run = trained
    for checkpoint in checkpoints(run / "latest"):
        damage(checkpoint)
    before = {series: updates(run / series) for series in ("latest", "history", "best", "final")}
    with pytest.raises(CheckpointError, match="latest: none of its checkpoints is valid"):
        train(TrainRequest(run, FileSource(*corpus), small_config(max_updates=30)), Lines())
    assert {series: updates(run / series) for series in before} == before
    assert Translator.load(run).translate(["abc"])


def test_a_model_without_the_state_of_its_training_is_not_replaced(corpus, small_config, trained):
    shutil.rmtree(trained / "latest")
    before = {series: updates(trained / series) for series in ("history", "best", "final")}
    with pytest.raises(
        RunError, match=r"no state to continue its training from\. To train on .*: .* --init \S+/run --run NEW"
    ):
        train(TrainRequest(trained, FileSource(*corpus), small_config(max_updates=30)), Lines())
    assert {series: updates(trained / series) for series in before} == before


def test_a_command_that_was_refused_can_be_corrected(corpus, small_config, tmp_path):
    with pytest.raises(ConfigError, match=r"train\.freeze"):
        train(TrainRequest(tmp_path / "run", FileSource(*corpus), small_config(freeze="encodr")), Lines())
    outcome = train(
        TrainRequest(tmp_path / "run", FileSource(*corpus), small_config(max_updates=2, warmup=7)), Lines()
    )
    assert outcome.updates == 2


def test_text_that_is_prepared_again_is_encoded_with_the_tokenizers_of_the_run(corpus, small_config, tmp_path):
    run, source = tmp_path / "run", FileSource(*corpus)
    text = TextConfig(tokenizer="unigram", vocab_size=60)  # which is another each time that it is trained

    def config(max_updates: int) -> RunConfig:
        return replace(small_config(max_updates=max_updates, cooldown=0), text=text)

    train(TrainRequest(run, source, config(10)), Lines())
    before = [tokenizer.json for tokenizer in RunDirectory(run).read_tokenizers()]
    ids = (run / "text" / "train" / "src.ids").read_bytes()
    shutil.rmtree(run / "text")
    train(TrainRequest(run, source, config(20)), Lines())
    assert (run / "text" / "train" / "src.ids").read_bytes() == ids
    assert [(run / "text" / f"{side}.tokenizer.json").read_text() for side in ("src", "tgt")] == before
    assert len(Translator.load(run).translate(["abc"])) == 1


def last_weights(run: Path) -> bytes:
    return (checkpoints(run / "latest")[-1] / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "train/src.ids",
        pytest.param("mix/train/tgt.offsets", marks=pytest.mark.slow),
        pytest.param("valid/tgt.lengths", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_flipped_bit_in_the_text_is_noticed_and_the_weights_are_the_same(corpus, small_config, tmp_path, name):
    source, text = FileSource(*corpus), TextConfig(tokenizer="unigram", vocab_size=60)

    def train_until(max_updates: int, run: Path) -> Lines:
        config = replace(small_config(max_updates=max_updates, cooldown=0, mix=0.2), text=text)
        lines = Lines()
        train(TrainRequest(run, source, config, mix=source), lines)
        return lines

    whole, damaged = tmp_path / "whole", tmp_path / "damaged"
    train_until(10, whole)
    shutil.copytree(whole, damaged)
    file = damaged / "text" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    lines = train_until(20, damaged).lines
    train_until(20, whole)
    assert any(f"{file}: does not match its SHA-256 sum" in line for line in lines)
    assert last_weights(damaged) == last_weights(whole)


def test_a_log_that_cannot_grow_is_reported_in_one_line(tmp_path: Path) -> None:
    run, before = RunDirectory(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    with RunLog(run, Lines(), tensorboard=False) as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            with pytest.raises(
                StorageError, match=r"its log cannot be written: File too large.*the same command again"
            ):
                log.log("x" * 200)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("damage", ["missing", "cut", "another"])
def test_a_damaged_tokenizer_is_noticed_at_the_start_and_its_copy_is_named(corpus, small_config, trained, damage):
    file = trained / "tokenizer.tgt.json"
    content = file.read_text()
    file.unlink()
    if damage != "missing":
        file.write_text(content[:100] if damage == "cut" else content.replace('"a"', '"z"'))
    lines = Lines()
    copy = trained / "text/tgt.tokenizer.json"
    for use in (
        lambda: train(TrainRequest(trained, FileSource(*corpus), small_config()), lines),
        lambda: Translator.load(trained),
    ):
        with pytest.raises(TokenizerError, match=rf"tokenizer.tgt.json: .* An intact copy remains: cp {copy} {file}"):
            use()
    assert not lines.lines
    shutil.copy(copy, file)
    train(TrainRequest(trained, FileSource(*corpus), small_config(max_updates=30)), Lines())


def test_another_model_in_config_is_refused_and_other_options_of_decoding_are_not(corpus, small_config, trained):
    file = trained / "config.json"
    before = json.loads(file.read_text())
    before["config"]["decode"]["beam"] = 3
    file.write_text(json.dumps(before))
    assert Translator.load(trained).config.beam == 3
    before["config"]["model"] |= {"activation": "gelu", "norm": "post"}
    file.write_text(json.dumps(before))
    config = RunDirectory(trained).read_config()[0]
    changed = r"model.activation: 'gelu', expected 'relu'"
    for use in (
        lambda: train(TrainRequest(trained, FileSource(*corpus), config), Lines()),
        lambda: Translator.load(trained),
    ):
        with pytest.raises(CheckpointError, match=changed):
            use()


@pytest.mark.slow
def test_another_number_of_translations_is_refused_if_they_decide_what_is_best(corpus, small_config, tmp_path):
    run, source = tmp_path / "run", FileSource(*corpus)
    train(TrainRequest(run / "loss", source, small_config(max_updates=2)), Lines())
    train(TrainRequest(run / "loss", source, small_config(max_updates=2, valid_translations=3)), Lines())
    train(TrainRequest(run / "chrf", source, small_config(max_updates=2, metric="chrf")), Lines())
    with pytest.raises(RunError, match="valid_translations: 200, now 3"):
        train(
            TrainRequest(run / "chrf", source, small_config(max_updates=2, metric="chrf", valid_translations=3)),
            Lines(),
        )


@pytest.mark.slow
@pytest.mark.parametrize("config", [None, b"", b'{"config": {'])
def test_what_a_start_leaves_that_did_not_come_far_is_begun_anew(corpus, small_config, trained, config):
    run, weights, lines = trained, last_weights(trained), Lines()
    for series in ("latest", "history", "best", "best-loss", "final"):
        shutil.rmtree(run / series)
    for later in ("config.json", "report.html"):
        (run / later).unlink()
    if config is not None:  # cut short by an earlier version that did not sync it
        (run / "config.json").write_bytes(config)
    (run / "text" / "prepared.json").unlink()
    (run / "tokenizer.src.json").write_bytes(b"")
    leftovers = [run / ".0123456789abcdef.writing", run / "text" / ".0123456789abcdef.writing"]
    for leftover in leftovers:
        leftover.write_bytes(b"half")
    train(TrainRequest(run, FileSource(*corpus), small_config()), lines)
    assert last_weights(run) == weights
    assert not any(leftover.exists() for leftover in leftovers)
    assert any("the training starts from scratch" in line for line in lines.lines) == (config is not None)
