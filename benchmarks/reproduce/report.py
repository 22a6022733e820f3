"""The report of a reproduction: every figure as plain values without any text, and the same as lines for a person."""

import json
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import library_versions, machine
from benchmarks.reproduce.evaluate import (
    INSTALL,
    MAIN_SCORING,
    OTHER_FORM,
    SCORINGS,
    FormConverter,
    Moses,
    Score,
    compare,
    convert_form,
    find_scoring,
    load_moses,
    score_all,
)
from benchmarks.reproduce.inputs import ReproduceRequest
from benchmarks.reproduce.recipe import TestSet
from benchmarks.reproduce.reproduce import ReproduceResult, SeedResult
from glassformer.errors import StorageError
from glassformer.files import sha256
from glassformer.text.lines import read_lines
from glassformer.training.reporting.run_log import format_duration
from glassformer.training.train import Outcome

REPORT = "report.json"
_TRAINING_HEAD = ("seed", "updates", "epochs", "target tokens", "time", "tokens/s", "valid loss", "model")


def make_report(request: ReproduceRequest, result: ReproduceResult) -> dict[str, Any]:
    """The settings, files and versions of a reproduction and all its figures, ready for JSON."""
    recipe, variant = request.recipe, request.variant
    settings, _ = request.seed_run(request.seeds[0]).read_config()
    return {
        "recipe": {"name": recipe.name, "title": recipe.title, "form": recipe.form},
        "variant": None if variant is None else {"name": variant.name, "why": variant.why},
        "changed": request.changes,
        "settings": settings.to_mapping(),
        "files": {name: sha256(path) for name, path in sorted(request.files.items())},
        "machine": machine(),
        "versions": library_versions(),
        "teachers": _report_teachers(request, result),
        "trainings": {str(seed): _report_seed(one) for seed, one in result.seeds.items()},
        "tests": {test.name: _report_test(request, test, result) for test in recipe.tests},
    }


def _report_teachers(request: ReproduceRequest, result: ReproduceResult) -> dict[str, Any] | None:
    """How each teacher was trained, and how many pairs the seeds learn from with their translations."""
    if result.diversification is None:
        return None
    trainings = {
        direction: {"changed": request.teachers[direction], **_report_training(outcome)}
        for direction, outcome in result.diversification.teachers.items()
    }
    return {"trainings": trainings, "pairs": result.diversification.pairs}


def _report_seed(result: SeedResult) -> dict[str, Any]:
    return {
        "parameters": result.parameters,
        "epochs": result.state.epoch,
        **_report_training(result.outcome),
        "best_update": result.state.best_update,
        "averaged": result.averaged,
        "translating_s": result.translating_s,
    }


def _report_training(outcome: Outcome) -> dict[str, Any]:
    assert outcome.final is not None
    return {
        "updates": outcome.updates,
        "ended": outcome.reason,
        "target_tokens": outcome.target_tokens,
        "elapsed_s": outcome.elapsed_s,
        "target_tokens_per_s": outcome.target_tokens / outcome.elapsed_s if outcome.elapsed_s else 0.0,
        "valid_loss": outcome.final.loss,
    }


def _report_test(request: ReproduceRequest, test: TestSet, result: ReproduceResult) -> dict[str, Any]:
    own, moses = request.recipe.form, load_moses(request.recipe.language)
    references = {
        form: list(read_lines(request.files[name]))
        for form, name in test.references().items()
        if name in request.files
    }
    outputs = {str(seed): one.outputs[test.name] for seed, one in result.seeds.items()}

    def score(seed: int, texts: list[str]) -> dict[str, Score]:
        converter = FormConverter(own, moses, request.seed_run(seed).read_tokenizers()[1])
        return score_all(converter.convert(texts), {**references, "pieces": converter.pieces(references[own])})

    scores = {seed: score(int(seed), texts) for seed, texts in outputs.items()}
    ensemble = score(request.seeds[0], result.ensemble[test.name]) if result.ensemble else {}
    main = find_scoring(MAIN_SCORING[own])
    return {
        "sentences": len(references[own]),
        "published": [vars(row) for row in test.published],
        "main": main.name,
        "ways": _summarize(scores),
        "ensemble": {name: _without_signature(one) for name, one in ensemble.items()},
        "left_out": _explain_missing(own, references, scores),
        "rules": _score_rules(own, references, moses),
        "bootstrap": compare(main, outputs, references[own]),
    }


def _summarize(scores: Mapping[str, Mapping[str, Score]]) -> dict[str, dict[str, Any]]:
    """For each scoring the mean and standard deviation over the seeds, and each seed's score."""
    first = next(iter(scores.values()))
    summary = {}
    for scoring in SCORINGS:
        if scoring.name not in first:
            continue
        values = [found[scoring.name].score for found in scores.values()]
        summary[scoring.name] = {
            "meaning": scoring.meaning,
            "signature": first[scoring.name].signature,
            "mean": statistics.fmean(values),
            "deviation": statistics.stdev(values) if len(values) > 1 else None,
            "seeds": {seed: _without_signature(found[scoring.name]) for seed, found in scores.items()},
        }
    return summary


def _without_signature(score: Score) -> dict[str, Any]:
    return {key: value for key, value in score.to_mapping().items() if key != "signature"}


