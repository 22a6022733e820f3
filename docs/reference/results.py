"""The page of results: reproductions of published results, short trainings on Multi30k, and the generated tasks.

The figures are those that `python -m benchmarks.reproduce --report`, benchmarks/multi30k.py, tasks.py and
positions_scan.py left in benchmarks/results.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from glassformer.settings import RunConfig
from glassformer.settings.section import apply_overrides
from reference.markdown import code, page, table
from reference.small_data import fine_tuning, placeholders, small_data

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.append(str(ROOT))
from benchmarks.reproduce.evaluate import find_scoring  # noqa: E402
from benchmarks.reproduce.recipe import read_recipe, recipe_names  # noqa: E402


def reports() -> list[Path]:
    """The reports of reproductions; without any there is no page."""
    return sorted(RESULTS.glob("*/report.json"))


def results_page() -> str:
    found = {path.parent.name: json.loads(path.read_text("utf-8")) for path in reports()}
    head = ["recipe", "norm", "positions", "dropout", "vocabulary", "cells an update", "updates", "cooldown",
            "teachers", "target tokens a seed", "minutes a seed", "seeds", "score", "published", "chrF"]  # fmt: skip
    return page(
        "Published results, reproduced",
        "Each reproduction is one command, `python -m benchmarks.reproduce RECIPE`: it trains with several seeds, "
        "translates the test set and scores the translations. Each score has its sacrebleu signature, which says how "
        "it was computed. Multi30k is licensed for non-commercial research and education: neither its text nor "
        "weights trained on it are here, only numbers.",
        table(head, (row for name, report in found.items() for row in _overview(name, report))),
        *_short_trainings(),
        *small_data(),
        *fine_tuning(),
        *placeholders(),
        *_generated_tasks(),
        *(block for name, report in found.items() for block in _reproduction(name, report)),
    )


def _overview(name: str, report: dict[str, Any]) -> Iterator[list[str]]:
    """A row for each test set, with the mean of the trainings."""
    model, text, train = (report["settings"][section] for section in ("model", "text", "train"))
    updates, tokens, seconds = (
        fmean(row[key] for row in report["trainings"].values()) for key in ("updates", "target_tokens", "elapsed_s")
    )
    for test in report["tests"].values():
        main, chrf = test["ways"][test["main"]], test["ways"]["chrF"]
        yield [
            name, model["norm"], model["positions"], str(model["dropout"]), f"{text['vocab_size']:,}",
            f"{train['batch_tokens'] * train['accumulate']:,}", f"{updates:,.0f}",
            f"{train['cooldown']:.0%}" if train.get("cooldown") else "-", _teachers_in_short(report),
            f"{tokens:,.0f}", f"{seconds / 60:.0f}",
            ", ".join(main["seeds"]), f"{test['main']} {main['mean']:.2f}",
            *([f"{row['score']:.2f}" for row in test["published"][:1]] or ["-"]), f"{chrf['mean']:.2f}",
        ]  # fmt: skip


def _reproduction(name: str, report: dict[str, Any]) -> Iterator[str]:
    recipe = report["recipe"]
    suffix, variant = name.partition(".")[2], report["variant"]
    yield f"## {recipe['title']}" + (f": {suffix}" if suffix else "")
    if variant:
        yield f"{variant['why'].rstrip('.')}."
    elif suffix:
        yield "Trained once more with the same settings, by a later version on another processor."
    yield (
        f"[{recipe['name']}.toml](../benchmarks/reproduce/recipes/{recipe['name']}.toml) has every setting, and the "
        f"published one where ours differs. {_where(report)} All figures: [the report]({_place(name)}/report.json) "
        f"and {_logs(name, report)}."
    )
    if recipe["name"] in recipe_names() and not variant and (missing := _variants_without_report(recipe["name"])):
        yield f"Variants not yet trained to the end: {', '.join(missing)}."
    if since := report.get("since"):  # written into the report by hand once the code has changed
        yield since
    if report["changed"]:
        yield f"Changed from the recipe: {', '.join(map(code, report['changed']))}."
    if teachers := report.get("teachers"):  # missing in reports that are older than teachers
        yield _teachers(teachers)
    head = ["seed", "updates", "epochs", "target tokens", "minutes", "tokens a second", "validation loss", "model"]
    yield table(head, _trainings(report))
    for test_name, test in report["tests"].items():
        yield from _test(test_name, test)


def _teachers_in_short(report: dict[str, Any]) -> str:
    found = report.get("teachers")
    trainings = found["trainings"].items() if found else ()
    return ", ".join(f"{direction}: {row['updates']:,} updates" for direction, row in trainings) or "-"


def _teachers(found: dict[str, Any]) -> str:
    trainings = "; ".join(
        f"{direction} ({', '.join(map(code, row['changed'])) or 'the recipe itself'}): {row['updates']:,} updates, "
        f"{row['target_tokens']:,} target tokens, {row['elapsed_s'] / 60:.0f} minutes, "
        f"validation loss {row['valid_loss']:.3f}"
        for direction, row in found["trainings"].items()
    )
    return (
        f"The teachers, whose training and translating are not included in the cost of the seeds: {trainings}. With "
        f"their translations each seed learns from {found['pairs']:,} pairs."
    )


def _variants_without_report(recipe: str) -> list[str]:
    """The variants that have no report, each with its description."""
    return [
        f"{code(variant.name)} ({variant.why})"
        for variant in read_recipe(recipe).variants
        if not (RESULTS / f"{recipe}.{variant.name}").is_dir()
    ]


def _where(report: dict[str, Any]) -> str:
    machine = report["machine"]
    chip = f"{machine['gpu']}" if "gpu" in machine else f"{machine['processor']}, {machine['cores']} cores, no GPU"
    return f"Trained on {chip}, threads: {machine['threads']}, PyTorch {machine['torch']}."


def _place(name: str) -> str:
    return f"../benchmarks/results/{name}"


def _logs(name: str, report: dict[str, Any]) -> str:
    names = [f"seed {seed}" for seed in report["trainings"]]
    names += [f"teacher {direction}" for direction in (report.get("teachers") or {"trainings": ()})["trainings"]]
    links = [f"[{one}]({_place(name)}/{one.replace(' ', '-')}.metrics.jsonl)" for one in names]
    return f"the log of each training: {', '.join(links)}"


def _trainings(report: dict[str, Any]) -> Iterator[list[str]]:
    for seed, row in report["trainings"].items():
        yield [
            seed, f"{row['updates']:,}", str(row["epochs"]), f"{row['target_tokens']:,}",
            f"{row['elapsed_s'] / 60:.0f}", f"{row['target_tokens_per_s']:,.0f}", f"{row['valid_loss']:.3f}",
            "the average" if row["averaged"] else "the best single checkpoint",
        ]  # fmt: skip


def _test(name: str, test: dict[str, Any]) -> Iterator[str]:
    main = test["ways"][test["main"]]
    yield f"### {name}, {test['sentences']:,} sentences"
    yield table(["system", test["main"], "details"], _systems(test, main))
    deviation = (
        " The number after ± is the standard deviation over the seeds." if main["deviation"] is not None else ""
    )
    yield f"The signature is {code(main['signature'])}.{deviation}"
    yield "### The same translations with other scores"
    yield (
        f"Why do the figures of papers differ so much? Every row scores the same {test['sentences']:,} translations. "
        "Two figures can be compared only if text and signature are the same."
    )
    head = ["score", "meaning", *(f"seed {seed}" for seed in main["seeds"]), "mean"]
    yield table([*head, *(["ensemble"] if test.get("ensemble") else []), "signature"], _scores(test))
    yield " ".join(filter(None, [_rules(test), test["left_out"]]))
    yield "### How much is chance"
    bootstrap = test["bootstrap"]
    yield (
        f"Scores over {bootstrap['resamples']:,} bootstrap resamples of the test sentences "
        f"({code(bootstrap['signature'])}), and a paired test of every two seeds. A small p means that a difference "
        "is hardly chance."
    )
    yield table(["seed", test["main"], "95 % interval"],
                ([seed, f"{row['mean']:.2f}", f"± {row['interval']:.2f}"]
                 for seed, row in bootstrap["redrawn"].items()))  # fmt: skip
    if bootstrap["pairs"]:
        yield table(["seeds", "difference", "p"],
                    ([f"{row['first']} and {row['second']}", f"{row['difference']:+.2f}", f"{row['p']:.3f}"]
                     for row in bootstrap["pairs"]))  # fmt: skip


def _systems(test: dict[str, Any], main: dict[str, Any]) -> Iterator[list[str]]:
    spread = "" if main["deviation"] is None else f" ± {main['deviation']:.2f}"
    seeds = "; ".join(_in_full(row) for row in main["seeds"].values())
    yield [
        f"glassformer, seed{'s' * (len(main['seeds']) > 1)} {', '.join(main['seeds'])}",
        f"{main['mean']:.2f}{spread}",
        seeds,
    ]
    if ensemble := test.get("ensemble"):
        row = ensemble[test["main"]]
        yield ["the same seeds as one ensemble", f"{row['score']:.2f}", _in_full(row)]
    for row in test["published"]:
        details = f"{row['details']}; " if row["details"] else ""
        yield [row["system"], f"{row['score']:.2f}", f"{details}{row['source']}"]


def _in_full(row: dict[str, Any]) -> str:
    precisions = "/".join(f"{value:.1f}" for value in row["precisions"])
    words = f"{row['words']:,} words for {row['reference_words']:,}"
    return f"{row['score']:.2f} ({precisions}, BP {row['brevity_penalty']:.3f}, {words})"


def _scores(test: dict[str, Any]) -> Iterator[list[str]]:
    for name, row in test["ways"].items():
        scores = [f"{one['score']:.2f}" for one in row["seeds"].values()]
        ensemble = [f"{found[name]['score']:.2f}"] if (found := test.get("ensemble")) else []
        meaning = find_scoring(name).meaning
        yield [name, meaning, *scores, f"{row['mean']:.2f}", *ensemble, code(row["signature"])]


def _rules(test: dict[str, Any]) -> str:
    if not test["rules"]:
        return ""
    scores = ", ".join(f"{name} {score:.2f}" for name, score in test["rules"]["scores"].items())
    return (
        f"The text was converted to {test['rules']['turned_into']} by Moses's rules (sacremoses). The references "
        f"themselves, converted in the same way, score: {scores}. A perfect translation would score the same."
    )


def _short_trainings() -> Iterator[str]:
    """What settings gain in a short training on raw Multi30k."""
    path = RESULTS / "multi30k.json"
    if not path.is_file():
        return
    found = json.loads(path.read_text("utf-8"))["results"]
    machine, common = found[0]["machine"], set.intersection(*(_changes(one) for one in found))
    signature = found[0]["test_2016_flickr"]["signatures"]["bleu"]
    yield "## Multi30k in minutes"
    yield (
        f"{code('glassformer train --model tiny')} on the raw English-German text, with the defaults and with some "
        f"of them changed, translated with a beam of 5; all have {', '.join(map(code, sorted(common)))}. BLEU of "
        f"test_2016_flickr, cased, detokenised: {code(signature)}. Trained on {machine['processor']}, no GPU, "
        f"PyTorch {machine['torch']}. Measured with {code('python benchmarks/multi30k.py --data DIR --jobs 2')}; all "
        f"figures: [multi30k.json](../benchmarks/results/{path.name})."
    )
    head = ["settings", "changed", "seed", "minutes", "threads", "updates", "target tokens", "validation loss",
            "BLEU", "chrF"]  # fmt: skip
    yield table(head, (_short_training(one, common) for one in found))


def _changes(result: dict[str, Any]) -> set[str]:
    """The settings that differ from today's defaults, except the seed, which has its own column."""
    defaults = RunConfig.from_mapping({"model": {"name": "tiny"}}).to_mapping()
    changes = set()
    for setting in result["changed"]:
        values: dict[str, dict[str, Any]] = {}
        apply_overrides(values, [setting])
        ((section, own),) = values.items()
        ((name, value),) = own.items()
        if name != "seed" and defaults[section][name] != value:
            changes.add(setting)
    return changes


