"""Whole trainings, small enough for seconds: they end, resume, refuse, stop and diverge as promised."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from recorded import Lines, StopsAt

from glassformer import Translator
from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.decoding.engines.export_cache import CACHE
from glassformer.errors import DivergedError, RunError
from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig
from glassformer.text.corpus.prepare import prepare
from glassformer.training.loop.averaging import average_run
from glassformer.training.loop.schedule import learning_rate
from glassformer.training.loop.trainer import Trainer
from glassformer.training.objective.loss import smoothed_loss
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import BatchStream, FileSource
from glassformer.training.train import train

MakeConfig = Callable[..., RunConfig]

EXPLOSIVE = {"schedule": "inverse_sqrt", "peak_rate": 1e30, "clip_norm": 0.0, "warmup": 1}
MOTIONLESS = {"schedule": "inverse_sqrt", "peak_rate": 1e-30}


def weights(run: Path, series: str) -> dict[str, torch.Tensor]:
    return read_tensors(checkpoints(run / series)[-1], "model")


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_leaves_a_translator_metrics_and_no_pickle(corpus, small_config, lines, tmp_path):
    run = tmp_path / "run"
    outcome = train(TrainRequest(run, FileSource(*corpus), small_config()), lines)
    assert outcome.updates == 20
    assert outcome.final is not None
    assert [validation.update for validation in lines.validations] == [10, 20]
    assert len(Translator.load(run).translate(["abc", "", "fed"])) == 3
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [record["update"] for record in records if "loss" in record] == [5, 10, 15, 20]
    assert [record["update"] for record in records if "valid_loss" in record] == [10, 20]
    suffixes = {path.suffix for path in run.rglob("*") if path.is_file() and CACHE not in path.parts}
    assert suffixes <= {".json", ".jsonl", ".safetensors", ".log", ".ids", ".lengths", ".offsets", ".html", ""}


def test_sigterm_saves_and_the_same_command_resumes(corpus, small_config, trained, tmp_path):
    run, source = tmp_path / "stopped", FileSource(*corpus)
    outcome = train(TrainRequest(run, source, small_config()), StopsAt(7, signal.SIGTERM))
    assert (outcome.updates, outcome.final) == (7, None)
    assert "SIGTERM" in outcome.reason
    lines = Lines()
    assert train(TrainRequest(run, source, small_config()), lines).updates == 20
    assert lines.updates[0].update == 8
    assert equal(weights(run, "latest"), weights(trained, "latest"))


def test_a_run_stopped_before_its_first_validation_can_be_finished_there(corpus, small_config, tmp_path):
    run, source = tmp_path / "run", FileSource(*corpus)
    assert train(TrainRequest(run, source, small_config()), StopsAt(1)).updates == 1
    outcome = train(TrainRequest(run, source, small_config(max_updates=1)), Lines())
    assert outcome.updates == 1
    assert outcome.final is not None


def test_another_setting_or_another_text_in_the_same_directory_is_refused(corpus, small_config, lines, tmp_path):
    run, (src, tgt) = tmp_path / "run", corpus
    train(TrainRequest(run, FileSource(src, tgt), small_config(max_updates=2)), lines)
    with pytest.raises(RunError, match=r"train.clip_norm: 1.0, now 0.5"):
        train(TrainRequest(run, FileSource(src, tgt), small_config(max_updates=2, clip_norm=0.5)), lines)
    with pytest.raises(RunError, match="the training text has changed"):
        train(TrainRequest(run, FileSource(tgt, src), small_config(max_updates=2)), lines)


@pytest.mark.slow
def test_other_settings_and_other_text_can_be_forced_and_are_kept_in_the_log(
    corpus, small_config, lines, trained, tmp_path
):
    (src, tgt), rate = corpus, 1e-3
    tokenizer = (trained / "tokenizer.src.json").read_bytes()
    (tmp_path / "more.src").write_text(src.read_text() + "fade\nbad\n")
    (tmp_path / "more.tgt").write_text(tgt.read_text() + "edaf\ndab\n")
    other, text = (
        small_config(max_updates=24, peak_rate=rate),
        FileSource(tmp_path / "more.src", tmp_path / "more.tgt"),
    )
    with pytest.raises(RunError, match=r"train.peak_rate: 0.005, now 0.001.*; the training text has.*: --force"):
        train(TrainRequest(trained, text, other), lines)
    assert train(TrainRequest(trained, text, other, force=True), lines).updates == 24
    noted = ["--force: train.peak_rate: 0.005, now 0.001", "--force: the training text has changed"]
    assert set(noted) < set(lines.lines)
    assert all(line in (trained / "train.log").read_text() for line in noted)
    assert lines.updates[0].update == 21
    assert lines.updates[0].learning_rate < rate
    assert (trained / "tokenizer.src.json").read_bytes() == tokenizer
    again = Lines()
    now = replace(other, train=replace(other.train, max_updates=26))  # it has these settings now
    train(TrainRequest(trained, text, now), again)
    assert not any("--force" in line for line in again.lines)


def test_what_weights_cannot_do_without_cannot_be_forced(corpus, small_config, lines, trained):
    config = small_config(max_updates=30)
    for other, said in (
        (replace(config, model=replace(config.model, d_ff=64)), "model.d_ff: 48, now 64"),
        (replace(config, text=replace(config.text, lowercase=True)), "text.lowercase: False, now True"),
    ):
        with pytest.raises(RunError, match=rf"{said}\). Repeat its command to resume it, or name another --run.$"):
            train(TrainRequest(trained, FileSource(*corpus), other, force=True), lines)


def test_divergence_and_a_validation_that_is_not_finite_stop_before_anything_is_saved(
    corpus, small_config, lines, tmp_path
):
    run = tmp_path / "run"
    config = small_config(**EXPLOSIVE)
    with pytest.raises(DivergedError, match="No update was made"):
        train(TrainRequest(run, FileSource(*corpus), config), lines)
    assert not checkpoints(run / "latest")
    run = tmp_path / "run"
    config = small_config(**EXPLOSIVE, validate_every=1)
    with pytest.raises(DivergedError, match="the validation loss is nan"):
        train(TrainRequest(run, FileSource(*corpus), config), lines)
    assert not checkpoints(run / "latest") + checkpoints(run / "best")


def test_a_training_that_diverges_may_go_back_with_half_the_rate_three_times(corpus, small_config, lines, tmp_path):
    explosive = {**EXPLOSIVE, "on_divergence": "restart", "validate_every": 100}
    with pytest.raises(DivergedError, match="No update was made"):
        train(TrainRequest(tmp_path / "run", FileSource(*corpus), small_config(**explosive)), lines)
    said = [line for line in lines.lines if "restart" in line and "of at most 3" in line]
    assert [f"restart {number} of" in line for number, line in enumerate(said, 1)] == [True] * 3
    assert [line for line in lines.lines if line.startswith("Going on")][-1].endswith(
        "the learning rate times 0.125."
    )


def test_after_a_restart_the_weights_are_those_that_were_saved(corpus, small_config, trained, monkeypatch):
    def diverge_once(self: Trainer, loss: float, norm: float) -> None:
        if self.state.update == 23 and self.state.restarts == 0:
            raise DivergedError("update 24: as if the loss were not finite.")

    monkeypatch.setattr(Trainer, "_check_finite", diverge_once)
    lines, config = Lines(), small_config(max_updates=30, on_divergence="restart")
    assert train(TrainRequest(trained, FileSource(*corpus), config), lines).updates == 30
    updates = [one.update for one in lines.updates]
    assert updates == [21, 22, 23, *range(21, 31)]
    rates = [one.learning_rate for one in lines.updates]
    assert rates[3:6] == pytest.approx([rate / 2 for rate in rates[:3]])
    again = Lines()
    train(TrainRequest(trained, FileSource(*corpus), small_config(max_updates=32, on_divergence="restart")), again)
    curve = learning_rate(31, config.train, config.model.d_model)
    assert again.updates[0].learning_rate <= curve / 2  # a later start remembers the restart


@pytest.mark.parametrize(("cooldown", "updates"), [(0, 8), (0.25, 8 + 2)])
@pytest.mark.slow
def test_patience_ends_a_run_that_no_longer_improves(corpus, small_config, lines, tmp_path, cooldown, updates):
    config = small_config(**MOTIONLESS, validate_every=2, patience=3, max_updates=50, cooldown=cooldown)
    outcome = train(TrainRequest(tmp_path / "run", FileSource(*corpus), config), lines)
    assert outcome.updates == updates
    assert "train.patience" in outcome.reason


def test_an_update_of_accumulated_batches_is_that_of_their_mean_token_loss(corpus, small_config, lines, tmp_path):
    run, source = tmp_path / "run", FileSource(*corpus)
    config = small_config(accumulate=3, max_updates=1)
    config = replace(config, model=replace(config.model, dropout=0.0))
    train(TrainRequest(run, source, config), lines)
    trained = weights(run, "latest")
    config, _ = RunDirectory(run).read_config()
    text = prepare(source.pairs, None, config.text, run / "text", source=source.fingerprint(), report=lines.log)
    torch.manual_seed(config.train.seed)
    model = Transformer(config.model)
    stream = BatchStream(text.train, config.train, epoch=1, position=0)
    batches = [stream.next() for _ in range(3)]
    tokens = sum(batch.target_tokens for batch in batches)
    for batch in batches:
        loss, _, _ = smoothed_loss(model(batch.src_ids, batch.tgt_in_ids), batch.tgt_out_ids, 0, 0.1)
        (loss / tokens).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    rate = learning_rate(1, config.train, config.model.d_model)
    torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9).step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(trained[name], parameter.detach(), rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_bf16_trains_and_keeps_float32_weights(corpus, small_config, lines, tmp_path):
    train(TrainRequest(tmp_path / "run", FileSource(*corpus), small_config(precision="bf16")), lines)
    assert {tensor.dtype for tensor in weights(tmp_path / "run", "final").values()} == {torch.float32}
    assert lines.updates[-1].loss < lines.updates[0].loss


@pytest.mark.slow
def test_the_average_is_the_mean_of_the_last_checkpoints(corpus, small_config, lines, tmp_path):
    run = tmp_path / "run"
    train(TrainRequest(run, FileSource(*corpus), small_config(validate_every=5)), lines)
    used = average_run(run, 2, lines.log)
    assert [path.name for path in used] == ["update-00000015", "update-00000020"]
    first, second = (read_tensors(path, "model") for path in used)
    for name, mean in weights(run, "final").items():
        torch.testing.assert_close(mean, (first[name] + second[name]) / 2)


def test_two_trainings_in_one_directory_are_refused(corpus, small_config, lines, tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create()
    with run.lock(), pytest.raises(RunError, match=f"is being trained by process {os.getpid()}"):
        train(TrainRequest(run.path, FileSource(*corpus), small_config()), lines)


@pytest.mark.slow
def test_tensorboard_events_are_written_on_request(corpus, small_config, lines, tmp_path):
    run = tmp_path / "run"
    train(TrainRequest(run, FileSource(*corpus), small_config(tensorboard=True, max_updates=5)), lines)
    assert list((run / "tensorboard").glob("events*"))


@pytest.mark.slow
def test_a_small_model_learns_to_reverse_words(small_config: MakeConfig, lines: Lines, tmp_path: Path) -> None:
    """A mask that let the decoder peek would drive the loss down and leave translations wrong."""
    random = Random(13)
    words = sorted({"".join(random.choices("abcdef", k=random.randint(3, 6))) for _ in range(3000)})
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    config = small_config(max_updates=1200, validate_every=200, metric="exact_match", label_smoothing=0.0)
    config = replace(config, model=replace(config.model, dropout=0.0))
    outcome = train(TrainRequest(tmp_path / "run", FileSource(pairs), config), lines)
    assert outcome.final is not None
    assert outcome.final.scores["exact_match"] >= 90.0
    assert lines.validations[0].scores["exact_match"] < outcome.final.scores["exact_match"]