def _explain_missing(own: str, references: Mapping[str, Any], scores: Mapping[str, Mapping[str, Score]]) -> str:
    """Why some scorings are missing; empty if none is."""
    missing = [scoring.name for scoring in SCORINGS if scoring.name not in next(iter(scores.values()))]
    if not missing:
        return ""
    other = OTHER_FORM[own]
    why = f"need {INSTALL}" if other in references else f"need {other} references, which are missing"
    return f"Left out: {', '.join(missing)}, which {why}."


def _score_rules(own: str, references: Mapping[str, list[str]], moses: Moses | None) -> dict[str, Any] | None:
    """What converting between the two forms costs: the scores of the references themselves after conversion."""
    if moses is None or OTHER_FORM[own] not in references:
        return None
    scores = score_all(convert_form(own, references[own], moses), references)
    return {"turned_into": OTHER_FORM[own], "scores": {name: one.score for name, one in scores.items()}}


def write_report(request: ReproduceRequest, report: Mapping[str, Any], evidence: Path | None) -> None:
    """Write ``report.json`` to the run, and to ``evidence`` if given, there with the metrics of each training."""
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    try:
        (request.run / REPORT).write_text(text, encoding="utf-8")
        if evidence is not None:
            evidence.mkdir(parents=True, exist_ok=True)
            (evidence / REPORT).write_text(text, encoding="utf-8")
            runs = {f"seed-{seed}": request.seed_run(seed) for seed in request.seeds}
            runs |= {f"teacher-{direction}": request.teacher_run(direction) for direction in request.teachers}
            for name, run in runs.items():
                shutil.copyfile(run.metrics_file, evidence / f"{name}.metrics.jsonl")
    except OSError as error:
        raise StorageError(
            f"{error.filename}: cannot be written: {error.strerror}. Free some space or name another --report."
        ) from error


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The trainings, then for each test set its scores, the published ones, and confidence intervals."""
    yield f"{report['recipe']['name']}: {report['recipe']['title']}"
    if report["variant"]:
        yield f"Variant {report['variant']['name']}: {report['variant']['why']}"
    if report["changed"]:
        yield f"Changed settings: {', '.join(report['changed'])}"
    if report["teachers"]:
        yield from _teacher_lines(report["teachers"])
    yield ""
    yield from _columns(_TRAINING_HEAD, [_training_row(seed, row) for seed, row in report["trainings"].items()])
    for name, test in report["tests"].items():
        yield ""
        yield f"{name}, {test['sentences']:,} sentences"
        yield from _score_lines(test)
        yield from _published_lines(test)
        yield from _bootstrap_lines(test["bootstrap"])


def _teacher_lines(found: Mapping[str, Any]) -> Iterator[str]:
    for direction, row in found["trainings"].items():
        changed = f" ({', '.join(row['changed'])})" if row["changed"] else ""
        yield (
            f"The {direction} teacher{changed}: {row['updates']:,} updates, "
            f"{row['target_tokens']:,} target tokens, {format_duration(row['elapsed_s'])}, "
            f"valid loss {row['valid_loss']:.3f}"
        )
    yield f"With their translations there are {found['pairs']:,} pairs."


def _training_row(seed: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        seed, f"{row['updates']:,}", str(row["epochs"]), f"{row['target_tokens']:,}",
        format_duration(row["elapsed_s"]), f"{row['target_tokens_per_s']:,.0f}", f"{row['valid_loss']:.3f}",
        "average" if row["averaged"] else "best single",
    )  # fmt: skip


def _score_lines(test: Mapping[str, Any]) -> Iterator[str]:
    scorings = test["ways"]
    seeds = list(next(iter(scorings.values()))["seeds"])
    ensemble = ("ensemble",) if test["ensemble"] else ()
    head = ("score", *(f"seed {seed}" for seed in seeds), "mean", "±", *ensemble, "signature")
    rows = [
        (name, *(f"{row['seeds'][seed]['score']:.2f}" for seed in seeds), f"{row['mean']:.2f}", _deviation(row),
         *(f"{test[key][name]['score']:.2f}" for key in ensemble), row["signature"])
        for name, row in scorings.items()
    ]  # fmt: skip
    yield from _columns(head, rows)
    yield from (f"{name}: {row['meaning']}." for name, row in scorings.items())
    if test["left_out"]:
        yield test["left_out"]
    if test["rules"]:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in test["rules"]["scores"].items())
        form = test["rules"]["turned_into"]
        yield f"The references themselves, converted to {form} text by the same rules, score: {scores}."


def _published_lines(test: Mapping[str, Any]) -> Iterator[str]:
    """The score that can be compared with the published ones, in full, and those."""
    systems = {f"seed {seed}": row for seed, row in test["ways"][test["main"]]["seeds"].items()}
    if test["ensemble"]:
        systems["their ensemble"] = test["ensemble"][test["main"]]
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


def _bootstrap_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['way']} over {found['resamples']:,} bootstrap resamples of the sentences:"
    for seed, row in found["redrawn"].items():
        yield f"  seed {seed}: {row['mean']:.2f} ± {row['interval']:.2f} (95 %)"
    for row in found["pairs"]:
        yield f"  seed {row['first']} - seed {row['second']}: {row['difference']:+.2f}, p = {row['p']:.3f}"


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of left-aligned columns, separated by two spaces."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
