"""The race on the page of results: what benchmarks/race.py left in benchmarks/results."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from reference.markdown import code, table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "race.json"
_NAMES = {
    "dates": "dates", "tatoeba-2000": "Tatoeba, 2,000 pairs", "tatoeba-20000": "Tatoeba, 20,000 pairs",
    "multi30k": "Multi30k",
}  # fmt: skip
_WHAT = {
    "before": "Adam, equation 3 with 500 updates of warm-up, the last quarter falling to zero, float32",
    "bf16": "`before` (on dates the task's own curve) with products in bfloat16",
    "now": "the defaults: bfloat16, Muon for the layers, 0.004 after 100 updates, the last quarter falling to zero",
    "long cooldown": "`now` with the last half falling to zero",
}


def race() -> Iterator[str]:
    """Loss and score of each recipe after the same updates, and the minutes that these cost."""
    yield "## The race"
    yield (
        "`benchmarks/race.py` trains with several recipes for the same number of updates, and measures the last "
        "weights on validation text (200 sentences, greedy search; dates: exact matches, the others BLEU). An update "
        "of each recipe was timed in turns with those of the others (`--cost`), one thread, processor time; minutes "
        "are updates times that cost, without validation."
    )
    if not RESULTS.is_file():
        return
    kept = json.loads(RESULTS.read_text("utf-8"))
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = defaultdict(list)
    for one in kept["results"]:
        groups[one["course"], one["updates"], one["recipe"]].append(one)
    order = sorted(groups, key=lambda key: (list(_NAMES).index(key[0]), list(_WHAT).index(key[2]), key[1]))
    head = ["course", "recipe", "updates", "ms an update", "minutes", "loss", "score", "seeds"]
    yield table(head, (_row(key, groups[key], kept["cost_ms"]) for key in order))
    yield "\n".join(f"- {code(name)}: {what}" for name, what in _WHAT.items())
    slow = [
        f"{cost['before']:.0f} ms on {_NAMES[course]} ({cost['bf16']:.0f} in bfloat16)"
        for course, cost in kept["cost_ms"].items()
    ]
    yield f"An update of `before`, in float32, took {', '.join(slow)}."


def _row(key: tuple[str, int, str], found: list[dict[str, Any]], cost: dict[str, dict[str, float]]) -> list[str]:
    course, updates, recipe = key
    metric = "exact_match" if course == "dates" else "bleu"
    ms = cost.get(course, {}).get(recipe)
    return [
        _NAMES[course], code(recipe), f"{updates:,}", "" if ms is None else f"{ms:.0f}",
        "" if ms is None else f"{updates * ms / 60_000:.1f}", f"{fmean(one['loss'] for one in found):.3f}",
        f"{fmean(one['validation'][metric] for one in found):.1f}", ", ".join(str(one["seed"]) for one in found),
    ]  # fmt: skip