def _short_training(result: dict[str, Any], common: set[str]) -> list[str]:
    changes = sorted(_changes(result) - common)
    return [
        result["way"], ", ".join(map(code, changes)) or "the defaults", str(result["seed"]),
        f"{result['minutes']:g}", str(result["machine"]["threads"]), f"{result['updates']:,}",
        f"{result['target_tokens']:,}", f"{result['valid_loss']:.3f}",
        *(f"{result['test_2016_flickr'][score]:.1f}" for score in ("bleu", "chrf")),
    ]  # fmt: skip


def _generated_tasks() -> Iterator[str]:
    """What models learned of the generated tasks."""
    path = RESULTS / "tasks.json"
    if not path.is_file():
        return
    found = json.loads(path.read_text("utf-8"))["results"]
    machine = found[0]["machine"]
    seeds = " ".join(sorted({str(seed["seed"]) for one in found for seed in one["seeds"]}))
    yield "## The generated tasks"
    yield (
        "Exact matches of greedy search in percent, on test pairs that no model saw. Each model has the settings "
        f"of {code('glassformer train --task NAME')} and the kind of positions that is named. For SCAN the "
        "last weights are evaluated, not the best ones, because validation on trained commands says nothing about "
        "the test commands. Validation pairs resemble the training pairs: their score shows how well those were "
        "learned. A training ended after 20 minutes at the latest, for SCAN after 10. Trained on "
        f"{machine['processor']}, threads: {machine['threads']}, no GPU, PyTorch {machine['torch']}. Measured with "
        f"{code(f'python benchmarks/tasks.py --seeds {seeds}')}, SCAN with {code('--minutes 10')}; all figures: "
        f"[tasks.json](../benchmarks/results/{path.name})."
    )
    for since in sorted({one["since"] for one in found if "since" in one}):
        older = sorted({code(one["task"]) for one in found if one.get("since") == since})
        yield f"{', '.join(older)}: {since[0].lower()}{since[1:]}"
    head = ["task", "positions", "seeds", "updates", "minutes", "test pairs", "exact match", "on validation",
            "published"]  # fmt: skip
    yield table(head, map(_task, found))
    yield from _scan_by_length()


