"""Train on 2,000 to 20,000 pairs with several settings, and score them on text that no training saw.

    python benchmarks/small_data.py --data DIR [--only now] [--pairs 2000 5000 20000] [--seeds 1 2 3]
                                    [--corpora tatoeba multi30k] [--minutes-times 1] [--jobs 2]
                                    [--runs build/small_data] [--json FILE]

DIR holds tatoeba/en-de-large.tsv.gz (a pair a line) and multi30k/{train,test_2016_flickr}.{en,de}.gz. Each training
has one thread and 4, 10 or 25 minutes for 2,000, 5,000 or 20,000 pairs, drawn by the seed: minutes of its own
processor time, so that other work on the machine costs it nothing. The test set is test_2016_flickr, or 1,000 pairs
of Tatoeba whose sentences, and those that differ from them in case and punctuation only, are in no training.
Trainings, and the scores of what they kept (beam 4), run through the command line, as a user would run it. Each model
that might have been kept is scored on the test set too, by greedy search, as training judges them on validation text.

A faster processor makes more updates in these minutes: --minutes-times 0.5 gives each training half of them.

Stop it when you like: the same command goes on where it stopped. A cell that is in the JSON is not measured again.
The data of Multi30k is licensed for non-commercial research: weights trained on it must not be distributed.
"""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from command import glassformer as run_command
from machine import machine
from smoke import ROOT, new_parser, parse_options, write_json

from glassformer.checkpoint import checkpoints, load_weights, weights_of
from glassformer.decoding import Translator
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig
from glassformer.text.corpus.corpus import read_pairs
from glassformer.text.lines import read_lines
from glassformer.training.evaluation.evaluation import translate_and_score
from glassformer.training.loop.averaging import average_weights
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.model_selection import list_contenders

MINUTES = {2_000: 4, 5_000: 10, 20_000: 25}
TEST_PAIRS = 1_000
FILES = ["tatoeba/en-de-large.tsv.gz"] + [
    f"multi30k/{part}.{side}.gz" for part in ("train", "test_2016_flickr") for side in ("en", "de")
]

Rows = list[tuple[str, str]]


