"""The page of published results that were done again, from the reports that `glassformer reproduce` left."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from glassformer.reproduction.recipe import read_recipe, recipe_names
from reference.markdown import code, page, table
from reference.tasks import task_results
from reference.ways import way_results

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def reports() -> list[Path]:
    """Where there is none, there is no page."""
    return sorted(RESULTS.glob("*/report.json"))


def results_page() -> str:
    found = {path.parent.name: json.loads(path.read_text("utf-8")) for path in reports()}
    head = ["recipe", "norm", "positions", "dropout", "vocabulary", "cells an update", "updates", "cooldown",
            "teachers", "target tokens a seed", "minutes a seed", "seeds", "score", "published", "chrF"]  # fmt: skip
    return page(
        "Published results, reproduced",
        "Each is one command, `glassformer reproduce RECIPE`: it trains with some seeds, translates the test set and "
        "scores it. Beside each score stands sacrebleu's signature, which says how it was counted. Multi30k is for "
        "non-commercial research and education: neither its text nor weights trained on it are here, only numbers.",
        table(head, (row for name, report in found.items() for row in _overview(name, report))),
        *way_results(),
        *task_results(),
        *(block for name, report in found.items() for block in _recipe(name, report)),
    )


def _overview(name: str, report: dict[str, Any]) -> Iterator[list[str]]:
    """A row for each test set; of the trainings, the mean."""
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


def _recipe(name: str, report: dict[str, Any]) -> Iterator[str]:
    recipe = report["recipe"]
    yield f"## {recipe['title']}" + (f": {variant['name']}" if (variant := report["variant"]) else "")
    if variant:
        yield f"{variant['why'].rstrip('.')}."
    yield (
        f"[{recipe['name']}.toml](../glassformer/recipes/{recipe['name']}.toml) says every setting, and what the "
        f"published one is where another is taken here. {_where(report)} All figures: "
        f"[the report]({_place(name)}/report.json) and {_logs(name, report)}."
    )
    if recipe["name"] in recipe_names() and not variant and (missing := _not_here(recipe["name"])):
        yield f"Of its variants, not trained to their end yet: {', '.join(missing)}."
    if since := report.get("since"):  # written into the report by hand once the code has changed
        yield since
    if report["changed"]:
        yield f"Changed from the recipe: {', '.join(map(code, report['changed']))}."
    if teachers := report.get("teachers"):  # not in reports from before there were any
        yield _teachers(teachers)
    head = ["seed", "updates", "epochs", "target tokens", "minutes", "tokens a second", "validation loss", "kept"]
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
        f"Its teachers, whose cost is not in that of the seeds, nor is that of translating with them: {trainings}. "
        f"With their translations each seed learns {found['pairs']:,} pairs."
    )


def _not_here(recipe: str) -> list[str]:
    """The variants that nobody has left a report of, each with what it is."""
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
    return f"what each training logged: {', '.join(links)}"


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
    yield table(["system", test["main"], "details"], _beside_others(test, main))
    deviation = (
        " After a mean stands the standard deviation of the seeds' scores." if main["deviation"] is not None else ""
    )
    yield f"The signature is {code(main['signature'])}.{deviation}"
    yield "### The same translations, scored in other ways"
    yield (
        f"Why do papers' figures differ so much? These are the very same {test['sentences']:,} translations in every "
        "row. A figure can be held against another only where text and signature are the same."
    )
    head = ["way", "what it is", *(f"seed {seed}" for seed in main["seeds"]), "mean"]
    yield table([*head, *(["ensemble"] if test.get("ensemble") else []), "signature"], _ways(test))
    yield " ".join(filter(None, [_rules(test), test["left_out"]]))
    yield "### How much is chance"
    bootstrap = test["bootstrap"]
    yield (
        f"Scores over {bootstrap['resamples']:,} sets of sentences drawn again from the test set "
        f"({code(bootstrap['signature'])}), and pairs of seeds over the same ones. A small p means that a difference "
        "is hardly chance."
    )
    yield table(["seed", test["main"], "95 of 100 lie within"],
                ([seed, f"{row['mean']:.2f}", f"± {row['interval']:.2f}"]
                 for seed, row in bootstrap["redrawn"].items()))  # fmt: skip
    if bootstrap["pairs"]:
        yield table(["seeds", "difference", "p"],
                    ([f"{row['first']} and {row['second']}", f"{row['difference']:+.2f}", f"{row['p']:.3f}"]
                     for row in bootstrap["pairs"]))  # fmt: skip


def _beside_others(test: dict[str, Any], main: dict[str, Any]) -> Iterator[list[str]]:
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


def _ways(test: dict[str, Any]) -> Iterator[list[str]]:
    for name, row in test["ways"].items():
        scores = [f"{one['score']:.2f}" for one in row["seeds"].values()]
        together = [f"{ensemble[name]['score']:.2f}"] if (ensemble := test.get("ensemble")) else []
        yield [name, row["meaning"], *scores, f"{row['mean']:.2f}", *together, code(row["signature"])]


def _rules(test: dict[str, Any]) -> str:
    if not test["rules"]:
        return ""
    scores = ", ".join(f"{name} {score:.2f}" for name, score in test["rules"]["scores"].items())
    return (
        f"The text was made {test['rules']['turned_into']} by Moses's rules (sacremoses). The references themselves, "
        f"treated likewise, score: {scores}. So would a perfect translation."
    )
