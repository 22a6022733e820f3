"""Work by turns, for decoding_revisions.py: one turn for each line of standard input, its seconds on standard output.

    python benchmarks/turns.py training|greedy|"beam 4" RUN

Translating uses the model of RUN, so that two commits translate with the same one. It knows only what has long been
in the package, so that it runs with an earlier one.
"""

import sys
import tempfile
import time
from contextlib import suppress
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from glassformer import DecodeConfig, Translator
from glassformer.training.train import train

# Their names, and in earlier commits.
for names in (("request.arguments", "reporting.run_log"), ("arguments", "run_log"), ("request", "progress")):
    with suppress(ImportError):
        arguments, log = (import_module(f"glassformer.training.{name}") for name in names)
        break
Display: Any = getattr(log, "Display", None) or log.Silence

KINDS = ("training", "greedy", "beam 4")
UPDATES, TEXTS_TIMES = 4, 4  # updates of a turn, repetitions of its eight texts


def translate(beam: int, run: str) -> None:
    texts = [
        f"The {word} is in the {place}." for word in ("dog", "book", "child", "water") for place in ("house", "car")
    ]
    translator, options = Translator.load(run, engine="torch"), DecodeConfig(beam=beam)
    while sys.stdin.readline():
        start = time.process_time()
        translator.translate(texts * TEXTS_TIMES, options)
        print(time.process_time() - start, flush=True)


def train_by_turns() -> None:
    """Train; the display waits for the next turn after some updates."""

    class Turns(Display):
        """Waits for its turn."""

        def on_update(self, progress: Any, *, due: bool) -> None:
            if progress.update % UPDATES == 0:
                if progress.update > UPDATES:
                    print(time.process_time() - self.start, flush=True)
                if not sys.stdin.readline():
                    raise SystemExit
                self.start = time.process_time()

        progress = on_update  # its name in earlier commits

    limits = ["train.max_updates=1000000", "train.validate_every=1000000", "train.save_minutes=1000"]
    with tempfile.TemporaryDirectory() as scratch:
        request = arguments.TrainRequest.make(run=Path(scratch, "run"), data={"task": "dates"}, overrides=limits)
        takes_request = "request" in signature(train).parameters  # earlier commits take its parts
        train(*([request] if takes_request else [request.run, request.source, request.config]), Turns())


if __name__ == "__main__":
    if sys.argv[1] == "training":
        train_by_turns()
    else:
        translate(4 if sys.argv[1] == "beam 4" else 1, sys.argv[2])
