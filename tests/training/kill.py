"""Kills trainings at their file-system events: ``python kill.py DIRECTORY STRIDE`` reports it as JSON.

A training is killed right before the first time that it opens, renames, makes or deletes something in its run, then
anew before the time STRIDE later, and so on, each time in a new run. After each kill the same training is repeated.
Processes are forked, so that many kills take seconds.
"""

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
from recorded import Lines

from glassformer.checkpoint import checkpoints
from glassformer.settings import RunConfig
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate"}
SETTINGS = {
    "model": {"name": "tiny", "d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1},
    "text": {"tokenizer": "characters", "workers": 1},
    "decode": {"max_length_b": 5},
    "train": {"batch_tokens": 512, "validate_every": 2, "max_updates": 4, "metric": "loss", "warmup": 2},
}


def fork(work) -> int:
    """The status of a new process that does some work."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def at_events(run: Path, call: Callable[[int], object]) -> None:
    """From now on, ``call`` gets the number of each event of this process in the run, from 1, right before it."""
    count = itertools.count(1)

    def hook(name: str, arguments: tuple[object, ...]) -> None:
        if name in EVENTS and str(arguments[0]).startswith(str(run)):
            call(next(count))

    sys.addaudithook(hook)


def kill_at(run: Path, event: int) -> None:
    """Have this process killed when it touches the run so often."""
    at_events(run, lambda number: os.kill(os.getpid(), signal.SIGKILL) if number == event else None)


def write_corpus(place: Path) -> tuple[Path, Path]:
    """Words, and each of them reversed, in two files."""
    words = Random(11)
    text = ["".join(words.choices("abcdef", k=words.randint(2, 6))) for _ in range(100)]
    src, tgt = place / "a.src", place / "a.tgt"
    src.write_text("\n".join(text))
    tgt.write_text("\n".join(word[::-1] for word in text))
    return src, tgt


def main(place: Path, stride: int) -> dict[str, int]:
    """Kills, those among them before config.json was there, and those before there was a checkpoint."""
    source = FileSource(*write_corpus(place))
    config, run = RunConfig.from_mapping(SETTINGS), place / "run"
    train(TrainRequest(place / "whole", source, config), Lines())
    report = {"kills": 0, "before_config": 0, "before_checkpoint": 0}
    for event in itertools.count(1, stride):

        def train_and_die(event: int = event) -> None:
            kill_at(run, event)
            train(TrainRequest(run, source, config), Lines())

        if fork(train_and_die) != signal.SIGKILL:
            return report
        report["kills"] += 1
        report["before_config"] += not (run / "config.json").exists()
        report["before_checkpoint"] += not checkpoints(run / "latest")
        assert fork(lambda: train(TrainRequest(run, source, config), Lines())) == 0, (
            f"event {event}: it does not go on"
        )
        for series in ("latest", "final"):
            whole, own = (checkpoints(path / series)[-1] / "model.safetensors" for path in (place / "whole", run))
            assert own.read_bytes() == whole.read_bytes(), f"event {event}: {series} is another"
        left = [path for path in run.rglob(".*") if path.name != ".lock"]
        assert not left, f"event {event}: it leaves {left}"
        shutil.rmtree(run)
    raise AssertionError


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
