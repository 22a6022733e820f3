"""Several processes train like one on the same batches, resume each other's runs, and end together."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from covering import sample
from torchrun import end, free_endpoint, start, torchrun, wait_until, workers

from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.errors import RunError
from glassformer.settings import RunConfig, TrainConfig
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

MakeConfig = Callable[..., RunConfig]
Corpus = tuple[Path, Path]
MODEL = {
    "d_model": 26, "n_heads": 3, "d_k": 10, "d_ff": 31, "n_encoder_layers": 1, "n_decoder_layers": 2, "dropout": 0.0
}  # fmt: skip
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")


def command(corpus: Corpus, run: Path, config: RunConfig) -> list[str | Path]:
    """``glassformer train`` with the settings of ``config``."""
    values = config.to_mapping()
    sizes = {"src_vocab", "tgt_vocab"}  # those of the tokenizer
    chosen = [
        argument
        for section in ("model", "text", "train")
        for key, value in values[section].items()
        if key not in sizes
        for argument in ("--set", f"{section}.{key}={json.dumps(value)}")
    ]
    return ["train", "--src", corpus[0], "--tgt", corpus[1], "--run", run, *chosen]


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """Weights and moments of the newest state."""
    newest = checkpoints(run / "latest")[-1]
    return {**read_tensors(newest, "model"), **read_tensors(newest, "optimizer")}


def assert_close(first: Path, second: Path) -> None:
    found, expected = tensors(first), tensors(second)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(
            found[name], tensor, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


def assert_equal(first: Path, second: Path) -> None:
    found, expected = tensors(first), tensors(second)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def metrics(run: Path, key: str) -> list[float]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [record[key] for record in records if key in record]


@pytest.fixture
def make(small_config: MakeConfig) -> MakeConfig:
    def build(model: dict[str, object] | None = None, **settings: object) -> RunConfig:
        values = small_config(batch_tokens=128, threads=1, **settings).to_mapping()
        return RunConfig.from_mapping({**values, "model": {"norm": "pre", **MODEL, **(model or {})}})

    return build


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", TrainConfig.choices("optimizer"))
def test_two_processes_train_like_one_and_only_the_first_writes(corpus, make, lines, tmp_path, optimizer):
    limits = {"max_updates": 4, "validate_every": 2, "log_every": 1, "optimizer": optimizer}
    out = torchrun(2, *command(corpus, tmp_path / "two", make(accumulate=2, **limits)))
    train(TrainRequest(tmp_path / "one", FileSource(*corpus), make(accumulate=4, **limits)), lines)
    assert_close(tmp_path / "two", tmp_path / "one")
    for key in ("loss", "gradient_norm", "valid_loss", "valid_chrf"):
        assert metrics(tmp_path / "two", key) == pytest.approx(metrics(tmp_path / "one", key), rel=1e-4)
    said, logged = out.splitlines(), (tmp_path / "two" / "train.log").read_text().splitlines()
    assert len([line for line in said if line.startswith("update 4 ")]) == 1
    assert len([line for line in logged if "  update 4  " in line]) == 1
    assert f"{lines.updates[-1].update} updates, {sum(count_tokens(corpus, make, limits)):,} target tokens" in out


def count_tokens(corpus: Corpus, make: MakeConfig, limits: dict[str, int]) -> list[int]:
    """Target tokens of the updates' batches, count_tokens one by one."""
    from glassformer.text.corpus.prepare import prepare
    from glassformer.training.request.data import BatchStream

    config, source = make(accumulate=4, **limits), FileSource(*corpus)
    text = prepare(source.pairs, None, config.text, corpus[0].parent / "text", source="", report=lambda _: None)
    stream = BatchStream(text.train, config.train, epoch=1, position=0)
    return [stream.next().target_tokens for _ in range(4 * limits["max_updates"])]


