"""The race: how soon a training reaches a score, with several recipes, on four courses.

    python benchmarks/race.py --data DIR [--courses dates] [--only 'muon*'] [--seeds 1 2 3]
                              [--updates N | --minutes M] [--test] [--runs build/race] [--json FILE]
    python benchmarks/race.py --data DIR --cost        what an update of each recipe costs, measured in turns

Courses are dates, 2,000 and 20,000 pairs of Tatoeba drawn as in small_data.py, and Multi30k as people write it. DIR
holds tatoeba/ and multi30k/ as those scripts want them. A training has one thread, and ends after so many updates, or
after so many minutes of its own processor time, which other work on the machine costs it little of. Its last weights
are measured on validation text, by which recipes are chosen, and with --test translate the test set (beam 4), which
is for those that are kept. On a busy machine the cost of an update changes from minute to minute: compare recipes at
equal updates, and multiply by what --cost finds, where they take turns.

Stop it when you like: the same command goes on where it stopped. A cell that is in the JSON is not measured again.
"""

import json
import random
import shutil
import statistics
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from machine import machine
from small_data import FILES, corpus_of
from smoke import ROOT, new_parser, parse_options, write_json

from glassformer.decoding import Translator
from glassformer.settings import DecodeConfig
from glassformer.text.corpus.corpus import read_pairs
from glassformer.training import train as training
from glassformer.training.evaluation.evaluation import translate_and_score
from glassformer.training.evaluation.results import Validation
from glassformer.training.loop.trainer import Trainer
from glassformer.training.reporting.run_log import Display
from glassformer.training.request.arguments import TrainRequest

MULTI30K = [f"multi30k/{part}.{side}.gz" for part in ("train", "val", "test_2016_flickr") for side in ("en", "de")]
LIMITS = {"dates": 450, "tatoeba-2000": 400, "tatoeba-20000": 500, "multi30k": 400}  # updates of each course
COURSES = {
    "dates": [],
    "tatoeba-2000": [],
    "tatoeba-20000": [],
    "multi30k": ["model.name=tiny", "model.dropout=0.15", "text.vocab_size=4833"],
}
BEFORE = {"optimizer": "adam", "precision": "float32", "schedule": "noam", "warmup": 500, "cooldown": 0.25}
DATES = {**BEFORE, "schedule": "inverse_sqrt", "peak_rate": 0.003, "warmup": 200}  # its settings before the race
CONSTANT = {"schedule": "constant", "peak_rate": 0.004, "warmup": 100}
BF16 = {**BEFORE, "precision": "bf16"}
MUON = {**BF16, "optimizer": "muon", **CONSTANT}
# Each recipe names all that differ from the defaults before the race; each adds to the one before.
RECIPES: dict[str, dict[str, Any]] = {
    "before": BEFORE,
    "bf16": BF16,
    "now": MUON,
    "long cooldown": {**MUON, "cooldown": 0.5},
}
COST_UPDATES, COST_WARM_UP = 12, 3


@dataclass(frozen=True)
class Cell:
    """One training; ``limit`` is train.max_updates or train.max_minutes with its number."""

    course: str
    recipe: str
    seed: int
    limit: str

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.course}-{self.recipe}-{self.seed}-{self.limit}"


class Kept(Display):
    """Keeps the last validation."""

    def on_validation(self, validation: Validation, *, best: bool) -> None:
        """The last call wins."""
        self.last = validation


def data_of(course: str, seed: int, data: Path, place: Path) -> dict[str, str | None]:
    """The text of a course as ``train`` is told of it; writes drawn pairs, and the test set beside them."""
    if course == "dates":
        return {"task": "dates"}
    if course == "multi30k":
        names = {"src": "train.en", "tgt": "train.de", "valid_src": "val.en", "valid_tgt": "val.de"}
        return {key: str(data / course / f"{name}.gz") for key, name in names.items()}
    pairs, count = place / f"{course}-{seed}.tsv", int(course.partition("-")[2])
    if not pairs.exists():
        pool, test = corpus_of("tatoeba", data)
        drawn = random.Random(seed).sample(pool, count)
        for path, rows in ((pairs, drawn), (place / "tatoeba-test.tsv", test)):
            path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows), encoding="utf-8")
    return {"pairs": str(pairs)}


def request_of(cell: Cell, data: Path, runs: Path) -> TrainRequest:
    """The training of a cell; it measures itself at its end only."""
    recipe = RECIPES[cell.recipe]
    if cell.course == "dates" and recipe["schedule"] == "noam":
        recipe = {**DATES, "precision": recipe["precision"]}
    chosen = [f"train.{name}={value}" for name, value in recipe.items()]
    end = [cell.limit, "train.validate_every=100000", "train.save_minutes=1000"]
    text = data_of(cell.course, cell.seed, data, runs)
    overrides = [*COURSES[cell.course], *chosen, *end, f"train.seed={cell.seed}"]
    return TrainRequest.make(run=runs / cell.name, data=text, overrides=overrides)


