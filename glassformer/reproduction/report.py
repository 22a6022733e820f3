"""All figures of a reproduction as plain values: trainings, scores in every way, what chance does. No text.

A report as lines for a person. Everything is read from the report.
"""

import hashlib
import json
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import StorageError
from glassformer.reproduction.evaluate import (
    INSTALL,
    OTHER,
    WAY_OF_FORM,
    WAYS,
    Forms,
    Moses,
    Scored,
    compare,
    moses_of,
    scored_in_all_ways,
    turned_over,
    way_named,
)
from glassformer.reproduction.inputs import Order
from glassformer.reproduction.machine import library_versions, machine
from glassformer.reproduction.recipe import Test
from glassformer.reproduction.reproduce import Reproduced, SeedResult
from glassformer.text.lines import read_lines
from glassformer.training.run_log import format_duration
from glassformer.training.train import Outcome

REPORT = "report.json"


def make_report(order: Order, found: Reproduced) -> dict[str, Any]:
    """What was done with which settings, files and versions, and what came of it; ready for JSON."""
    recipe = order.recipe
    settings, _ = order.run_of(order.seeds[0]).read_config()
    return {
        "recipe": {"name": recipe.name, "title": recipe.title, "form": recipe.form},
        "variant": None if order.variant is None else {"name": order.variant.name, "why": order.variant.why},
        "changed": order.changes,
        "settings": settings.to_mapping(),
        "files": {name: _sha256(place) for name, place in sorted(order.files.items())},
        "machine": machine(),
        "versions": library_versions(),
        "teachers": _teachers(order, found),
        "trainings": {str(seed): _training(result) for seed, result in found.seeds.items()},
        "tests": {test.name: _tested(order, test, found) for test in recipe.tests},
    }


def _teachers(order: Order, found: Reproduced) -> dict[str, Any] | None:
    """How each teacher was trained, and how many pairs the seeds learn with their help."""
    if found.taught is None:
        return None
    trainings = {
        direction: {"changed": order.teachers[direction], **_ended(outcome)}
        for direction, outcome in found.taught.teachers.items()
    }
    return {"trainings": trainings, "pairs": found.taught.pairs}


def _training(result: SeedResult) -> dict[str, Any]:
    return {
        "parameters": result.parameters,
        "epochs": result.state.epoch,
        **_ended(result.outcome),
        "best_update": result.state.best_update,
        "averaged": result.averaged,
        "translating_s": result.translating_s,
    }


def _ended(outcome: Outcome) -> dict[str, Any]:
    assert outcome.final is not None
    return {
        "updates": outcome.updates,
        "ended": outcome.reason,
        "target_tokens": outcome.target_tokens,
        "elapsed_s": outcome.elapsed_s,
        "target_tokens_per_s": outcome.target_tokens / outcome.elapsed_s if outcome.elapsed_s else 0.0,
        "valid_loss": outcome.final.loss,
    }


def _tested(order: Order, test: Test, found: Reproduced) -> dict[str, Any]:
    own, moses = order.recipe.form, moses_of(order.recipe.language)
    references = {
        form: list(read_lines(order.files[name])) for form, name in test.references().items() if name in order.files
    }
    outputs = {str(seed): result.outputs[test.name] for seed, result in found.seeds.items()}

    def scored(seed: int, texts: list[str]) -> dict[str, Scored]:
        forms = Forms(own, moses, order.run_of(seed).read_tokenizers()[1])
        return scored_in_all_ways(forms.of(texts), {**references, "pieces": forms.pieces(references[own])})

    scores = {seed: scored(int(seed), texts) for seed, texts in outputs.items()}
    ensemble = scored(order.seeds[0], found.ensemble[test.name]) if found.ensemble else {}
    main = way_named(WAY_OF_FORM[own])
    return {
        "sentences": len(references[own]),
        "published": [vars(row) for row in test.published],
        "main": main.name,
        "ways": _ways(scores),
        "ensemble": {way: _without_signature(one) for way, one in ensemble.items()},
        "left_out": _left_out(own, references, scores),
        "rules": _rules(own, references, moses),
        "bootstrap": compare(main, outputs, references[own]),
    }


def _ways(scores: Mapping[str, Mapping[str, Scored]]) -> dict[str, dict[str, Any]]:
    """For each way its mean and standard deviation over the seeds, and each seed's score."""
    first = next(iter(scores.values()))
    ways = {}
    for way in WAYS:
        if way.name not in first:
            continue
        values = [found[way.name].score for found in scores.values()]
        ways[way.name] = {
            "meaning": way.meaning,
            "signature": first[way.name].signature,
            "mean": statistics.fmean(values),
            "deviation": statistics.stdev(values) if len(values) > 1 else None,
            "seeds": {seed: _without_signature(found[way.name]) for seed, found in scores.items()},
        }
    return ways


def _without_signature(scored: Scored) -> dict[str, Any]:
    return {key: value for key, value in scored.to_mapping().items() if key != "signature"}


def _left_out(own: str, references: Mapping[str, Any], scores: Mapping[str, Mapping[str, Scored]]) -> str:
    """Why there are fewer ways than could be."""
    missing = [way.name for way in WAYS if way.name not in next(iter(scores.values()))]
    if not missing:
        return ""
    why = f"need {INSTALL}" if OTHER[own] in references else f"need {OTHER[own]} references, which are not there"
    return f"Left out: {', '.join(missing)}, which {why}."


