"""Learn the generated tasks and count exact matches on test pairs that no model has seen; greedy search.

    python benchmarks/tasks.py [--minutes 20] [--max-updates N] [--seeds 1 2 3] [--only 'scan-*'] [--json FILE]

``dates`` and ``phrasebook-de`` are trained as `glassformer train --task` trains them. SCAN's official splits
``length`` (train on up to 22 actions, test on 24 to 48) and ``addprim_jump`` are trained with each kind of positions
and the rest of the task's settings, for the same minutes; the last weights are judged, not the best ones, for what is
best on the trained commands says nothing of the others. All goes through the command line, as a user would go. Each
seed is written to the JSON when it is done, in place of what was measured for it before; the others stay, unless an
older state of the code measured them, which stands with them as "since".
"""

import argparse
import json
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from machine import machine
from positions_scan import POSITIONS, glassformer

from glassformer.tasks import load_task
from glassformer.text.corpus import Pair

LAST_WEIGHTS = {"train.patience": 0, "train.validate_every": 1_000_000, "train.average_last": 1}
PLAIN = ("dates", "phrasebook-de")
SCAN = ("scan-length", "scan-addprim_jump")
CSORDAS = "Csordás et al. 2021, arXiv 2108.12284"
PUBLISHED = {
    "scan-length": f"below 20 % for a plain Transformer; 100 % with relative positions at a cut of 26 ({CSORDAS})",
    "scan-addprim_jump": "0.3 % (Ontañón et al. 2021, arXiv 2108.04378) and 3.4 % (Chaabouni et al. 2021, arXiv "
    "2107.01366) for a plain Transformer; 43.0 % with T5's relative positions (the latter); as others quote them",
}
DEFAULT_JSON = Path(__file__).parent / "results" / "tasks.json"


def jobs(only: str) -> list[tuple[str, str]]:
    """Each task, and the kind of positions that is set for it, if any."""
    all_jobs = [(name, "") for name in PLAIN] + [(name, positions) for name in SCAN for positions in POSITIONS]
    return [job for job in all_jobs if fnmatchcase(job[0], only)]


def train(run: Path, task: str, positions: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model; how long that was."""
    changes: dict[str, Any] = {"train.seed": seed}
    if positions:
        changes |= {**LAST_WEIGHTS, "model.positions": positions}
    settings = [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]
    limits = ["--max-minutes", str(options.minutes)]
    if options.max_updates:
        limits += ["--max-updates", str(options.max_updates)]
    glassformer("train", "--task", task, "--run", run, *limits, *settings)
    if positions:
        glassformer("average", "--run", run, "--last", "1")
    counters = json.loads(next((run / "final").glob("update-*/state.json")).read_text())["counters"]
    return {"updates": counters["update"], "minutes": counters["elapsed_s"] / 60}


def judge(run: Path, pairs: list[Pair]) -> float:
    """Exact matches on some pairs, in percent."""
    files = {side: run / f"judged.{side}" for side in ("src", "tgt")}
    for number, path in enumerate(files.values()):
        path.write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")
    found = run / "found.txt"
    asked = ("--src", files["src"], "--ref", files["tgt"], "--out", found, "--run", run, "--beam", "1", "--json")
    glassformer("evaluate", *asked)
    outputs = found.read_text(encoding="utf-8").split("\n")
    return 100 * sum(output == pair.tgt for output, pair in zip(outputs, pairs, strict=False)) / len(pairs)


def measure(task: str, positions: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model; judge it on test pairs, and on validation pairs, which are as the trained."""
    pairs = load_task(task)
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        trained = train(run, task, positions, seed, options)
        judged = {"exact_match": judge(run, pairs.test), "valid_exact_match": judge(run, pairs.valid)}
    return {
        "task": task,
        "positions": positions or "as the task has it",
        "test_pairs": len(pairs.test),
        "seeds": [{"seed": seed, **trained, **judged}],
        "published": PUBLISHED.get(task, ""),
        "machine": machine(),
    }


def show(result: dict[str, Any]) -> None:
    """One row."""
    (one,) = result["seeds"]
    print(
        f"{result['task']:18} {result['positions']:20} seed {one['seed']}  {one['exact_match']:6.1f} %  "
        f"{one['updates']:,} updates, {one['minutes']:5.1f} min  published: {result['published'] or '-'}",
        flush=True,
    )


def record(path: Path, result: dict[str, Any]) -> None:
    """Put the result beside those of other tasks, positions and seeds."""
    kept = json.loads(path.read_text())["results"] if path.exists() else []
    place = next((i for i, one in enumerate(kept) if _what(one) == _what(result)), len(kept))
    before = kept[place]["seeds"] if place < len(kept) and "since" not in kept[place] else []
    done = {one["seed"]: one for one in [*before, *result["seeds"]]}
    kept[place : place + 1] = [{**result, "seeds": [done[seed] for seed in sorted(done)]}]
    path.write_text(json.dumps({"results": kept}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _what(result: dict[str, Any]) -> tuple[str, str]:
    return result["task"], result["positions"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="most minutes to train each model (default 20)")
    parser.add_argument("--max-updates", type=int, default=0, help="most updates; without it as many as the task has")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", default="*", metavar="GLOB", help="tasks whose names match")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, metavar="FILE")
    options = parser.parse_args()
    for seed in options.seeds:
        for task, positions in jobs(options.only):
            result = measure(task, positions, seed, options)
            show(result)
            record(options.json, result)
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
