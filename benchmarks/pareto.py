"""BLEU over sentences a second: a teacher and its students, by both engines and by Hugging Face.

    python benchmarks/pareto.py --work DIR --tatoeba en-de-large.tsv.gz [--json FILE] [--picture FILE]

The teacher is the bundled model. Students are trained in DIR, most by ``glassformer distill``; what is there is used
again, and a stopped training goes on: delete DIR/NAME to train one anew. Their sources, and the test, are those of
``examples/bundled/pairs.py``: no test sentence has been learned by the teacher.

Every model translates the test by every system, greedily, with a beam of 2 and with that of the teacher, in one
thread, from text to text. Shortlists are counted in what a model learned. The test is dealt into four parts of like
lengths. In each round all translate the same part by turns, so that a machine that slows down slows all of them; what
counts is processor time. BLEU is that of all parts (sacrebleu, 13a, cased). The reference is the teacher with its own
search on CTranslate2 in int8, without a shortlist. The verdict names the fastest point whose BLEU is at most 0.5
lower.
"""

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from machine import machine, spread
from sacrebleu.metrics.chrf import CHRF
from smoke import ROOT, new_parser, parse_options, write_json

from glassformer.bundled import BUNDLED
from glassformer.checkpoint import checkpoints, read_json
from glassformer.decoding import Translator
from glassformer.interop.transformers_export import export_transformers
from glassformer.run_directory import RunDirectory, load_run
from glassformer.text.corpus.corpus import Pair, read_pairs
from glassformer.training.evaluation.evaluation import score

TEACHER = "teacher"
TRAINING = [
    "--valid", "valid.tsv", "--set", "train.precision=bf16", "--set", "train.patience=0", "--set",
    "train.save_minutes=4",
]  # fmt: skip
# They learn what CTranslate2 writes for all sources of the text.
DISTIL = ["distill", TEACHER, "learn.tsv", "--beam", "4", "--engine", "ctranslate2", "--precision", "int8", *TRAINING]
INTERPOLATED = "interpolated.tsv"
# A student with the teacher's own layers is near it from the start: it learns for less long, at a lower rate. Its
# loss says nothing of how well it translates, so for ``train`` exact matches decide which model is kept.
STUDENTS = {
    "4+2": [
        *DISTIL, "--decoder-layers", "2", "--max-updates", "8500", "--set", "train.warmup=500", "--set",
        "train.peak_rate=5e-4", "--set", "train.validate_every=500",
    ],
    "4+2 interpolated": [
        "train", INTERPOLATED, "--init", TEACHER, *TRAINING, "--max-updates", "2600", "--set", "train.warmup=200",
        "--set", "train.peak_rate=4e-4", "--set", "train.validate_every=500", "--set", "train.metric=exact_match",
    ],
    "4+1": [*DISTIL, "--decoder-layers", "1", "--max-updates", "19000", "--set", "train.warmup=500"],
}  # fmt: skip
N_BEST = 4
ROUNDS, MARGIN, BATCH = 4, 0.5, 32
ENGINES: dict[str, dict[str, Any]] = {
    "torch": {"engine": "torch", "precision": "float32"},
    "ctranslate2": {"engine": "ctranslate2", "precision": "float32"},
    "ctranslate2, int8": {"engine": "ctranslate2", "precision": "int8"},
    "ctranslate2, int8, shortlist": {"engine": "ctranslate2", "precision": "int8", "shortlist": True},
}
PEER = "Hugging Face"
REFERENCE = "ctranslate2, int8"

Translate = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class Point:
    """One model by one system with one search."""

    model: str
    system: str
    search: str


def write_text(work: Path, tatoeba: Path) -> None:
    """The split of the bundled model; the sources of the students are those of its training pairs."""
    if (work / "test.tsv").exists() and (work / "learn.tsv").exists():
        return
    sys.path.insert(0, str(ROOT / "examples" / "bundled"))
    from pairs import extend, split

    found = split(list(read_pairs(tatoeba)), random.Random(1))
    found["learn"] = extend(found["train"])
    for name in ("learn", "valid", "test"):
        lines = (f"{pair.src}\t{pair.tgt}\n" for pair in found[name])
        (work / f"{name}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")


def write_interpolated(work: Path) -> None:
    """The sources with, of the teacher's best translations, one that a person wrote, or else the nearest to one.

    Sequence-level interpolation (Kim and Rush 2016, section 3.3), nearest by chrF.
    """
    if (work / INTERPOLATED).exists():
        return
    references: dict[str, list[str]] = {}
    for pair in read_pairs(work / "learn.tsv"):
        if not pair.blank:
            references.setdefault(pair.src, []).append(pair.tgt)
    metric = CHRF()
    with (
        Translator.load(work / TEACHER, engine="ctranslate2", precision="int8", shortlist=True) as translator,
        (work / f"{INTERPOLATED}.writing").open("w", encoding="utf-8", newline="\n") as file,
    ):
        options = translator.config.with_changes({"beam": N_BEST, "n_best": N_BEST})
        for one in translator.translate_stream(references, options, chunk=2000):
            found = [best.text for best in one.hypotheses if best.text and not best.truncated]
            known = references[one.source]
            exact = [text for text in found if text in known]
            scores = {text: metric.sentence_score(text, known).score for text in found if not exact}
            if found:
                file.write(f"{one.source}\t{exact[0] if exact else max(scores, key=scores.__getitem__)}\n")
    (work / f"{INTERPOLATED}.writing").rename(work / INTERPOLATED)