def _rules(own: str, references: Mapping[str, list[str]], moses: Moses | None) -> dict[str, Any] | None:
    """What the rules between the two forms cost: the references themselves, turned over and scored."""
    if moses is None or OTHER[own] not in references:
        return None
    found = scored_in_all_ways(turned_over(own, references[own], moses), references)
    return {"turned_into": OTHER[own], "scores": {name: one.score for name, one in found.items()}}


def write_report(order: Order, report: Mapping[str, Any], evidence: Path | None) -> None:
    """``report.json`` into the run; also into ``evidence``, where given, with what each training logged."""
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    try:
        (order.run / REPORT).write_text(text, encoding="utf-8")
        if evidence is not None:
            evidence.mkdir(parents=True, exist_ok=True)
            (evidence / REPORT).write_text(text, encoding="utf-8")
            runs = {f"seed-{seed}": order.run_of(seed) for seed in order.seeds}
            runs |= {f"teacher-{direction}": order.teacher_run(direction) for direction in order.teachers}
            for name, run in runs.items():
                shutil.copyfile(run.metrics_file, evidence / f"{name}.metrics.jsonl")
    except OSError as error:
        raise StorageError(
            f"{error.filename}: cannot be written: {error.strerror}. Free some space or name another --report."
        ) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Trainings, then for each test set its scores, what others published, and what chance does."""
    yield f"{report['recipe']['name']}: {report['recipe']['title']}"
    if report["variant"]:
        yield f"Variant {report['variant']['name']}: {report['variant']['why']}"
    if report["changed"]:
        yield f"Settings that were changed: {', '.join(report['changed'])}"
    if report["teachers"]:
        yield from _teacher_lines(report["teachers"])
    yield ""
    yield from _columns(_TRAINING, [_training_lines(seed, row) for seed, row in report["trainings"].items()])
    for name, test in report["tests"].items():
        yield ""
        yield f"{name}, {test['sentences']:,} sentences"
        yield from _scores(test)
        yield from _main(test)
        yield from _bootstrap(test["bootstrap"])


_TRAINING = ("seed", "updates", "epochs", "target tokens", "time", "tokens/s", "valid loss", "model")


def _teacher_lines(found: Mapping[str, Any]) -> Iterator[str]:
    for direction, row in found["trainings"].items():
        changed = f" ({', '.join(row['changed'])})" if row["changed"] else ""
        yield (
            f"The {direction} teacher{changed}: {row['updates']:,} updates, "
            f"{row['target_tokens']:,} target tokens, {format_duration(row['elapsed_s'])}, "
            f"valid loss {row['valid_loss']:.3f}"
        )
    yield f"With their translations there are {found['pairs']:,} pairs."


def _training_lines(seed: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        seed, f"{row['updates']:,}", str(row["epochs"]), f"{row['target_tokens']:,}",
        format_duration(row["elapsed_s"]), f"{row['target_tokens_per_s']:,.0f}", f"{row['valid_loss']:.3f}",
        "average" if row["averaged"] else "best single",
    )  # fmt: skip


def _scores(test: Mapping[str, Any]) -> Iterator[str]:
    ways = test["ways"]
    seeds = list(next(iter(ways.values()))["seeds"])
    together = ("ensemble",) if test["ensemble"] else ()
    head = ("way", *(f"seed {seed}" for seed in seeds), "mean", "±", *together, "signature")
    rows = [
        (name, *(f"{row['seeds'][seed]['score']:.2f}" for seed in seeds), f"{row['mean']:.2f}", _deviation(row),
         *(f"{test[key][name]['score']:.2f}" for key in together), row["signature"])
        for name, row in ways.items()
    ]  # fmt: skip
    yield from _columns(head, rows)
    yield from (f"{name}: {row['meaning']}." for name, row in ways.items())
    if test["left_out"]:
        yield test["left_out"]
    if test["rules"]:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in test["rules"]["scores"].items())
        yield f"The references themselves, made {test['rules']['turned_into']} by the same rules, score: {scores}."


def _main(test: Mapping[str, Any]) -> Iterator[str]:
    """The figure to hold against the published ones, in full."""
    way = test["ways"][test["main"]]
    systems = {f"seed {seed}": row for seed, row in way["seeds"].items()}
    if test["ensemble"]:
        systems["ensemble of them"] = test["ensemble"][test["main"]]
    for name, row in systems.items():
        precisions = "/".join(f"{precision:.1f}" for precision in row["precisions"])
        yield (
            f"{name}: {test['main']} {row['score']:.2f}, {precisions}, BP {row['brevity_penalty']:.3f}, "
            f"{row['words']:,} words for {row['reference_words']:,}"
        )
    for row in test["published"]:
        details = f", {row['details']}" if row["details"] else ""
        yield f"published: {row['way']} {row['score']:.2f}{details} ({row['system']}, {row['source']})"


def _deviation(row: Mapping[str, Any]) -> str:
    return "-" if row["deviation"] is None else f"{row['deviation']:.2f}"


def _bootstrap(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['resamples']:,} times over redrawn sentences, {found['way']}:"
    for seed, row in found["redrawn"].items():
        yield f"  seed {seed}: {row['mean']:.2f} ± {row['interval']:.2f} (95 %)"
    for row in found["pairs"]:
        yield f"  seed {row['first']} - seed {row['second']}: {row['difference']:+.2f}, p = {row['p']:.3f}"


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Left-aligned, as wide as their widest, two spaces between."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
