"""Train ``tiny`` En-De on Multi30k for some minutes with several settings; report speed and BLEU on test_2016_flickr.

    python benchmarks/multi30k.py --data DIR [--minutes 20] [--only 'cool*'] [--seeds 1] [--jobs 2] [--json FILE]

DIR holds train.en.gz, train.de.gz, val.* and test_2016_flickr.* (raw text). ``--jobs`` trainings run at the same time
and share the cores evenly. Everything runs through the command line, as a user would run it. A new result replaces an
earlier one of the same measurement in the JSON; the others stay. The data is licensed for non-commercial research:
weights trained on it must not be distributed.
"""

import argparse
import json
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import Any

from command import glassformer
from machine import machine, spread
from smoke import new_parser, parse_options, write_json

# There are far fewer epochs than the published recipe's 85, so dropout is lower than its 0.3.
COMMON = ["model.dropout=0.15", "text.vocab_size=4833"]
# Each entry names all of its settings, so that a result stays valid if a default changes.
PAPER = {"train.optimizer": "adam", "train.precision": "float32", "train.warmup": 500, "train.cooldown": 0}
PLAIN = {**PAPER, "train.batch_tokens": 2048, "train.bucket": 2, "model.positions": "sinusoidal"}
COOLDOWN = {**PLAIN, "train.cooldown": 0.25}
SMALL = {**COOLDOWN, "train.batch_tokens": 1024}
# Batches of mixed lengths are padded more: 1,290 cells hold as many tokens as 1,024 cells of similar lengths.
MIXED = {**COOLDOWN, "train.batch_tokens": 1290, "train.bucket": 16}
ROTARY = {"model.positions": "rotary"}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "cooldown": COOLDOWN,
    "cooldown, small updates": SMALL,
    "cooldown, small updates, mixed lengths": MIXED,
    "cooldown, small updates, mixed lengths, rotary": {**MIXED, **ROTARY},
    "cooldown, rotary": {**COOLDOWN, **ROTARY},
    "cooldown, small updates, BPE-dropout": {**SMALL, "text.bpe_dropout": 0.1},
    "cooldown, small updates, R-Drop": {**SMALL, "train.r_drop": 5},
}
FILES = [f"multi30k/{part}.{side}.gz" for part in ("train", "val", "test_2016_flickr") for side in ("en", "de")]


def measure(way: str, seed: int, options: argparse.Namespace, run: Path) -> dict[str, Any]:
    """Train and evaluate; the numbers come from the output and the files of the commands."""
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    files = {"--src": "train.en.gz", "--tgt": "train.de.gz", "--valid-src": "val.en.gz", "--valid-tgt": "val.de.gz"}
    paths = [part for option, name in files.items() for part in (option, options.data / name)]
    chosen = [f"{name}={value}" for name, value in SETTINGS[way].items()]
    changes = [*COMMON, *chosen, *options.set, f"train.seed={seed}"]
    settings = ["--model", "tiny", "--max-minutes", str(options.minutes)]
    settings += [part for change in changes for part in ("--set", change)]
    printed = glassformer("train", *paths, "--run", run, *settings, threads=threads)
    test = ["--src", options.data / "test_2016_flickr.en.gz", "--ref", options.data / "test_2016_flickr.de.gz"]
    scores = json.loads(glassformer("evaluate", *test, "--run", run, "--beam", "5", "--json", threads=threads))
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "way": way,
        "changed": changes,
        "seed": seed,
        "minutes": options.minutes,
        "test_2016_flickr": scores,
        "valid_loss": float(re.findall(r"on validation: loss ([\d.]+)", printed)[0]),
        "updates": max(record["update"] for record in records),
        "target_tokens": int(re.findall(r"updates, ([\d,]+) target tokens", printed)[0].replace(",", "")),
        "target_tokens_per_s": spread([record["tokens_per_s"] for record in records if "tokens_per_s" in record]),
        "padding_percent": float(re.findall(r"([\d.]+) % padding", printed)[0]),
        "beside": options.jobs - 1,
        "machine": {**machine(), "threads": threads},
    }


def record(path: Path, result: dict[str, Any]) -> None:
    """Add the result to the file, in place of an earlier one of the same measurement."""
    found = json.loads(path.read_text())["results"] if path.exists() else []
    others = [one for one in found if _key(one) != _key(result)]
    write_json(path, {"results": [*others, result]})


def _key(result: dict[str, Any]) -> tuple[str, int, float, int]:
    return result["way"], result["seed"], result["minutes"], result["machine"]["threads"]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20.0, help="minutes of each training (default 20)")
    parser.add_argument("--only", default="*", metavar="GLOB", help="only the settings whose names match")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--jobs", type=int, default=1, help="trainings at the same time (default 1)")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting of all")
    options = parse_options(
        parser,
        "--data {data}/multi30k --minutes 0.05 --only plain --set train.log_every=1 "
        "--set decode.max_length_a=0 --set decode.max_length_b=4",
        files=FILES,
        kept="multi30k.json",
    )
    lock = Lock()

    def run(way: str, seed: int) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            result = measure(way, seed, options, Path(scratch) / "run")
        with lock:
            print(json.dumps(result, indent=1), flush=True)
            record(options.json, result)

    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [
            pool.submit(run, way, seed)
            for seed in options.seeds
            for way in SETTINGS
            if fnmatchcase(way, options.only)
        ]
        for future in futures:
            future.result()


if __name__ == "__main__":
    main()