def train_student(work: Path, name: str) -> None:
    """Train a student, unless its training has ended."""
    if INTERPOLATED in STUDENTS[name]:
        write_interpolated(work)
    if not checkpoints(RunDirectory(work / name).final):
        command = [sys.executable, "-m", "glassformer", *STUDENTS[name], "--run", name]
        subprocess.run(command, check=True, cwd=work)


def make_shortlists(runs: dict[str, Path], work: Path) -> None:
    """Of the teacher from the students' sources and their translations, of a student from what it has learned."""
    for name, run in runs.items():
        if not RunDirectory(run).shortlist_file.exists():
            pairs = ["learn.tsv"] if name == TEACHER else []
            command = [sys.executable, "-m", "glassformer", "shortlist", *pairs, "--run", name]
            subprocess.run(command, check=True, cwd=work)


def our_translate(run: Path, beam: int, **engine: Any) -> Translate:
    """A Translator of ours with one worker."""
    translator = Translator.load(run, device="cpu", workers=1, **{"engine": "torch", **engine})
    options = translator.config.with_changes({"beam": beam})
    return lambda texts: [one.text for one in translator.translate(list(texts), options)]


def their_translate(exported: Path, beam: int) -> Translate:
    """``generate`` of the exported model, in batches of like lengths, longest first."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(exported)
    model = AutoModelForSeq2SeqLM.from_pretrained(exported)

    def translate(texts: Sequence[str]) -> list[str]:
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        outputs = [""] * len(texts)
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            batch = tokenizer(
                [texts[place] for place in places], return_tensors="pt", padding=True, return_token_type_ids=False
            )
            with torch.inference_mode():
                made = tokenizer.batch_decode(model.generate(**batch, num_beams=beam), skip_special_tokens=True)
            for place, text in zip(places, made, strict=True):
                outputs[place] = text
        return outputs

    return translate


def load_points(runs: dict[str, Path], work: Path) -> dict[Point, Translate]:
    """Every model by every system and search, ready to translate."""
    points: dict[Point, Translate] = {}
    beam = load_run(runs[TEACHER], "cpu").config.decode.beam
    for name, run in runs.items():
        exported = work / f"{name}.transformers"
        shutil.rmtree(exported, ignore_errors=True)
        export_transformers(load_run(run, "cpu"), exported)
        for search, width in {"greedy": 1, "beam 2": 2, f"beam {beam}": beam}.items():
            for system, engine in ENGINES.items():
                points[Point(name, system, search)] = our_translate(run, width, **engine)
            points[Point(name, PEER, search)] = their_translate(exported, width)
    return points


def measure(points: dict[Point, Translate], pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Sentences a second of processor time, and BLEU, of each point."""
    order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].src))
    parts = [order[part::ROUNDS] for part in range(ROUNDS)]
    speeds: dict[Point, list[float]] = {point: [] for point in points}
    outputs = {point: [""] * len(pairs) for point in points}
    for translate in points.values():
        translate([pair.src for pair in pairs[:8]])  # warms up
    for part in parts:
        for point, translate in points.items():
            start = time.process_time()
            found = translate([pairs[place].src for place in part])
            speeds[point].append(len(part) / (time.process_time() - start))
            for place, text in zip(part, found, strict=True):
                outputs[point][place] = text
    rows = []
    for point in points:
        bleu = score(outputs[point], [pair.tgt for pair in pairs])["bleu"]
        rows.append({**vars(point), "speed": (speed := spread(speeds[point])), "bleu": bleu})
        print(f"{point.model:8} {point.system:18} {point.search:7} {speed['median']:8.1f} /s  BLEU {bleu:.2f}")
    return rows


def describe(run: Path, name: str) -> dict[str, Any]:
    loaded = load_run(run, "cpu")
    counters = read_json(loaded.checkpoint / "state.json")["counters"]
    directory = RunDirectory(run)
    return {
        "command": " ".join(STUDENTS[name]),
        "parameters": sum(weight.numel() for weight in loaded.model.parameters()),
        "updates": counters["update"], "target_tokens": counters["target_tokens"],
        "sources": read_json(directory.text / "prepared.json")["counts"]["kept"],
        "ended": bool(checkpoints(directory.final)),
    }  # fmt: skip


