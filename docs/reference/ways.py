"""What settings gain in a short training on raw Multi30k, from the results that benchmarks/multi30k.py left."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.markdown import code, table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "multi30k.json"


def way_results() -> Iterator[str]:
    """A section of the page of results; nothing where nothing was measured."""
    if not RESULTS.is_file():
        return
    found = json.loads(RESULTS.read_text("utf-8"))["results"]
    machine, common = found[0]["machine"], set.intersection(*(set(one["changed"]) for one in found))
    signature = found[0]["test_2016_flickr"]["signatures"]["bleu"]
    yield "## Multi30k in minutes"
    yield (
        f"{code('glassformer train --model tiny')} on the raw English-German text, with the defaults and with some "
        f"settings changed, translated with a beam of 5; {', '.join(map(code, sorted(common)))} in all of them. BLEU "
        f"of test_2016_flickr, cased, detokenised: {code(signature)}. Trained on {machine['processor']}, no GPU, "
        f"PyTorch {machine['torch']}. Remade by {code('python benchmarks/multi30k.py --data DIR')}; all figures: "
        f"[multi30k.json](../benchmarks/results/{RESULTS.name})."
    )
    head = ["way", "changed", "seed", "minutes", "threads", "updates", "target tokens", "validation loss", "BLEU",
            "chrF", "measured"]  # fmt: skip
    yield table(head, (_row(one, common) for one in found))


def _row(one: dict[str, Any], common: set[str]) -> list[str]:
    changed = [
        setting for setting in one["changed"] if setting not in common and not setting.startswith("train.seed")
    ]
    tokens, loss = one.get("target_tokens"), one.get("valid_loss")
    return [
        one["way"], ", ".join(map(code, changed)) or "-", str(one["seed"]), f"{one['minutes']:g}",
        str(one["machine"]["threads"]), f"{one['updates']:,}", f"{tokens:,}" if tokens else "-",
        f"{loss:.3f}" if loss else "-", f"{one['test_2016_flickr']['bleu']:.1f}",
        f"{one['test_2016_flickr']['chrf']:.1f}", one.get("since", "with this code"),
    ]  # fmt: skip
