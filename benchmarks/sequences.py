"""Words to sounds, lemmas to forms, old to new spelling: errors on published test sets, beside published ones.

    python benchmarks/sequences.py [--data DIR] [--only low inflection-small/pol ...] [--seeds 1 2 3]
                                   [--updates N] [--runs build/sequences] [--json FILE]

DIR holds g2p/, inflection/ and spelling/ of SIGMORPHON 2021 and 2022 and of Bollmann 2019, as pairs in .tsv.gz. Each
language and seed is a training by the command line, with the preset that the pairs choose, one thread and no other
setting; of the models it keeps one by the development set. The test set is scored once, at the end. Seeds come
last: all languages have their first model before one has its second. With two or more the models are scored as one,
too (``ensemble``). Minutes are those of the processor.

Stop it when you like: the same command goes on where it stopped. A cell that is in the JSON is not measured again.
"""

import gzip
import json
import resource
import statistics
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from command import glassformer as run_command
from machine import machine
from smoke import ROOT, new_parser, parse_options, write_json

SMOKE = "--data {data} --only low/ady --seeds 1 --updates 20 --runs {scratch}/runs"
SMOKE_FILES = [f"g2p/ady.{part}.tsv.gz" for part in ("train", "dev", "test")]
# The baselines of the shared tasks: word error rates of g2p, accuracies of the others, in percent.
PUBLISHED: dict[str, dict[str, float]] = {
    "low": {"ady": 22, "gre": 21, "ice": 12, "ita": 19, "khm": 34},
    "inflection-small": {
        "pol": 59.3, "evn": 29.3, "ara": 66.0, "hun": 65.0, "kor": 23.5, "non": 55.9, "tur": 34.6, "got": 60.6,
    },
    "medium": {
        "bul": 18.3, "hbs_latn": 32.1, "arm_e": 7.0, "fre": 8.5, "geo": 0.0, "jpn_hira": 5.2, "kor": 16.3,
    },
    "inflection-large": {
        "pol": 69.5, "evn": 57.7, "ara": 78.5, "hun": 77.2, "kor": 56.2, "non": 85.0, "tur": 39.7, "got": 72.2,
    },
    "spelling": {"german-ridges": 84.24, "slovene-bohoric": 89.77},
    "high": {"eng_us": 41.94},
}  # fmt: skip
SPELLING_TOKENS = 25_000
FORMS = "1+3:2"


@dataclass(frozen=True)
class Cell:
    """A language of a task."""

    task: str
    language: str

    @property
    def name(self) -> str:
        """As ``--only`` names it."""
        return f"{self.task}/{self.language}"

    @property
    def metric(self) -> str:
        """The published one."""
        return "word_error_rate" if self.task in ("low", "medium", "high") else "exact_match"

    def files(self, data: Path) -> dict[str, Path]:
        """Training, development and test set."""
        if self.task == "spelling":
            return {part: data / f"spelling/{self.language}.{part}.tsv.gz" for part in ("train", "dev", "test")}
        if not self.task.startswith("inflection"):
            return {part: data / f"g2p/{self.language}.{part}.tsv.gz" for part in ("train", "dev", "test")}
        size = self.task.removeprefix("inflection-")
        names = {"train": f"{size}.train", "dev": "dev", "test": "gold"}
        return {part: data / f"inflection/{self.language}.{name}.tsv.gz" for part, name in names.items()}

    def columns(self) -> list[str]:
        """The option that names lemma, features and form."""
        return ["--columns", FORMS] if self.task.startswith("inflection") else []


def measure(cell: Cell, seed: int, options: Any) -> dict[str, Any]:
    """Train one model, and score it on the test set."""
    files, run = cell.files(options.data), options.runs / cell.task / cell.language / f"seed-{seed}"
    train = files["train"] if cell.task != "spelling" else _first_tokens(files["train"], options.runs)
    before = _processor_seconds()
    words = [train, "--valid", files["dev"], *cell.columns(), "--run", run, "--set", f"train.seed={seed}"]
    if options.updates:
        words += ["--max-updates", str(options.updates)]
    if not (run / "final").exists():
        run_command("train", *words, threads=1)
    minutes = (_processor_seconds() - before) / 60
    return {"task": cell.task, "language": cell.language, "seed": seed, "minutes": round(minutes, 1),
            **_score(cell, files["test"], [run])}  # fmt: skip