def verdict(rows: list[dict[str, Any]], beam: str) -> str:
    """The fastest point that is as good as the reference, but for the margin, and the best student."""
    reference = next(
        row for row in rows if (row["model"], row["system"], row["search"]) == (TEACHER, REFERENCE, beam)
    )

    def compare(row: dict[str, Any]) -> str:
        times, lower = row["speed"]["median"] / reference["speed"]["median"], reference["bleu"] - row["bleu"]
        where = f"{lower:.1f} BLEU lower" if lower > 0 else f"{-lower:.1f} BLEU higher" if lower else "the reference"
        return f"{row['model']} by {row['system']}, {row['search']}, {times:.1f} times as fast, {where}"

    good = [row for row in rows if row["bleu"] >= reference["bleu"] - MARGIN]
    students = [row for row in rows if row["model"] != TEACHER]
    fastest = max(good, key=lambda row: row["speed"]["median"])
    plain = max((row for row in rows if row["model"] == TEACHER), key=lambda row: row["speed"]["median"])
    if students:
        best, quickest = (
            max(students, key=of) for of in (lambda row: row["bleu"], lambda row: row["speed"]["median"])
        )
        theirs = f" The students' best: {compare(best)}; their fastest: {compare(quickest)}."
    else:
        theirs = ""
    own = f"{reference['speed']['median']:.0f} sentences a second, BLEU {reference['bleu']:.1f}"
    return (
        f"Compared with the teacher by {REFERENCE}, with its own search ({own}): the fastest point at most {MARGIN} "
        f"BLEU lower: {compare(fastest)}. The teacher's fastest: {compare(plain)}.{theirs}"
    )


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Speed to the right, BLEU up; a colour a system, a shape a model, full without a beam."""
    import matplotlib as mpl

    mpl.use("svg" if path.suffix == ".svg" else "agg")
    from matplotlib import pyplot as plt

    colours = dict(
        zip([*ENGINES, PEER], ("#1f77b4", "#17becf", "#d62728", "#ff7f0e", "#9467bd", "#7f7f7f"), strict=True)
    )
    models = list(dict.fromkeys(row["model"] for row in rows))
    shapes = dict(zip(models, "osD^v", strict=False))
    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    for row in rows:
        fill = {"greedy": "full", "beam 2": "left"}.get(row["search"], "none")
        axes.plot(row["speed"]["median"], row["bleu"], shapes[row["model"]], color=colours[row["system"]],
                  markersize=8, fillstyle=fill)  # fmt: skip
    for name, colour in colours.items():
        axes.plot([], [], "s", color=colour, label=name)
    for name, shape in shapes.items():
        label = name if name == TEACHER else f"student {name}"
        axes.plot([], [], shape, color="black", markerfacecolor="white", label=label)
    axes.set_xscale("log")
    axes.set_xticks([50, 100, 200, 400, 800, 1600])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("sentences a second of one core (full: greedy, half: beam 2, hollow: beam 4)")
    axes.set_ylabel("BLEU on the held-out sentences")
    axes.grid(which="both", alpha=0.2)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where students are trained")
    parser.add_argument("--tatoeba", type=Path, help="the larger text of Tatoeba, to make WORK's files from")
    parser.add_argument("--students", nargs="*", default=[*STUDENTS], help="directories in WORK")
    parser.add_argument("--as-they-are", action="store_true", help="train nothing; a student may be unfinished")
    parser.add_argument("--note", default="", help="how students were trained that this script has not trained")
    parser.add_argument("--sentences", type=int, default=1000, help="of the test")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="also draw BLEU over speed, such as pareto.png")
    options = parse_options(
        parser,
        "--work {scratch} --tatoeba {data}/tatoeba/en-de-large.tsv.gz --students --sentences 8 "
        "--picture {scratch}/picture.png",
        modules=["transformers", "ctranslate2", "matplotlib"],
        files=["tatoeba/en-de-large.tsv.gz"],
        kept="pareto.json",
    )
    torch.set_num_threads(1)
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    if not (work / TEACHER).exists():
        shutil.copytree(BUNDLED, work / TEACHER)  # where students find what it has written
    write_text(work, options.tatoeba)
    make_shortlists({TEACHER: work / TEACHER}, work)
    for name in options.students if not options.as_they_are else ():
        train_student(work, name)
    runs = {TEACHER: work / TEACHER, **{name: work / name for name in options.students}}
    make_shortlists(runs, work)
    pairs = list(read_pairs(work / "test.tsv"))
    pairs = pairs[:: max(1, len(pairs) // options.sentences)][: options.sentences]
    rows = measure(load_points(runs, work), pairs)
    beam = f"beam {RunDirectory(work / TEACHER).read_config()[0].decode.beam}"
    said = verdict(rows, beam)
    print(said)
    versions = {name: version(name) for name in ("transformers", "ctranslate2", "sacrebleu")}
    students = {name: describe(runs[name], name) for name in options.students}
    result = {"machine": machine(), "versions": versions, "sentences": len(pairs), "rounds": ROUNDS,
              "students": students, "note": options.note, "points": rows, "verdict": said}  # fmt: skip
    write_json(options.json, result)
    if options.picture:
        draw(rows, options.picture)


if __name__ == "__main__":
    main()