@pytest.mark.slow
@pytest.mark.parametrize("sharding", sample(["none", "full"], 1))
def test_two_machines_train_like_one_process(corpus, make, lines, tmp_path, sharding):
    """As torchrun sees them: a rendezvous of two, each with two processes of its own."""
    limits = {"max_updates": 4, "validate_every": 2}
    endpoint, asked = free_endpoint(), make(accumulate=1, sharding=sharding, **limits)
    started = [start(2, *command(corpus, tmp_path / "two", asked), endpoint=endpoint) for _ in range(2)]
    ended = [end(one) for one in started]
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert sorted(out.count("Final model") for _, out, _ in ended) == [0, 1]
    train(TrainRequest(tmp_path / "one", FileSource(*corpus), make(accumulate=4, **limits)), lines)
    assert_close(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_a_run_resumes_with_another_number_of_processes(corpus, make, lines, tmp_path):
    source, run = FileSource(*corpus), tmp_path / "changing"
    steady = partial(make, cooldown=0)  # a limit that changes would end it
    train(TrainRequest(run, source, steady(accumulate=4, max_updates=5)), lines)
    torchrun(4, *command(corpus, run, steady(accumulate=1, max_updates=10, sharding="full")))
    torchrun(2, *command(corpus, run, steady(accumulate=2, max_updates=15)))
    train(TrainRequest(run, source, steady(accumulate=4, max_updates=20)), lines)
    train(TrainRequest(tmp_path / "one", source, steady(accumulate=4, max_updates=20)), lines)
    assert_close(run, tmp_path / "one")
    assert "Saved by 2 processes, now 1: dropout draws other numbers." in lines.lines


def test_another_number_of_batches_in_an_update_is_refused(corpus, make, lines, tmp_path):
    run = tmp_path / "run"
    train(TrainRequest(run, FileSource(*corpus), make(accumulate=4, max_updates=1)), lines)
    written = json.loads((run / "config.json").read_text())
    written["data"]["processes"], written["config"]["train"]["accumulate"] = 2, 2
    (run / "config.json").write_text(json.dumps(written))
    with pytest.raises(RunError, match=r"train.accumulate times processes: 2 times 2, now 2 times 1"):
        train(TrainRequest(run, FileSource(*corpus), make(accumulate=2, max_updates=2)), lines)
    assert train(TrainRequest(run, FileSource(*corpus), make(accumulate=4, max_updates=2)), lines).updates == 2


@pytest.mark.slow
@pytest.mark.parametrize("place", sample(["latest", "final"], 1))
def test_an_error_of_one_process_ends_all_with_one_line(corpus, make, tmp_path, place):
    run = tmp_path / "run"
    torchrun(2, *command(corpus, run, make(validate_every=2, max_updates=2)))
    # Without latest/, a run that holds a model is refused before any process works: it starts anew where none is left.
    for series in ("history", "best", "best-loss", "final", "latest") if place == "latest" else ("final",):
        shutil.rmtree(run / series)
    (run / place).write_text("where the first process wants to save")
    code, _, err = end(start(2, *command(corpus, run, make(validate_every=2, max_updates=4))))
    told = [line for line in err.splitlines() if line.startswith("error:")]
    assert code != 0
    assert len(told) == 1
    assert "the checkpoint cannot be written" in told[0]
    assert "glassformer/" not in err, "a traceback of ours"


@needs_proc
@pytest.mark.slow
def test_a_killed_process_ends_the_others_with_one_line(corpus: Corpus, make: MakeConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    started = start(2, *command(corpus, run, make(max_updates=100_000, validate_every=5)))
    wait_until(lambda: bool(checkpoints(run / "latest")))
    os.kill(others(started, run)[0], signal.SIGKILL)
    code, _, err = end(started)
    told = [line for line in err.splitlines() if line.startswith("error:")]
    assert code != 0
    assert len(told) <= 1  # none when torchrun was quicker to end the other one
    assert all("another process ended before its work was done" in line for line in told)
    assert "glassformer/" not in err, "a traceback of ours"


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("sharding", sample(["none", "full"], 1))
def test_a_killed_process_is_restarted_and_all_resume(corpus, make, tmp_path, sharding):
    model, limits = {"dropout": 0.3}, {"max_updates": 60, "validate_every": 10, "sharding": sharding}
    run = tmp_path / "killed"
    started = start(2, *command(corpus, run, make(model, **limits)), restarts=1)
    wait_until(lambda: bool(checkpoints(run / "latest")))
    os.kill(others(started, run)[0], signal.SIGKILL)
    code, out, err = end(started)
    assert code == 0, err
    assert "Resuming after update" in out
    torchrun(2, *command(corpus, tmp_path / "whole", make(model, **limits)))
    assert_equal(run, tmp_path / "whole")


@needs_proc
@pytest.mark.slow
def test_a_signal_to_one_process_lets_all_save_and_stop(corpus: Corpus, make: MakeConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    started = start(2, *command(corpus, run, make(max_updates=100_000, validate_every=5)))
    wait_until(lambda: bool(checkpoints(run / "latest")))
    os.kill(others(started, run)[0], signal.SIGTERM)
    _, out, _ = end(started)
    assert "Training ended: stopped by SIGTERM" in out
    stopped_at = int(checkpoints(run / "latest")[-1].name.removeprefix("update-"))
    out = torchrun(2, *command(corpus, run, make(max_updates=stopped_at + 1, validate_every=5)))
    assert f"Resuming after update {stopped_at}," in out


def others(started, run: Path) -> list[int]:
    """The workers that are not the first process, which holds the run."""
    first = int((run / ".lock").read_text())
    return [pid for pid in workers(started) if pid != first]
