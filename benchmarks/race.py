"""The race: minutes of one thread until a training reaches the mark of its course, with several recipes.

    python benchmarks/race.py --data DIR [--courses dates] [--only 'muon*'] [--seeds 1 2 3] [--minutes 8] [--test]
                              [--runs build/race] [--json FILE] [--table]

Courses are dates, 2,000 and 20,000 pairs of Tatoeba drawn as in small_data.py, and Multi30k as people write it. DIR
holds tatoeba/ and multi30k/ as those scripts want them. A training has one thread and so many minutes of its own
processor time, so that other work on the machine costs it nothing; it runs through the command line, as a user would
run it. It is scored by greedy search on its validation text, by which recipes are chosen; with --test also on the test
set (beam 4), for those that are kept. The time to a mark is the shortest of the tried minutes after which the score of
the final model is at the mark or above, and so an upper bound. --table prints what the JSON holds.

Stop it when you like: the same command goes on where it stopped. A cell that is in the JSON is not measured again.
"""

import json
import random
import shutil
import statistics
from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from command import glassformer
from machine import machine
from small_data import FILES, corpus_of
from smoke import ROOT, new_parser, parse_options, write_json

from glassformer.checkpoint import checkpoints
from glassformer.decoding import Translator
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig
from glassformer.text.corpus.corpus import read_pairs
from glassformer.text.corpus.prepare import read_prepared
from glassformer.training.evaluation.evaluation import translate_and_score
from glassformer.training.loop.checkpointing import TrainState

MULTI30K = [f"multi30k/{part}.{side}.gz" for part in ("train", "val", "test_2016_flickr") for side in ("en", "de")]


@dataclass(frozen=True)
class Course:
    """What is learned, for how many minutes if none are named, and the score that counts."""

    minutes: float
    metric: str
    mark: float
    settings: dict[str, Any]


# Every recipe on a course has these; marks are validation scores of the recipe "before" at its minutes.
COURSES = {
    "dates": Course(0.5, "exact_match", 99.0, {}),
    "tatoeba-2000": Course(2, "bleu", 0.0, {}),
    "tatoeba-20000": Course(6, "bleu", 0.0, {}),
    "multi30k": Course(6, "bleu", 0.0, {"model.name": "tiny", "model.dropout": 0.15, "text.vocab_size": 4833}),
}
BEFORE = {"train.optimizer": "adam", "train.precision": "float32"}
BF16 = {"train.precision": "bf16"}
MUON = {**BF16, "train.optimizer": "muon"}
INVERSE = {"train.schedule": "inverse_sqrt", "train.warmup": 500}
# Each recipe names all that differ from the defaults before the race.
RECIPES: dict[str, dict[str, Any]] = {
    "before": BEFORE,
    "bf16": BF16,
    "muon": MUON,
    "muon, 0.004, warm-up 100": {
        **MUON,
        "train.schedule": "inverse_sqrt",
        "train.peak_rate": 0.004,
        "train.warmup": 100,
    },
}


@dataclass(frozen=True)
class Cell:
    """One training."""

    course: str
    recipe: str
    seed: int
    minutes: float

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.course}-{self.recipe}-{self.seed}-{self.minutes:g}".replace(" ", "_").replace(",", "")


def options_of(course: str, seed: int, data: Path, place: Path) -> list[str | Path]:
    """The text of a course as ``train`` is told of it; writes the drawn pairs."""
    if course == "dates":
        return ["--task", "dates"]
    if course == "multi30k":
        names = {"src": "train.en", "tgt": "train.de", "valid-src": "val.en", "valid-tgt": "val.de"}
        return [part for option, name in names.items() for part in (f"--{option}", data / course / f"{name}.gz")]
    corpus, count = course.split("-")
    pairs = place / f"{course}-{seed}.tsv"
    if not pairs.exists():
        pool, test = corpus_of(corpus, data)
        drawn = random.Random(seed).sample(pool, int(count))
        for path, rows in ((pairs, drawn), (place / f"{corpus}-test.tsv", test)):
            path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows), encoding="utf-8")
    return [pairs]


def test_set(course: str, data: Path, place: Path) -> list[Any]:
    """The pairs of a course that no training sees."""
    if course == "multi30k":
        return list(read_pairs(*(data / course / f"test_2016_flickr.{side}.gz" for side in ("en", "de"))))
    return list(read_pairs(place / f"{course.split('-')[0]}-test.tsv"))