def settings_of(pairs: int) -> dict[str, dict[str, Any]]:
    """The settings that are compared, from the defaults before this search to those since (``now``).

    Each names all that differ, so that results stay valid if a default changes.
    """
    before = {
        "model.name": "tiny",
        "model.dropout": 0.3,
        "model.positions": "sinusoidal",
        "text.vocab_size": min(8000, max(512, pairs // 6)),
        "text.joint": True,
        "text.bpe_dropout": 0.0,
        "train.batch_tokens": 2048,
        "train.label_smoothing": 0.1,
        "train.optimizer": "adam",
        "train.precision": "float32",
        "train.warmup": 500,
        "train.cooldown": 0.25,
        "train.metric": "chrf",
    }
    vocabulary = before["text.vocab_size"]
    larger = {"text.vocab_size": min(8000, 4 * vocabulary)}
    two_layers = {"model.n_encoder_layers": 2, "model.n_decoder_layers": 2}
    changes: dict[str, dict[str, Any]] = {
        "before": {},
        "rotary": {"model.positions": "rotary"},
        "batches of 1024": {"train.batch_tokens": 1024},
        "dropout 0.2": {"model.dropout": 0.2},
        "vocabulary x 2": {"text.vocab_size": 2 * vocabulary},
        "BPE-dropout": {"text.bpe_dropout": 0.1},
        "batches of 512": {"train.batch_tokens": 512},
        "2 + 2 layers": two_layers,
        "smoothing 0.2": {"train.label_smoothing": 0.2},
        "two vocabularies": {"text.joint": False, "model.tie_embeddings": "target"},
        "warm-up 250": {"train.warmup": 250},
        "dropout 0.1": {"model.dropout": 0.1},
        "small": {"model.name": "small", "model.dropout": 0.3},
        "vocabulary x 4": larger,
        "vocabulary x 4, dropout 0.2": {**larger, "model.dropout": 0.2},
        "vocabulary x 4, 2 + 2 layers, dropout 0.2": {**larger, **two_layers, "model.dropout": 0.2},
        "now": {"model.name": "micro", "model.dropout": 0.2, "text.vocab_size": min(8000, max(512, pairs))},
    }
    return {name: {**before, **change} for name, change in changes.items()}


@dataclass(frozen=True)
class Cell:
    """One training."""

    corpus: str
    pairs: int
    seed: int
    settings: str

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.corpus}-{self.pairs}-{self.seed}-{self.settings}".replace(" ", "_")


def bare(text: str) -> str:
    """The letters and digits alone, without case."""
    return "".join(character for character in text.casefold() if character.isalnum())


def corpus_of(name: str, data: Path) -> tuple[Rows, Rows]:
    """The pairs to draw from, and those of the test set."""
    if name == "multi30k":
        sides = [
            [list(read_lines(data / name / f"{part}.{side}.gz")) for side in ("en", "de")]
            for part in ("train", "test_2016_flickr")
        ]
        train, test = (list(zip(*each, strict=True)) for each in sides)
        return train, test
    rows = [tuple(line.split("\t")[:2]) for line in read_lines(data / name / "en-de-large.tsv.gz")]
    order = random.Random(0).sample(range(len(rows)), len(rows))
    test_rows: dict[str, tuple[str, str]] = {}
    for index in order:
        test_rows.setdefault(bare(rows[index][0]), rows[index])
        if len(test_rows) == TEST_PAIRS:
            break
    sources, targets = set(test_rows), {bare(tgt) for _, tgt in test_rows.values()}
    pool = [row for row in rows if bare(row[0]) not in sources and bare(row[1]) not in targets]
    return pool, list(test_rows.values())


glassformer = partial(run_command, threads=1)


def candidate_scores(run: Path, files: dict[str, Path]) -> list[dict[str, Any]]:
    """The scores on the test set of each model that the training might have kept, and whether it was kept."""
    torch.set_num_threads(1)
    place = RunDirectory(run)
    loaded = place.load("cpu")
    kept = {name: weight.clone() for name, weight in weights_of(loaded.model).items()}
    settings, state = loaded.config.train, TrainState.read(checkpoints(place.latest)[-1])
    test = list(read_pairs(files["test.en"], files["test.de"]))
    translator = Translator(loaded.model, loaded.src_tokenizer, loaded.tgt_tokenizer, loaded.config.decode)
    found = []
    for candidate in list_contenders(place, state, settings, print):
        weights = average_weights(candidate.checkpoints)
        load_weights(loaded.model, weights, run)
        scores, _ = translate_and_score(translator, test, DecodeConfig(beam=1))
        is_kept = all(torch.equal(weights[name], kept[name]) for name in weights)
        found.append({"name": candidate.name, "kept": is_kept, "bleu": scores["bleu"], "chrf": scores["chrf"]})
    return found


def measure(cell: Cell, data: Path, runs: Path, minutes_times: float) -> dict[str, Any]:
    """Train the cell, or go on with it, and score it."""
    directory = runs / cell.name
    run, files = directory / "run", {part: directory / part for part in ("pairs.tsv", "test.en", "test.de")}
    if not files["pairs.tsv"].exists():
        directory.mkdir(parents=True, exist_ok=True)
        pool, test = corpus_of(cell.corpus, data)
        for part, side in (("test.en", 0), ("test.de", 1)):
            files[part].write_text("".join(row[side] + "\n" for row in test), encoding="utf-8")
        drawn = random.Random(cell.seed).sample(pool, cell.pairs)
        files["pairs.tsv"].write_text("".join(f"{src}\t{tgt}\n" for src, tgt in drawn), encoding="utf-8")
    chosen = {**settings_of(cell.pairs)[cell.settings], "train.seed": cell.seed}
    changes = [
        part
        for name, value in chosen.items()
        for part in ("--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}")
    ]
    minutes = MINUTES[cell.pairs] * minutes_times
    if not (run / "final").exists():
        limits = ["--max-minutes", str(minutes)]
        glassformer("train", files["pairs.tsv"], "--run", run, *limits, *changes, processor_time=True)
    test = ["--src", files["test.en"], "--ref", files["test.de"]]
    scores = json.loads(glassformer("evaluate", *test, "--run", run, "--json"))
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "corpus": cell.corpus, "pairs": cell.pairs, "seed": cell.seed, "settings": cell.settings,
        "chosen": chosen, "minutes": minutes, "test": scores, "candidates": candidate_scores(run, files),
        "updates": max(record["update"] for record in records),
        "elapsed_s": max(record.get("elapsed_s", 0.0) for record in records),
        "machine": machine(),
    }  # fmt: skip


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="now", metavar="GLOB", help="the settings whose names match (default: now)")
    parser.add_argument("--pairs", type=int, nargs="+", choices=MINUTES, default=list(MINUTES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--corpora", nargs="+", choices=["tatoeba", "multi30k"], default=["tatoeba", "multi30k"])
    parser.add_argument("--minutes-times", type=float, default=1.0, metavar="X", help="of the minutes (default 1)")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at the same time (default 1)")
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "small_data")
    options = parse_options(
        parser,
        "--data {data} --pairs 2000 --seeds 1 --corpora multi30k --minutes-times 0.01 --runs {scratch}",
        files=FILES,
        kept="small_data.json",
    )
    lock = Lock()
    results: list[dict[str, Any]] = json.loads(options.json.read_text())["results"] if options.json.exists() else []
    done = {Cell(one["corpus"], one["pairs"], one["seed"], one["settings"]) for one in results}

    def run(cell: Cell) -> None:
        result = measure(cell, options.data, options.runs, options.minutes_times)
        with lock:
            results.append(result)
            print(cell.name, result["test"], flush=True)
            write_json(options.json, {"results": results})

    cells = [
        Cell(corpus, pairs, seed, settings)
        for pairs in options.pairs
        for settings in settings_of(pairs)
        if fnmatchcase(settings, options.only)
        for seed in options.seeds
        for corpus in options.corpora
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(run, cell) for cell in cells if cell not in done]:
            future.result()


if __name__ == "__main__":
    main()
