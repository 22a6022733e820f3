"""Target tokens per second of a training while other programs keep cores busy: all threads, one thread, ``auto``.

    python benchmarks/busy_cores.py [--busy 0 1 2] [--size tiny] [--seconds 30] [--rounds 3] [--json FILE]

``all`` is a thread for each core that the process may use, the default before there was ``train.threads``; ``one`` is
a single thread; ``auto`` is the default now. Beside them, so many processes count in an endless loop. A training is
a new process that begins anew on the same prepared text of the generated task phrasebook-de. It is measured for so
many seconds after its third update. The three take turns. What to look at is ``auto`` as a share of the best; without
busy cores that says something only on a machine that does nothing else.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import machine, spread
from smoke import new_parser, parse_options, write_json

from glassformer.text.corpus.workers import available_cores

WARM_UP = 3  # updates
CHOSEN = "Threads: "
ARMS = {"all": str(available_cores()), "one": "1", "auto": "auto"}


def train_for(run: Path, size: str, seconds: float, settings: list[str]) -> None:
    """In a process of its own, as the command trains: print the speed and what was said of the threads, and end."""
    from glassformer.cli.main import _share_the_machine

    _share_the_machine()
    from glassformer.training.reporting.run_log import Display, TrainProgress
    from glassformer.training.request.arguments import TrainRequest
    from glassformer.training.train import train

    class Meter(Display):
        """Ends the process once enough was measured, before anything is saved."""

        said = ""
        began = 0.0
        speeds: list[float] = []  # noqa: RUF012  # there is one meter

        def log(self, line: str) -> None:
            if line.startswith(CHOSEN):
                self.said = line

        def on_update(self, progress: TrainProgress, *, due: bool) -> None:
            if progress.update <= WARM_UP:
                self.began = time.perf_counter()
                return
            self.speeds.append(progress.tokens_per_s)
            if time.perf_counter() - self.began > seconds:
                print(
                    json.dumps({"tokens_per_s": statistics.harmonic_mean(self.speeds), "said": self.said}), flush=True
                )
                os._exit(0)

    overrides = ["train.log_every=1", "train.validate_every=1000000000", *settings]
    train(TrainRequest.make(run=run, data={"task": "phrasebook-de"}, model=size, overrides=overrides), Meter())


def measure(run: Path, threads: str, seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    """The speed of one training, and what it said of its threads."""
    environment = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    settings = [*options.set, f"train.threads={threads}"]
    child = [sys.executable, __file__, "--train", str(run), options.size, str(seconds), *settings]
    done = subprocess.run(child, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """So many processes that compute without end, until the block is left."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def compare(run: Path, busy: int, options: argparse.Namespace) -> dict[str, Any]:
    """The speeds with so many busy cores, and ``auto`` as a share of the best."""
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    with busy_cores(busy):
        for _ in range(options.rounds):
            for arm, threads in ARMS.items():
                found[arm].append(measure(run, threads, options.seconds, options))
    speeds = {arm: spread([one["tokens_per_s"] for one in each]) for arm, each in found.items()}
    share = speeds["auto"]["median"] / max(speed["median"] for speed in speeds.values())
    said = sorted({one["said"] for one in found["auto"]})
    line = "   ".join(f"{arm} {speed['median']:,.0f}" for arm, speed in speeds.items())
    print(f"{busy} busy cores: {line} tokens/s; auto is {share:.2f} of the best. {' '.join(said)}", flush=True)
    return {"tokens_per_s": speeds, "auto_of_best": share, "said": said}


def main() -> None:
    if sys.argv[1:2] == ["--train"]:
        run, size, seconds, *settings = sys.argv[2:]
        train_for(Path(run), size, float(seconds), settings)
        return
    parser = new_parser(__doc__)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    parser.add_argument("--size", choices=["micro", "tiny", "small", "base"], default="tiny")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each training")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="of the training")
    options = parse_options(parser, "--busy 1 --size micro --seconds 0 --rounds 1 --set train.batch_tokens=64")
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        measure(run, "1", 0.0, options)  # prepares the text
        busy = {str(count): compare(run, count, options) for count in options.busy}
    results = {"machine": machine(), "cores": available_cores(), "size": options.size, "seconds": options.seconds,
               "rounds": options.rounds, "busy": busy}  # fmt: skip
    write_json(options.json, results)


if __name__ == "__main__":
    main()