def measure(cell: Cell, data: Path, runs: Path, *, test: bool) -> dict[str, Any]:
    """Train the cell, or go on with it, and score it."""
    runs.mkdir(parents=True, exist_ok=True)
    course, run = COURSES[cell.course], runs / cell.name
    chosen = {**course.settings, **RECIPES[cell.recipe], "train.seed": cell.seed}
    if not (run / "final").exists():
        text = options_of(cell.course, cell.seed, data, runs)
        changes = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
        limits = ["--max-minutes", str(cell.minutes)]
        glassformer("train", *text, "--run", run, *limits, *changes, threads=1, processor_time=True)
    place = RunDirectory(run)
    loaded = place.load("cpu")
    state = TrainState.read(checkpoints(place.latest)[-1])
    prepared = read_prepared(place.text, loaded.config.text)
    assert prepared is not None
    translator = Translator(loaded.model, loaded.src_tokenizer, loaded.tgt_tokenizer, loaded.config.decode)
    valid = translate_and_score(translator, prepared.valid_text, DecodeConfig(beam=1))[0]
    found = {
        "course": cell.course, "recipe": cell.recipe, "seed": cell.seed, "minutes": cell.minutes, "chosen": chosen,
        "updates": state.update, "target_tokens": state.target_tokens, "elapsed_s": state.elapsed_s,
        "loss": state.best_loss, "validation": valid, "machine": machine(),
    }  # fmt: skip
    if test and cell.course != "dates":
        pairs = test_set(cell.course, data, runs)
        found["test"] = translate_and_score(translator, pairs, DecodeConfig(beam=4))[0]
    return found


def table(results: list[dict[str, Any]]) -> str:
    """The mean score on validation of each recipe, with its spread over seeds."""
    groups: dict[tuple[str, float, str], list[dict[str, Any]]] = defaultdict(list)
    for one in results:
        groups[one["course"], one["minutes"], one["recipe"]].append(one)
    lines = ["| course | minutes | recipe | updates | loss | score | spread | test | seeds |", "|" + " --- |" * 9]
    for (course, minutes, recipe), found in sorted(groups.items()):
        metric = COURSES[course].metric
        scores = [one["validation"][metric] for one in found]
        tests = [one["test"][metric] for one in found if "test" in one]
        mean = statistics.mean
        cells = (course, f"{minutes:g}", recipe, f"{mean(one['updates'] for one in found):,.0f}",
                 f"{mean(one['loss'] for one in found):.3f}", f"{mean(scores):.2f}",
                 f"{max(scores) - min(scores):.2f}", f"{mean(tests):.2f}" if tests else "", str(len(found)))  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--courses", nargs="+", choices=COURSES, default=list(COURSES))
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="the recipes whose names match")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--minutes", type=float, nargs="+", help="of each training (default: the course's)")
    parser.add_argument("--test", action="store_true", help="score on the test set, too")
    parser.add_argument("--table", action="store_true", help="print what was measured, and end")
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "race")
    options = parse_options(
        parser,
        "--data {data} --courses multi30k --only muon --minutes 0.02 --runs {scratch}",
        files=[*FILES, *MULTI30K],
        kept="race.json",
    )
    results: list[dict[str, Any]] = json.loads(options.json.read_text())["results"] if options.json.exists() else []
    if options.table:
        print(table(results))
        return
    done = {Cell(one["course"], one["recipe"], one["seed"], one["minutes"]) for one in results}
    cells = [
        Cell(course, recipe, seed, minutes)
        for course in options.courses
        for minutes in options.minutes or [COURSES[course].minutes]
        for seed in options.seeds
        for recipe in RECIPES
        if any(fnmatchcase(recipe, pattern) for pattern in options.only)
    ]
    for cell in cells:
        if cell in done:
            continue
        found = measure(cell, options.data, options.runs, test=options.test)
        results.append(found)
        print(
            cell.name, found["updates"], found["loss"], found["validation"][COURSES[cell.course].metric], flush=True
        )
        write_json(options.json, {"results": results})
        shutil.rmtree(options.runs / cell.name)


if __name__ == "__main__":
    main()
