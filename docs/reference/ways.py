"""What settings gain in a short training on raw Multi30k, from the results that benchmarks/multi30k.py left."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.config import RunConfig
from glassformer.settings import apply_overrides
from reference.markdown import code, table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "multi30k.json"


def way_results() -> Iterator[str]:
    """A section of the page of results; nothing where nothing was measured."""
    if not RESULTS.is_file():
        return
    found = json.loads(RESULTS.read_text("utf-8"))["results"]
    machine, common = found[0]["machine"], set.intersection(*(_changed(one) for one in found))
    signature = found[0]["test_2016_flickr"]["signatures"]["bleu"]
    yield "## Multi30k in minutes"
    yield (
        f"{code('glassformer train --model tiny')} on the raw English-German text, with the defaults and with some "
        f"of them changed, translated with a beam of 5; {', '.join(map(code, sorted(common)))} in all of them. BLEU "
        f"of test_2016_flickr, cased, detokenised: {code(signature)}. Trained on {machine['processor']}, no GPU, "
        f"PyTorch {machine['torch']}. Remade by {code('python benchmarks/multi30k.py --data DIR --jobs 2')}; all "
        f"figures: [multi30k.json](../benchmarks/results/{RESULTS.name})."
    )
    head = ["way", "changed", "seed", "minutes", "threads", "updates", "target tokens", "validation loss", "BLEU",
            "chrF"]  # fmt: skip
    yield table(head, (_row(one, common) for one in found))


def _changed(one: dict[str, Any]) -> set[str]:
    """The settings that are not today's defaults; the seed has a column of its own."""
    defaults = RunConfig.from_mapping({"model": {"name": "tiny"}}).to_mapping()
    changed = set()
    for setting in one["changed"]:
        chosen: dict[str, dict[str, Any]] = {}
        apply_overrides(chosen, [setting])
        ((section, values),) = chosen.items()
        ((name, value),) = values.items()
        if name != "seed" and defaults[section][name] != value:
            changed.add(setting)
    return changed


def _row(one: dict[str, Any], common: set[str]) -> list[str]:
    changed = sorted(_changed(one) - common)
    return [
        one["way"], ", ".join(map(code, changed)) or "the defaults", str(one["seed"]), f"{one['minutes']:g}",
        str(one["machine"]["threads"]), f"{one['updates']:,}", f"{one['target_tokens']:,}",
        f"{one['valid_loss']:.3f}", *(f"{one['test_2016_flickr'][score]:.1f}" for score in ("bleu", "chrf")),
    ]  # fmt: skip
