"""Decoding and training today beside an earlier commit, taking turns; each cell's ratio is printed.

    python benchmarks/decoding_revisions.py 94bd01d [--rounds 5] [--cells small-greedy ...] [--turns 20]
                                            [--json FILE]

Each commit is checked out into a directory of its own and measures itself with its own scripts, with random weights,
one thread in each of two processes. Uncommitted changes do not count: "today" is HEAD.

With --turns, two further processes for each commit load once and then take turns: one trains ``tiny`` on the task
``dates`` as `glassformer train` does it, some updates a turn, one translates sentences with the model that the
earlier commit bundles. These are seconds of processor time of one thread, which other programs disturb less than the
clock.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from decoding import CELLS
from machine import machine, ratio
from processes import Answerer
from smoke import ROOT, new_parser, parse_options, write_json
from turns import KINDS

WARM_UP = 2  # turns
TURNS = ROOT / "benchmarks" / "turns.py"


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


def take_turns(trees: dict[str, Path], turns: int, kinds: list[str]) -> dict[str, dict[str, list[float]]]:
    """Seconds of each kind of work of each commit, the first turns left out."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in trees}
    bundled = str(trees["earlier"] / "glassformer" / "bundled" / "en-de")
    for kind in kinds:
        processes = {
            name: Answerer(TURNS, kind, bundled, cwd=tree, PYTHONPATH=str(tree), OMP_NUM_THREADS="1")
            for name, tree in trees.items()
        }
        for turn in range(turns + WARM_UP):
            for name in sorted(processes, reverse=turn % 2 == 1):
                seconds = processes[name].ask("a turn")
                if turn >= WARM_UP:
                    found[name].setdefault(kind, []).append(seconds)
        for process in processes.values():
            process.close()
    return found


def print_ratios(seconds: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """How many times as fast each cell is today."""
    cells = [cell for cell in seconds["today"] if cell in seconds["earlier"]]
    ratios = {cell: ratio(seconds["today"][cell], seconds["earlier"][cell]) for cell in cells}
    for cell, row in ratios.items():
        print(f"{cell:34} {row['median']:5.2f} times as fast   95 % {row['low']:.2f} to {row['high']:.2f}")
    return ratios


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("earlier", help="a commit, a tag or a branch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cells", nargs="*", choices=CELLS, default=CELLS)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--single-sentences", type=int, default=20)
    parser.add_argument("--turns", type=int, default=0, help="of training and of translating with the bundled model")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of work that takes turns")
    options = parse_options(parser, "HEAD --rounds 1 --cells small-greedy --sentences 4 --turns 2 --kinds greedy")
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
                    for cell, values in measured.items():
                        seconds[name].setdefault(cell, []).extend(values)
            if options.turns:
                for name, measured in take_turns(trees, options.turns, options.kinds).items():
                    seconds[name] |= measured
        finally:
            for tree in trees.values():
                git("worktree", "remove", "--force", str(tree))
    ratios = print_ratios(seconds)
    result = {"machine": machine(), "commits": commits, "ratios": ratios, "seconds": seconds}
    write_json(options.json, result)


if __name__ == "__main__":
    main()
