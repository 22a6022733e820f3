"""The part of the page of results about few pairs and about files in their own form.

The figures are those that benchmarks/small_data.py, fine_tuning.py and placeholders.py left in benchmarks/results.
What they have not measured is said.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from reference.markdown import code, table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
_CORPORA, _PAIRS, _SEEDS = ("tatoeba", "multi30k"), (2_000, 5_000, 20_000), (1, 2, 3)
_CLOSE = 0.5  # BLEU between the kept model and the best candidate


def small_data() -> Iterator[str]:
    """What is kept against what might have been, and settings for few pairs, as far as they are measured."""
    path = RESULTS / "small_data.json"
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["results"] if path.is_file() else []
    yield "## Few pairs"
    yield (
        f"{code('python benchmarks/small_data.py --data DIR')} trains on 2,000, 5,000 and 20,000 pairs of Tatoeba "
        "and of Multi30k, English to German, for 4, 10 and 25 minutes of processor time, one thread, and scores "
        "on 1,000 pairs that no training saw. It asks two questions: is the model that a training keeps, by its "
        f"translations of validation text, within {_CLOSE} BLEU of the best candidate on the test text; and which "
        "settings help."
    )
    if not found:
        yield "None of it has been measured yet, with the code as it is."
        return
    machine = found[0]["machine"]
    yield f"Measured on {machine['processor']}, threads: {machine['threads']}, PyTorch {machine['torch']}."
    yield "### The model that is kept"
    yield from _selection([one for one in found if one["settings"] == "before"])
    yield "### Settings"
    yield from _settings(found)


def _selection(found: list[dict[str, Any]]) -> Iterator[str]:
    """What was kept, compared with the best candidate on the test text."""
    yield "With the defaults before the search that follows."
    yield table(["corpus", "pairs", "seed", "updates", "BLEU (beam 4)", "chrF", "kept", "its BLEU", "best candidate",
                 "its BLEU "], map(_cell, found))  # fmt: skip
    grid = [(corpus, pairs, seed) for corpus in _CORPORA for pairs in _PAIRS for seed in _SEEDS]
    gaps = [_gap(one["candidates"]) for one in found]
    close = sum(gap <= _CLOSE for gap in gaps)
    yield (
        f"Of the {len(grid)} trainings {len(found)} are measured. In {close} of them the kept model is within "
        f"{_CLOSE} BLEU of the best candidate; the largest gap is {max(gaps):.2f}, the mean {fmean(gaps):.2f}."
    )


def _gap(candidates: list[dict[str, Any]]) -> float:
    """BLEU between the kept model and the best candidate."""
    return float(max(each["bleu"] for each in candidates) - next(each["bleu"] for each in candidates if each["kept"]))


def _cell(one: dict[str, Any]) -> list[str]:
    candidates = one["candidates"]
    kept = next(each for each in candidates if each["kept"])
    best = max(candidates, key=lambda each: each["bleu"])
    return [
        one["corpus"], f"{one['pairs']:,}", str(one["seed"]), f"{one['updates']:,}",
        f"{one['test']['bleu']:.1f}", f"{one['test']['chrf']:.1f}",
        kept["name"], f"{kept['bleu']:.1f}", best["name"], f"{best['bleu']:.1f}",
    ]  # fmt: skip


def _settings(found: list[dict[str, Any]]) -> Iterator[str]:
    """BLEU and chrF of each setting, as a mean over its seeds, and the difference to the same seeds before."""
    cells: dict[tuple[str, int, str], dict[int, dict[str, Any]]] = {}
    for one in found:
        cells.setdefault((one["corpus"], one["pairs"], one["settings"]), {})[one["seed"]] = one
    rows = []
    for corpus, pairs, settings in sorted(
        cells, key=lambda key: (*key[:2], key[2] == "now", key[2] != "before", key)
    ):
        seeds = cells[corpus, pairs, settings]
        before = cells[corpus, pairs, "before"]
        row = [corpus, f"{pairs:,}", settings, ", ".join(map(str, sorted(seeds)))]
        for metric in ("bleu", "chrf"):
            mean = fmean(one["test"][metric] for one in seeds.values())
            row += [f"{mean:.1f}", f"{mean - fmean(before[seed]['test'][metric] for seed in seeds):+.1f}"]
        rows.append([*row, f"{fmean(one['updates'] for one in seeds.values()):,.0f}"])
    yield (
        "Each row differs from `before`, the defaults until this search, in what it names; `now` are the defaults "
        "since: a model of 2 + 2 layers, dropout 0.2, and one entry in the vocabulary for each pair, from 512 to "
        "8,000; before, one for every six. A difference is that to `before` with the same seeds. What is not in the "
        "table was not measured."
    )
    yield table(["corpus", "pairs", "settings", "seeds", "BLEU (beam 4)", "difference", "chrF", "difference ",
                 "updates"], rows)  # fmt: skip
    usual = {(one["pairs"], one["minutes"]) for one in found if one["settings"] == "before"}
    shorter = {
        (one["settings"], one["pairs"], one["seed"], one["minutes"])
        for one in found
        if (one["pairs"], one["minutes"]) not in usual
    }
    if shorter:
        trainings = "; ".join(
            f"{settings}, {pairs:,} pairs, seed {seed}: {minutes:g} minutes"
            for settings, pairs, seed, minutes in sorted(shorter)
        )
        yield (
            f"These trainings ran on a faster processor, and therefore shorter: {trainings}. Compare the "
            "updates, which are the mean over the seeds."
        )


def fine_tuning() -> Iterator[str]:
    """Training from the bundled model against training from nothing."""
    yield "## From a model that exists"
    path = RESULTS / "fine_tuning.json"
    ask = code("python benchmarks/fine_tuning.py --data DIR")
    if not path.is_file():
        yield (
            f"{ask} trains on 2,000 pairs of Multi30k for five minutes, from nothing and from the bundled model, and "
            "scores both on Multi30k's test set and on what the bundled model knew before. It is not measured yet."
        )
        return
    found = json.loads(path.read_text("utf-8"))
    yield (
        f"Measured with {ask}: 2,000 pairs of Multi30k, {found['minutes']:g} minutes of processor time, one thread."
    )
    before = {"way": "none: an earlier bundled model", "seed": "-", "test": found["before"]}
    rows = [before, *found["results"]]
    yield table(["training", "seed", "BLEU on Multi30k", "BLEU on Tatoeba"], (
        [one["way"], str(one["seed"]), *(f"{one['test'][name]['bleu']:.1f}" for name in ("Multi30k", "Tatoeba"))]
        for one in rows
    ))  # fmt: skip
    today = json.loads((RESULTS / "bundled.json").read_text("utf-8"))["bundled"]["by_words"]["all"]["bleu"]
    yield f"The bundled model was trained on since this was measured: it has {today:.1f} BLEU on Tatoeba today."


def placeholders() -> Iterator[str]:
    """How many placeholders survive a translation, by their form."""
    found = json.loads((RESULTS / "placeholders.json").read_text("utf-8"))
    yield "## Placeholders"
    share = fmean(row["intact_and_unflagged"] / row["sentences"] for row in found["forms"].values())
    yield (
        f"Sentences that hold every placeholder exactly as often as their source are intact; {share:.0%} are intact "
        f"and nothing is reported to look at. Translated by the model {code(found['run'])}; measured with "
        f"{code('python benchmarks/placeholders.py')}."
    )
    names = ("sentences", "intact_and_unflagged", "intact_and_flagged", "lost_and_flagged", "lost_without_a_flag")
    rows = (
        [code(form), *(str(row[name]) for name in names)]
        for form, row in {**found["forms"], "all": found["all"]}.items()
    )
    yield table(["form", *(name.replace("_", " ") for name in names)], rows)
