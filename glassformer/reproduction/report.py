"""All figures of a reproduction as plain values: trainings, scores in every way, what chance does. No text."""

import hashlib
import json
import shutil
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import StorageError
from glassformer.reproduction.bootstrap import compare
from glassformer.reproduction.forms import INSTALL, OTHER, Forms, Moses, moses_of, turned_over
from glassformer.reproduction.machine import library_versions, machine
from glassformer.reproduction.order import Order
from glassformer.reproduction.recipe import Test
from glassformer.reproduction.reproduce import Reproduced, SeedResult
from glassformer.reproduction.ways import WAY_OF_FORM, WAYS, Scored, scored_in_all_ways, way_named
from glassformer.text.lines import read_lines
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
