"""Train on the generated tasks and report exact matches of greedy search on unseen test pairs.

    python benchmarks/tasks.py [--minutes 20] [--max-updates N] [--seeds 1 2 3] [--only 'scan-*'] [--json FILE]

``dates`` and ``phrasebook-de`` are trained as `glassformer train --task` trains them. SCAN's official splits
``length`` (train on up to 22 actions, test on 24 to 48) and ``addprim_jump``, which ``scan.py`` writes, are trained
with each kind of positions and otherwise its settings, each for the same minutes. There the last weights are
evaluated, not the best ones, because the validation loss on trained commands says nothing about the test commands.
Everything runs through the command line, as a user would run it. Each seed is written to the JSON when it is done and
replaces its earlier result. Results of other seeds stay, unless they were measured with an older version of the code,
which "since" marks.
"""

import argparse
import json
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from command import glassformer
from machine import machine
from positions_scan import POSITIONS
from scan import scan, write
from smoke import new_parser, parse_options, write_json

from glassformer.tasks import load_task
from glassformer.text.corpus.corpus import Pair

LAST_WEIGHTS = {"train.patience": 0, "train.validate_every": 1_000_000, "train.average_last": 1}
PLAIN = ("dates", "phrasebook-de")
SCAN = ("scan-length", "scan-addprim_jump")
CSORDAS = "Csordás et al. 2021, arXiv 2108.12284"
PUBLISHED = {
    "scan-length": f"below 20 % for a plain Transformer; 100 % with relative positions at a cut of 26 ({CSORDAS})",
    "scan-addprim_jump": "0.3 % (Ontañón et al. 2021, arXiv 2108.04378) and 3.4 % (Chaabouni et al. 2021, arXiv "
    "2107.01366) for a plain Transformer; 43.0 % with T5's relative positions (the latter); as others quote them",
}


def jobs(only: str) -> list[tuple[str, str]]:
    """Each task with the kind of positions to set, if any."""
    all_jobs = [(name, "") for name in PLAIN] + [(name, positions) for name in SCAN for positions in POSITIONS]
    return [job for job in all_jobs if fnmatchcase(job[0], only)]


def train(run: Path, task: str, positions: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model; returns its updates and minutes."""
    changes: dict[str, Any] = {"train.seed": seed}
    if positions:
        changes |= {**LAST_WEIGHTS, "model.positions": positions}
    settings = [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]
    text: tuple[str | Path, ...] = ("--task", task)
    if task in SCAN:
        data = run.with_name("scan")
        write(task.removeprefix("scan-"), data)
        text = (data / "train.tsv", "--valid", data / "valid.tsv", "--config", data / "settings.toml")
    limits = ["--max-minutes", str(options.minutes)]
    if options.max_updates:
        limits += ["--max-updates", str(options.max_updates)]
    glassformer("train", *text, "--run", run, *limits, *settings)
    if positions:
        glassformer("average", "--run", run, "--last", "1")
    counters = json.loads(next((run / "final").glob("update-*/state.json")).read_text())["counters"]
    return {"updates": counters["update"], "minutes": counters["elapsed_s"] / 60}


def exact_match(run: Path, pairs: list[Pair]) -> float:
    """Percentage of exact matches on ``pairs``."""
    files = {side: run / f"test.{side}" for side in ("src", "tgt")}
    for number, path in enumerate(files.values()):
        path.write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")
    options = ("--src", files["src"], "--ref", files["tgt"], "--run", run, "--beam", "1", "--json")
    return float(json.loads(glassformer("evaluate", *options))["exact_match"])


def measure(task: str, positions: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model and evaluate it on test pairs and on validation pairs, which resemble the training pairs."""
    if task in SCAN:
        _, valid, test = scan(task.removeprefix("scan-"))
    else:
        valid, test = load_task(task).valid, load_task(task).test
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        trained = train(run, task, positions, seed, options)
        scores = {"exact_match": exact_match(run, test), "valid_exact_match": exact_match(run, valid)}
    return {
        "task": task,
        "positions": positions or "the task's own",
        "test_pairs": len(test),
        "seeds": [{"seed": seed, **trained, **scores}],
        "published": PUBLISHED.get(task, ""),
        "machine": machine(),
    }


def show(result: dict[str, Any]) -> None:
    (one,) = result["seeds"]
    print(
        f"{result['task']:18} {result['positions']:20} seed {one['seed']}  {one['exact_match']:6.1f} %  "
        f"{one['updates']:,} updates, {one['minutes']:5.1f} min  published: {result['published'] or '-'}",
        flush=True,
    )


def record(path: Path, result: dict[str, Any]) -> None:
    """Add the result to the file, in place of an earlier one of the same task, positions and seed."""
    kept = json.loads(path.read_text())["results"] if path.exists() else []
    place = next((i for i, one in enumerate(kept) if _key(one) == _key(result)), len(kept))
    before = kept[place]["seeds"] if place < len(kept) and "since" not in kept[place] else []
    done = {one["seed"]: one for one in [*before, *result["seeds"]]}
    kept[place : place + 1] = [{**result, "seeds": [done[seed] for seed in sorted(done)]}]
    write_json(path, {"results": kept})


def _key(result: dict[str, Any]) -> tuple[str, str]:
    return result["task"], result["positions"]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="maximum minutes of each training (default 20)")
    parser.add_argument("--max-updates", type=int, default=0, help="maximum updates; default: the task's own")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", default="*", metavar="GLOB", help="only the tasks whose names match")
    options = parse_options(parser, "--minutes 0.03 --max-updates 2 --only dates --seeds 1", kept="tasks.json")
    for seed in options.seeds:
        for task, positions in jobs(options.only):
            result = measure(task, positions, seed, options)
            show(result)
            record(options.json, result)
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
