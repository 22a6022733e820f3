"""What models learned of the generated tasks, from the results that benchmarks/tasks.py left."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.markdown import code, table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "tasks.json"
OTHER_CUT = RESULTS.with_name("positions_scan.json")


def task_results() -> Iterator[str]:
    """A section of the page of results; nothing where nothing was measured."""
    if not RESULTS.is_file():
        return
    found = json.loads(RESULTS.read_text("utf-8"))["results"]
    machine = found[0]["machine"]
    seeds = " ".join(sorted({str(seed["seed"]) for one in found for seed in one["seeds"]}))
    yield "## The generated tasks"
    yield (
        "Exact matches, in percent of test pairs that no model has seen; greedy search. Each model has the settings "
        f"of {code('glassformer train --task NAME')} and, where a kind of positions is named, that kind. Of SCAN the "
        "last weights are judged, not the best ones, for what is best on the trained commands says nothing of the "
        "others. Validation pairs are like the trained ones: where they were judged, they tell how well that was "
        "learned. A training ended after 20 minutes, those of "
        "SCAN after 10, if it had not ended by itself. Trained on "
        f"{machine['processor']}, threads: {machine['threads']}, no GPU, PyTorch {machine['torch']}. Remade by "
        f"{code(f'python benchmarks/tasks.py --seeds {seeds}')}, SCAN with {code('--minutes 10')}; all figures: "
        f"[tasks.json](../benchmarks/results/{RESULTS.name})."
    )
    for since in sorted({one["since"] for one in found if "since" in one}):
        older = sorted({code(one["task"]) for one in found if one.get("since") == since})
        yield f"{', '.join(older)}: {since[0].lower()}{since[1:]}"
    head = ["task", "positions", "seeds", "updates", "minutes", "test pairs", "exact match", "on validation",
            "published"]  # fmt: skip
    yield table(head, map(_row, found))
    yield from _other_cut()


def _other_cut() -> Iterator[str]:
    """What the published figure for relative positions is of: another cut by length than the task's."""
    if not OTHER_CUT.is_file():
        return
    found = json.loads(OTHER_CUT.read_text("utf-8"))
    yield (
        f"The published 100 % is of another cut: trained on commands of up to {found['longest_trained']} actions, "
        f"tested on longer ones, {found['test_pairs']:,} of them. There, after {found['minutes_each']:g} minutes "
        "each and with one seed, exact matches are "
        + ", ".join(
            f"{row['test_exact_match']:.1f} % with {name} positions ({row['valid_exact_match']:.1f} % on validation)"
            for name, row in found["models"].items()
        )
        + f": [positions_scan.json](../benchmarks/results/{OTHER_CUT.name})."
        + (f" {found['since']}" if "since" in found else "")
    )


def _row(result: dict[str, Any]) -> list[str]:
    seeds = result["seeds"]
    return [
        code(result["task"]), result["positions"], ", ".join(str(one["seed"]) for one in seeds),
        ", ".join(f"{one['updates']:,}" for one in seeds), ", ".join(f"{one['minutes']:.0f}" for one in seeds),
        f"{result['test_pairs']:,}", ", ".join(f"{one['exact_match']:.1f}" for one in seeds),
        ", ".join(f"{one['valid_exact_match']:.1f}" if "valid_exact_match" in one else "-" for one in seeds),
        result["published"] or "-",
    ]  # fmt: skip
