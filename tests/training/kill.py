"""A small training, and ways to kill a process right before it opens, renames, makes or deletes something in its run."""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

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