def _task(result: dict[str, Any]) -> list[str]:
    seeds = result["seeds"]
    return [
        code(result["task"]), result["positions"], ", ".join(str(one["seed"]) for one in seeds),
        ", ".join(f"{one['updates']:,}" for one in seeds), ", ".join(f"{one['minutes']:.0f}" for one in seeds),
        f"{result['test_pairs']:,}", ", ".join(f"{one['exact_match']:.1f}" for one in seeds),
        ", ".join(f"{one['valid_exact_match']:.1f}" if "valid_exact_match" in one else "-" for one in seeds),
        result["published"] or "-",
    ]  # fmt: skip


def _scan_by_length() -> Iterator[str]:
    """SCAN cut at the length of the published figure for relative positions, which is not the task's."""
    path = RESULTS / "positions_scan.json"
    if not path.is_file():
        return
    found = json.loads(path.read_text("utf-8"))
    yield (
        f"The published 100 % is for another cut: training on commands of up to {found['longest_trained']} actions, "
        f"testing on the {found['test_pairs']:,} longer ones. With this cut, {found['minutes_each']:g} minutes of "
        "training each and one seed, exact matches are "
        + ", ".join(
            f"{row['test_exact_match']:.1f} % with {name} positions ({row['valid_exact_match']:.1f} % on validation)"
            for name, row in found["models"].items()
        )
        + f": [positions_scan.json](../benchmarks/results/{path.name})."
        + (f" {found['since']}" if "since" in found else "")
    )