def measure(cell: Cell, data: Path, runs: Path, *, test: bool) -> dict[str, Any]:
    """Train the cell, and measure its last weights."""
    shutil.rmtree(runs / cell.name, ignore_errors=True)
    request, kept, trainers = request_of(cell, data, runs), Kept(), list[Trainer]()

    def keep(trainer: Trainer) -> None:
        trainers.append(trainer)

    Trainer.finish = keep  # type: ignore[method-assign,assign]  # what it chooses from is raced, its choice is not
    outcome = training.train(request, kept)
    shutil.rmtree(runs / cell.name)
    found = {
        "course": cell.course, "recipe": cell.recipe, "seed": cell.seed, "limit": cell.limit,
        "train": request.config.train.to_mapping(), "updates": outcome.updates,
        "target_tokens": outcome.target_tokens, "elapsed_s": outcome.elapsed_s, "loss": kept.last.loss,
        "validation": kept.last.scores.values, "sentences": kept.last.scores.sentences, "machine": machine(),
    }  # fmt: skip
    if test:
        if cell.course == "multi30k":
            pairs = read_pairs(*(data / cell.course / f"test_2016_flickr.{side}.gz" for side in ("en", "de")))
        else:
            pairs = read_pairs(runs / "tatoeba-test.tsv")
        (trainer,) = trainers
        text, model = trainer.text, trainer.model.eval()
        translator = Translator(model, text.src_tokenizer, text.tgt_tokenizer, trainer.config.decode)
        found["test"] = translate_and_score(translator, list(pairs), DecodeConfig(beam=4))[0]
    return found


def cost(course: str, data: Path, runs: Path) -> dict[str, float]:
    """Milliseconds of processor time of an update with each recipe; they take turns, and the median counts."""
    trainers = {}

    def keep(trainer: Trainer) -> str:
        trainers[recipe] = trainer
        return "stopped"

    Trainer.fit = keep  # type: ignore[method-assign]
    for recipe in RECIPES:
        cell = Cell(course, recipe, 1, "train.max_updates=100000")
        shutil.rmtree(runs / cell.name, ignore_errors=True)
        training.train(request_of(cell, data, runs), Display())
    seconds: dict[str, list[float]] = {recipe: [] for recipe in trainers}
    for _ in range(COST_UPDATES):
        for recipe, trainer in trainers.items():
            start = time.process_time()
            trainer._update()
            seconds[recipe].append(time.process_time() - start)
            trainer.model.train()
    for trainer in trainers.values():
        shutil.rmtree(trainer.run.path)
    return {recipe: round(1e3 * statistics.median(one[COST_WARM_UP:]), 1) for recipe, one in seconds.items()}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--courses", nargs="+", choices=COURSES, default=list(COURSES))
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="the recipes whose names match")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--updates", type=int, help="of each training (default: the course's)")
    parser.add_argument("--minutes", type=float, help="of processor time of each training, instead")
    parser.add_argument("--test", action="store_true", help="score on the test set, too")
    parser.add_argument("--cost", action="store_true", help="measure what an update costs, and end")
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "race")
    options = parse_options(
        parser,
        "--data {data} --courses tatoeba-2000 --only now --updates 2 --runs {scratch}",
        files=[*FILES, *MULTI30K],
        kept="race.json",
    )
    torch.set_num_threads(1)
    time.monotonic = time.process_time
    options.runs.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = {"cost_ms": {}, "results": []}
    if options.json.exists():
        kept = json.loads(options.json.read_text())
    if options.cost:
        for course in options.courses:
            kept["cost_ms"][course] = cost(course, options.data, options.runs)
            print(course, kept["cost_ms"][course], flush=True)
            write_json(options.json, kept)
        return
    done = {Cell(one["course"], one["recipe"], one["seed"], one["limit"]) for one in kept["results"]}
    for course in options.courses:
        limit = f"train.max_updates={options.updates or LIMITS[course]}"
        if options.minutes:
            limit = f"train.max_minutes={options.minutes:g}"
        for seed in options.seeds:
            for recipe in RECIPES:
                cell = Cell(course, recipe, seed, limit)
                if cell in done or not any(fnmatchcase(recipe, pattern) for pattern in options.only):
                    continue
                found = measure(cell, options.data, options.runs, test=options.test)
                kept["results"].append(found)
                print(cell.name, round(found["loss"], 3), found["validation"], flush=True)
                write_json(options.json, kept)


if __name__ == "__main__":
    main()
