"""The charts of what was measured, from the results of the benchmarks."""

from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean
from typing import Any

from reference.charts import DARK, LIGHT, PHONE, Row, bars, points
from reference.measurements import read

_STEP = "small, float32, dropout 0.1"
_TOOLKITS = {
    "glassformer": "glassformer", "eole": "Eole", "x-transformers": "x-transformers", "hf": "MarianMT (Hugging Face)",
    "torch": "nn.Transformer", "joeynmt": "JoeyNMT",
}  # fmt: skip
_ENGINES = {
    "glassformer": "--engine torch, float32", "glassformer ctranslate2 int8": "--engine ctranslate2, int8",
    "hf": "Hugging Face generate, float32",
    "ct2": "CTranslate2, float32", "ct2 int8": "CTranslate2, int8",
}  # fmt: skip
_LOOKS = {"": LIGHT, "-dark": DARK, "-phone": LIGHT._replace(**PHONE), "-phone-dark": DARK._replace(**PHONE)}
_CORPORA = {"tatoeba": "Tatoeba", "multi30k": "Multi30k"}


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


def picture(name: str, alt: str) -> str:
    return f"![{alt}](charts/{name}.svg)"


def _quality() -> list[Row]:
    """The published score, and ours without and with teachers."""
    alone, taught = (read(f"multi30k-en-de{ending}/report.json") for ending in (".alone", ""))
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
    found = [one for one in read("small_data.json")["results"] if one["settings"] == "now"]
    sizes = sorted({one["pairs"] for one in found})
    return [
        Row(f"{name}, {pairs:,} pairs", fmean(scores))
        for corpus, name in _CORPORA.items()
        for pairs in sizes
        if (scores := [one["test"]["bleu"] for one in found if (one["corpus"], one["pairs"]) == (corpus, pairs)])
    ]


def _training() -> list[Row]:
    speeds = read("training.json")["columns"][_STEP]["tokens_per_s"]
    return [Row(name, speeds[key]["median"], ours=key == "glassformer") for key, name in _TOOLKITS.items()]


def _translating() -> list[Row]:
    speeds = read("decoding.json")["cells"]["small-greedy"]["sentences_per_s"]
    return [Row(name, speeds[key]["median"], ours="glassformer" in key) for key, name in _ENGINES.items()]
