"""Train one small model for each kind of positions on short SCAN commands, and test it on longer ones.

    python benchmarks/positions_scan.py [--minutes 6] [--max-updates N] [--longest 26] [--json FILE]

All models train on the commands of up to ``--longest`` actions and are tested by exact match on all longer ones. 22
is the official length split; 26 is the cut at which Csordás et al. 2021 (arXiv 2108.12284) report about 100 % for
relative positions. Each is trained for the same minutes with the same seed, through the command line, as a user would
do it. The last weights are tested, not the best ones: validation on trained lengths says nothing about longer ones.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from operator import attrgetter
from pathlib import Path
from typing import Any

from command import glassformer
from machine import machine
from scan import commands
from smoke import new_parser, parse_options, write_json

from glassformer.tasks.task import divide
from glassformer.text.corpus.corpus import Pair

POSITIONS = ("sinusoidal", "relative", "rotary")
VALID_SHARE = 0.03
SETTINGS = {
    "model.d_model": 128, "model.n_heads": 8, "model.d_ff": 256, "model.n_encoder_layers": 2,
    "model.n_decoder_layers": 2, "model.dropout": 0.1, "model.norm": "post", "model.tie_embeddings": "target",
    "text.tokenizer": "words", "text.joint": "false", "train.schedule": "inverse_sqrt", "train.warmup": 500,
    "train.peak_rate": 1e-3, "train.label_smoothing": 0.0, "train.metric": "exact_match", "train.average_last": 1,
    "train.patience": 0, "train.validate_every": 1_000_000,
}  # fmt: skip


def length(pair: Pair) -> int:
    return len(pair.tgt.split())


def write_data(directory: Path, longest: int, every: int) -> list[Pair]:
    """Write training and validation pairs, test sources and references; returns the test pairs."""
    pairs = [Pair(command, " ".join(actions)) for command, actions in commands()][::every]
    kept = (pair for pair in pairs if length(pair) <= longest)
    train, valid, _ = divide(kept, attrgetter("src"), valid=VALID_SHARE, test=0.0)
    for name, part in (("train.tsv", train), ("valid.tsv", valid)):
        (directory / name).write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in part))
    test = [pair for pair in pairs if length(pair) > longest]
    for name, side in (("test.src", 0), ("test.tgt", 1)):
        (directory / name).write_text("".join(f"{pair[side]}\n" for pair in test))
    return test


def train(data: Path, run: Path, positions: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model; returns its updates, minutes and exact matches on commands of the trained lengths."""
    changes = {**SETTINGS, "model.positions": positions, "model.relative_clip": options.relative_clip,
               "train.seed": options.seed}  # fmt: skip
    settings = [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]
    limits = ["--max-minutes", options.minutes, "--max-updates", options.max_updates]
    glassformer(
        "train", data / "train.tsv", "--valid", data / "valid.tsv", "--run", run, *map(str, limits), *settings
    )
    glassformer("average", "--run", run, "--last", "1")  # the last weights, even if others validated better
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    validations = [record for record in records if "valid_exact_match" in record]
    state = json.loads(next((run / "final").glob("update-*/state.json")).read_text())
    return {
        "updates": validations[-1]["update"],
        "minutes": state["counters"]["elapsed_s"] / 60,
        "valid_exact_match": validations[-1]["valid_exact_match"],
    }


def evaluate(data: Path, run: Path, test: list[Pair]) -> dict[str, Any]:
    """Percentage of exact matches on the longer commands, in all and by number of actions; greedy search."""
    found = data / "found.txt"
    files = ["--src", data / "test.src", "--ref", data / "test.tgt", "--out", found]
    glassformer("evaluate", *files, "--run", run, "--beam", "1", "--json")
    right: dict[int, list[bool]] = defaultdict(list)
    for pair, output in zip(test, found.read_text().splitlines(), strict=True):
        right[length(pair)].append(output.split() == pair.tgt.split())
    answers = [answer for group in right.values() for answer in group]
    return {
        "test_exact_match": 100 * sum(answers) / len(answers),
        "by_length": {str(actions): 100 * sum(right[actions]) / len(right[actions]) for actions in sorted(right)},
    }


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    test = write_data(scratch, options.longest, options.every)
    models = {}
    for positions in options.positions:
        run = scratch / positions
        models[positions] = {**train(scratch, run, positions, options), **evaluate(scratch, run, test)}
        print(f"{positions:10} {json.dumps(models[positions])}", flush=True)
    return {
        "longest_trained": options.longest,
        "test_pairs": len(test),
        "minutes_each": options.minutes,
        "max_updates": options.max_updates,
        "seed": options.seed,
        "settings": {**SETTINGS, "model.relative_clip": options.relative_clip},
        "models": models,
        "machine": machine(),
    }


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=6.0, help="minutes of each training (default 6)")
    parser.add_argument("--max-updates", type=int, default=100_000, help="maximum updates of each training")
    parser.add_argument("--longest", type=int, default=26, help="maximum actions of a training command (default 26)")
    parser.add_argument(
        "--relative-clip", type=int, default=16, help="distance from which relative positions share one embedding"
    )
    parser.add_argument("--positions", nargs="+", choices=POSITIONS, default=POSITIONS)
    parser.add_argument("--every", type=int, default=1, help="take one command in so many (default 1)")
    parser.add_argument("--seed", type=int, default=1)
    options = parse_options(
        parser, "--minutes 0.03 --max-updates 2 --every 100 --positions relative", kept="positions_scan.json"
    )
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(options, Path(scratch))
    write_json(options.json, result)
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