def _score(cell: Cell, test: Path, runs: list[Path]) -> dict[str, Any]:
    words = [word for run in runs for word in ("--run", run)]
    found = json.loads(
        run_command("evaluate", test, *cell.columns(), *words, "--engine", "torch", "--json", threads=1)
    )
    names = ("exact_match", "word_error_rate", "symbol_error_rate", "edit_distance", "sentences")
    return {name: found[name] for name in names}


def _first_tokens(path: Path, runs: Path) -> Path:
    """A copy with the first ``SPELLING_TOKENS`` pairs."""
    copy = runs / "spelling" / path.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "rt", encoding="utf-8") as file, gzip.open(copy, "wt", encoding="utf-8") as out:
        out.writelines(islice(file, SPELLING_TOKENS))
    return copy


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def summarize(results: list[dict[str, Any]], ensembles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each language: the mean and the spread over seeds, beside the published value."""
    rows = []
    for cell in cells():
        found = [one for one in results if (one["task"], one["language"]) == (cell.task, cell.language)]
        if found:
            values = [one[cell.metric] for one in found]
            together = [one for one in ensembles if (one["task"], one["language"]) == (cell.task, cell.language)]
            rows.append({
                "task": cell.task, "language": cell.language, "metric": cell.metric, "seeds": len(values),
                "mean": round(statistics.mean(values), 2), "spread": round(max(values) - min(values), 2),
                "ensemble": round(together[-1][cell.metric], 2) if together else None,
                "published": PUBLISHED[cell.task][cell.language],
                "minutes": round(statistics.mean(one["minutes"] for one in found), 1),
            })  # fmt: skip
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows in Markdown, as docs/sequences.md has them."""
    lines = [
        "| task | language | models | measured | between best and worst | as one | published | minutes each |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        name = "WER" if row["metric"] == "word_error_rate" else "accuracy"
        spread = f"{row['spread']:.1f}" if row["seeds"] > 1 else "–"
        together = "–" if row["ensemble"] is None else f"{row['ensemble']:.1f}"
        lines.append(
            f"| {row['task']} | {row['language']} | {row['seeds']} | "
            f"{name} {row['mean']:.1f} % | {spread} | {together} | "
            f"{row['published']:.1f} % | {row['minutes']:.1f} |"
        )
    return lines


def cells() -> list[Cell]:
    """All languages of all tasks, quick ones first."""
    return [Cell(task, language) for task, languages in PUBLISHED.items() for language in languages]


def main() -> None:
    """Measure what is missing, and write the results after each model."""
    parser = new_parser(__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "sequences", metavar="DIR")
    parser.add_argument("--only", nargs="+", default=[], metavar="TASK[/LANGUAGE]")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=0, help="instead of the preset's")
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "sequences", metavar="DIR")
    options = parse_options(parser, SMOKE, files=SMOKE_FILES, kept="sequences.json")
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    results, ensembles = kept.get("results", []), kept.get("ensembles", [])
    chosen = [cell for cell in cells() if not options.only or {cell.task, cell.name} & set(options.only)]
    for seed in options.seeds:
        for cell in chosen:
            key = (cell.task, cell.language, seed)
            if key in [(one["task"], one["language"], one["seed"]) for one in results]:
                continue
            results.append(measure(cell, seed, options))
            runs = [options.runs / cell.task / cell.language / f"seed-{each}" for each in options.seeds]
            trained = [run for run in runs if (run / "final").exists()]
            if len(trained) > 1:
                score = _score(cell, cell.files(options.data)["test"], trained)
                known = {"task": cell.task, "language": cell.language, "models": len(trained)}
                ensembles.append({**known, **score})
            rows = summarize(results, ensembles)
            write_json(
                options.json, {"machine": machine(), "summary": rows, "results": results, "ensembles": ensembles}
            )
            print(json.dumps(results[-1]), flush=True)
    print(*table(summarize(results, ensembles)), sep="\n")


if __name__ == "__main__":
    main()
