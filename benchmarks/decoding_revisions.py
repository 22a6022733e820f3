"""Decoding and training today beside an earlier commit, taking turns; each cell's ratio is printed.

    python benchmarks/decoding_revisions.py 94bd01d [--rounds 5] [--cells small-greedy ...] [--updates 40]
                                            [--json FILE]

Each commit is checked out into a directory of its own and measures itself with its own scripts, with random weights,
one thread in each of two processes. Uncommitted changes do not count: "today" is HEAD. The training is one of
``tiny`` on the task ``dates``, in one thread, as `glassformer train` does it; measured is the time of each update
but the first ten.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from decoding import CELLS
from machine import machine, ratio

WARM_UP = 10  # updates
ROOT = Path(__file__).resolve().parents[1]


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def seconds_of(
    tree: Path, cells: list[str], sentences: int, single_sentences: int, report: Path
) -> dict[str, list[float]]:
    """Seconds of each cell and precision, as decoding.py of that commit measures them (two rounds)."""
    subprocess.run(
        [
            *(sys.executable, str(tree / "benchmarks" / "decoding.py"), "--systems", "glassformer", "--rounds", "2"),
            *("--sentences", str(sentences), "--single-sentences", str(single_sentences), "--tuning-sentences", "0"),
            *("--cells", *cells, "--json", str(report)),
        ],
        check=True, cwd=tree, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(tree)},
    )  # fmt: skip
    measured = json.loads(report.read_text())["cells"]
    return {f"{cell} {arm}": seconds for cell in cells for arm, seconds in measured[cell]["seconds"].items()}


def updates_of(tree: Path, updates: int) -> list[float]:
    """Seconds of each update of a training with the package in ``tree``, measured in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "HEAD", "--time-training", "--updates", str(updates)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tree, env=environment)
    return list(json.loads(done.stdout))


def time_training(updates: int) -> list[float]:
    """Seconds of each update of a training in this process."""
    from glassformer.training.arguments import TrainRequest
    from glassformer.training.run_log import Display, TrainProgress
    from glassformer.training.train import train

    class Clock(Display):
        """When each update ended."""

        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_update(self, progress: TrainProgress, *, due: bool) -> None:
            self.ends.append(time.perf_counter())

    clock = Clock()
    limits = [f"train.max_updates={updates}", f"train.validate_every={updates}", "train.metric=loss"]
    with tempfile.TemporaryDirectory() as scratch:
        request = TrainRequest.make(run=Path(scratch, "run"), data={"task": "dates"}, overrides=limits)
        train(request.run, request.source, request.config, clock)
    return [end - start for start, end in pairwise(clock.ends[WARM_UP - 1 :])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("earlier", help="a commit, a tag or a branch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cells", nargs="*", choices=CELLS, default=CELLS)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--single-sentences", type=int, default=20)
    parser.add_argument("--updates", type=int, default=40, help="of the training; 0 leaves it out")
    parser.add_argument("--time-training", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.time_training:
        print(json.dumps(time_training(options.updates)))
        return
    random.seed(1)
    commits = {"today": git("rev-parse", "HEAD"), "earlier": git("rev-parse", options.earlier)}
    seconds: dict[str, dict[str, list[float]]] = {"today": {}, "earlier": {}}
    with tempfile.TemporaryDirectory() as scratch:
        trees = {name: Path(scratch, name) for name in commits}
        for name, commit in commits.items():
            git("worktree", "add", "--detach", str(trees[name]), commit)
        try:
            for _ in range(options.rounds):
                for name, tree in trees.items():
                    report, counts = Path(scratch, "report.json"), (options.sentences, options.single_sentences)
                    measured = seconds_of(tree, options.cells, *counts, report) if options.cells else {}
                    if options.updates:
                        measured["training tiny"] = updates_of(tree, options.updates)
                    for cell, values in measured.items():
                        seconds[name].setdefault(cell, []).extend(values)
        finally:
            for tree in trees.values():
                git("worktree", "remove", "--force", str(tree))
    cells = [cell for cell in seconds["today"] if cell in seconds["earlier"]]
    ratios = {cell: ratio(seconds["today"][cell], seconds["earlier"][cell]) for cell in cells}
    for cell, row in ratios.items():
        print(f"{cell:34} {row['median']:5.2f} times as fast   95 % {row['low']:.2f} to {row['high']:.2f}")
    result = {"machine": machine(), "commits": commits, "ratios": ratios, "seconds": seconds}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
