"""The page of what was measured, as a few charts with links, from the results of the benchmarks."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from reference.charts import DARK, LIGHT, PHONE, Row, bars, points
from reference.markdown import page

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
_STEP = "small, float32, dropout 0.1"
_TOOLKITS = {
    "glassformer": "glassformer", "eole": "Eole", "x-transformers": "x-transformers", "hf": "MarianMT (Hugging Face)",
    "torch": "nn.Transformer", "joeynmt": "JoeyNMT",
}  # fmt: skip
_ENGINES = {
    "glassformer": "glassformer, float32",
    "glassformer ctranslate2 int8": "--engine ctranslate2, int8", "hf": "Hugging Face generate, float32",
    "ct2": "CTranslate2, float32", "ct2 int8": "CTranslate2, int8",
}  # fmt: skip
_LOOKS = {"": LIGHT, "-dark": DARK, "-phone": LIGHT._replace(**PHONE), "-phone-dark": DARK._replace(**PHONE)}
_CORPORA = {"tatoeba": "Tatoeba", "multi30k": "Multi30k"}


def measured_page() -> str:
    """The page; what a sentence says of a chart is read from the same results."""
    quality, training, speed = _quality(), _training(), _translating()
    ours, theirs = training[0].value, max(row.value for row in training if not row.ours)
    best = {row.label: row.value for row in speed}
    return page(
        "Measured",
        "A few charts, each with the page that has all of it. [Every figure](figures.md) with the script that "
        "remakes it stands in one table, and the scripts with what they wrote in "
        "[benchmarks](../benchmarks/results/). The machines had two cores and no GPU.",
        "## How good are the translations?",
        _picture("quality", "Multi30k English-German, tokenised BLEU: points with one standard deviation"),
        "Multi30k, English to German, lower-cased and tokenised BLEU on test_2016_flickr, the mean of three seeds "
        f"and one standard deviation. Published for this size: {quality[0].value:.2f}. More: [published results, "
        "reproduced](results.md), [the card of the bundled model](../glassformer/bundled/en-de/README.md).",
        "## How many pairs do I need?",
        _picture("pairs", "BLEU of trainings on 2,000 and 20,000 pairs of two corpora"),
        "BLEU on 1,000 unseen sentences of the same kind, English to German, after 4 minutes for 2,000 pairs and 25 "
        "for 20,000, on one core with the defaults, the mean of the seeds. Captions of pictures (Multi30k) are "
        "learned from fewer pairs than everyday sentences of all kinds (Tatoeba). More: [few "
        "pairs](results.md#few-pairs).",
        "## How fast does it learn?",
        _picture("training", "Target tokens a second of a training step in six toolkits"),
        f"A training step of `small`, float32: {ours / theirs:.2f} times as fast as the fastest other one. More: "
        "[what training costs](training_cost.md), with intervals, other sizes and bfloat16.",
        "## How fast does it translate?",
        _picture("translating", "Sentences a second of five engines"),
        f"`small`, 128 sentences, greedy search, 16 tokens each: by engine ctranslate2 in int8 "
        f"{best['--engine ctranslate2, int8']:.0f} sentences a second, CTranslate2 alone "
        f"{best['CTranslate2, int8']:.0f}, Hugging Face generate in float32 "
        f"{best['Hugging Face generate, float32']:.0f}. More: [what translating "
        "costs](speed.md), with beams, one sentence at a time, and students.",
        "## Does the trace tell the truth, and what does it cost?",
        f"{_proof()} More: [tracing](tracing.md#what-it-costs), [faults that it finds](faults.md).",
        "## What survives?",
        "Kills, power cuts, full disks, damaged and hostile files: [What survives](reliability.md).",
    )  # fmt: skip


def charts() -> dict[str, Callable[[], str]]:
    """Each file of a chart, by its path in docs, and what makes it."""
    made: dict[str, tuple[Callable[..., str], Callable[[], list[Row]], str, Callable[[float], str]]] = {
        "quality": (points, _quality, "BLEU, tokenised", lambda value: f"{value:.2f}"),
        "pairs": (bars, _pairs, "BLEU", lambda value: f"{value:.1f}"),
        "training": (bars, _training, "target tokens a second", lambda value: f"{value:,.0f}"),
        "translating": (bars, _translating, "sentences a second", lambda value: f"{value:.0f}"),
    }
    files: dict[str, Callable[[], str]] = {}
    for name, (draw, rows, unit, text) in made.items():
        for ending, look in _LOOKS.items():
            files[f"charts/{name}{ending}.svg"] = partial(
                lambda d, r, *more: d(r(), *more), draw, rows, unit, text, look
            )
    return files


def _picture(name: str, alt: str) -> str:
    return f"![{alt}](charts/{name}.svg)"


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


def _quality() -> list[Row]:
    """The published score, and ours without and with teachers."""
    alone, taught = (_read(f"multi30k-en-de{ending}/report.json") for ending in (".alone", ""))
    return [
        Row("published (Transformer-Tiny)", _published_score(taught), ours=False),
        _seeds("glassformer", alone),
        _seeds("glassformer, two teachers", taught),
    ]


def _seeds(label: str, report: Mapping[str, Any]) -> Row:
    test = next(iter(report["tests"].values()))
    main = test["ways"][test["main"]]
    return Row(label, main["mean"], main["mean"] - main["deviation"], main["mean"] + main["deviation"])


def _published_score(report: Mapping[str, Any]) -> float:
    return float(next(iter(report["tests"].values()))["published"][0]["score"])


def _pairs() -> list[Row]:
    """The BLEU that the defaults reach with so many pairs, of those settings that all corpora and sizes have."""
    found = [one for one in _read("small_data.json")["results"] if one["settings"] == "now"]
    sizes = sorted({one["pairs"] for one in found})
    return [
        Row(f"{name}, {pairs:,} pairs", fmean(scores))
        for corpus, name in _CORPORA.items()
        for pairs in sizes
        if (scores := [one["test"]["bleu"] for one in found if (one["corpus"], one["pairs"]) == (corpus, pairs)])
    ]


def _training() -> list[Row]:
    speeds = _read("training.json")["columns"][_STEP]["tokens_per_s"]
    return [Row(name, speeds[key]["median"], ours=key == "glassformer") for key, name in _TOOLKITS.items()]


def _translating() -> list[Row]:
    speeds = _read("decoding.json")["cells"]["small-greedy"]["sentences_per_s"]
    return [Row(name, speeds[key]["median"], ours="glassformer" in key) for key, name in _ENGINES.items()]


def _proof() -> str:
    """What ``--verify`` reproduced, what idle taps cost, and what a trace does."""
    walks = [each for each in _read("verification.json").values() if "checked" in each]
    checked, reproduced = (sum(each[key] for each in walks) for key in ("checked", "reproduced"))
    error = max(each["largest_error"] for each in walks)
    idle = next(each["ratios"]["idle / without"] for each in _read("idle_taps.json").values() if _has_ratios(each))
    traced = _read("trace_cost.json")["tiny"]["ratios"]["traced / without"]
    return (
        f"`--verify` reproduced {reproduced:,} of {checked:,} steps, the largest error {error:.1e}. A forward pass "
        f"with idle taps takes {idle['median']:.2f} times the time of one without (95 %: {idle['low']:.2f} to "
        f"{idle['high']:.2f}); a beam search that is traced {traced['median']:.1f} times."
    )


def _has_ratios(found: object) -> bool:
    return isinstance(found, dict) and "ratios" in found
