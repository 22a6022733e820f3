"""All figures of a reproduction as plain values: trainings, scores in every way, what chance does. No text."""

import hashlib
import json
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import StorageError
from glassformer.reproduction.bootstrap import compare
from glassformer.reproduction.machine import library_versions, machine
from glassformer.reproduction.moses import INSTALL, Moses, has_moses
from glassformer.reproduction.recipe import Recipe, Test
from glassformer.reproduction.reproduce import Order, SeedResult
from glassformer.reproduction.ways import WAY_OF_FORM, WAYS, Scored, scored_in_all_ways, way_named
from glassformer.run_directory import RunDirectory
from glassformer.text.lines import read_lines

REPORT = "report.json"


def make_report(order: Order, results: Mapping[int, SeedResult]) -> dict[str, Any]:
    """What was done with which settings, files and versions, and what came of it; ready for JSON."""
    recipe = order.recipe
    settings, _ = RunDirectory(order.run / f"seed-{order.seeds[0]}").read_config()
    return {
        "recipe": {"name": recipe.name, "title": recipe.title, "form": recipe.form},
        "changed": list(order.overrides),
        "settings": settings.to_mapping(),
        "files": {name: _sha256(place) for name, place in sorted(order.files.items())},
        "machine": machine(),
        "versions": library_versions(),
        "trainings": {str(seed): _training(result) for seed, result in results.items()},
        "tests": {test.name: _tested(order, test, results) for test in recipe.tests},
    }


def _training(result: SeedResult) -> dict[str, Any]:
    outcome, final = result.outcome, result.outcome.final
    assert final is not None
    return {
        "updates": outcome.updates,
        "epochs": result.state.epoch,
        "ended": outcome.reason,
        "target_tokens": outcome.target_tokens,
        "elapsed_s": outcome.elapsed_s,
        "target_tokens_per_s": outcome.target_tokens / outcome.elapsed_s if outcome.elapsed_s else 0.0,
        "best_update": result.state.best_update,
        "averaged": result.averaged,
        "valid_loss": final.loss,
        "translating_s": result.translating_s,
    }


def _tested(order: Order, test: Test, results: Mapping[int, SeedResult]) -> dict[str, Any]:
    recipe = order.recipe
    references = {
        form: list(read_lines(order.files[name])) for form, name in test.references().items() if name in order.files
    }
    moses = Moses(recipe.language) if has_moses() else None
    outputs = {str(seed): _in_forms(recipe, result.outputs[test.name], moses) for seed, result in results.items()}
    scores = {seed: scored_in_all_ways(forms, references) for seed, forms in outputs.items()}
    main = way_named(WAY_OF_FORM[recipe.form])
    own = {seed: forms[recipe.form] for seed, forms in outputs.items()}
    return {
        "sentences": len(references[recipe.form]),
        "published": [vars(row) for row in test.published],
        "main": main.name,
        "ways": _ways(scores),
        "left_out": _left_out(recipe, references, scores),
        "rules": _rules(recipe, references, moses),
        "bootstrap": compare(main, own, references[recipe.form]),
    }


def _in_forms(recipe: Recipe, outputs: Sequence[str], moses: Moses | None) -> dict[str, list[str]]:
    """The outputs as the model wrote them, and in the other form where its rules are at hand."""
    forms = {recipe.form: list(outputs)}
    if moses is not None:
        other, turn = _other_form(recipe, moses)
        forms[other] = [turn(text) for text in outputs]
    return forms


def _other_form(recipe: Recipe, moses: Moses) -> tuple[str, Any]:
    return ("raw", moses.detokenised) if recipe.form == "tokenised" else ("tokenised", moses.tokenised)


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
    values = scored.to_mapping()
    del values["signature"]
    return {key: value for key, value in values.items() if value not in (None, ())}


def _left_out(recipe: Recipe, references: Mapping[str, Any], scores: Mapping[str, Mapping[str, Scored]]) -> str:
    """Why there are fewer ways than could be."""
    missing = [way.name for way in WAYS if way.name not in next(iter(scores.values()))]
    if not missing:
        return ""
    other = "raw" if recipe.form == "tokenised" else "tokenised"
    why = f"the references are not there in {other} form" if other not in references else f"they need {INSTALL}"
    return f"left out: {', '.join(missing)}; {why}."


def _rules(recipe: Recipe, references: Mapping[str, list[str]], moses: Moses | None) -> dict[str, Any] | None:
    """What the rules between the two forms cost: the references themselves, turned over and scored."""
    if moses is None or len(references) < 2:
        return None
    other, turn = _other_form(recipe, moses)
    turned = {other: [turn(text) for text in references[recipe.form]]}
    found = scored_in_all_ways(turned, references)
    return {"turned_into": other, "scores": {name: one.score for name, one in found.items()}}


def write_report(order: Order, report: Mapping[str, Any], evidence: Path | None) -> None:
    """``report.json`` into the run; also into ``evidence``, where given, with each seed's numbers of its training."""
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    try:
        (order.run / REPORT).write_text(text, encoding="utf-8")
        if evidence is not None:
            evidence.mkdir(parents=True, exist_ok=True)
            (evidence / REPORT).write_text(text, encoding="utf-8")
            for seed in order.seeds:
                metrics = RunDirectory(order.run / f"seed-{seed}").metrics_file
                shutil.copyfile(metrics, evidence / f"seed-{seed}.metrics.jsonl")
    except OSError as error:
        raise StorageError(
            f"{error.filename}: cannot be written: {error.strerror}. Free some space or name another --report."
        ) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
