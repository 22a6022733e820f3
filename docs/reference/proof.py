"""How far `trace --verify` and the tests can be trusted, as sections of the page of reliability."""

import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from reference.markdown import table
from reference.measurements import ROOT, read, verification

SHOWN = ("model", "masks", "cache", "search", "loss", "gradients", "update", "text")
ROOMS = ("model", "search", "loss", "update", "entries")


def proof_sections() -> Iterator[str]:
    yield "## Proof that a trace is right"
    yield from _verification()
    yield from _faults()
    yield from _mutants()


def _verification() -> Iterator[str]:
    walks = verification()
    error = max(row["largest_error"] for row in walks.values())
    checked, reproduced = (sum(row[key] for row in walks.values()) for key in ("checked", "reproduced"))
    operations, accounted = (sum(row[key] for row in walks.values()) for key in ("operations", "accounted"))
    yield (
        "`benchmarks/verification.py` runs [`trace --verify`](tracing.md#proof) on ten sentences through the bundled "
        f"model and on {walks['grid']['walks']} walks over the grid of options (norm, positions, activation, tying, "
        "biases, d_v, scale, search, cache, tokenizers): "
        f"{reproduced:,} of {checked:,} steps are reproduced, the largest error is {error:.1e}, and {accounted:,} of "
        f"{operations:,} operations of the passes are stated by an equation."
    )
    names = {"forced": "one pass", "grid": "the grid of options"}
    yield table(["walk", "steps", "reproduced", "bit for bit", "inputs"], (
        [names.get(name, name), *(f"{row[key]:,}" for key in ("checked", "reproduced", "exact", "given"))]
        for name, row in walks.items()
    ))  # fmt: skip


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "benchmarks" / name).read_text("utf-8"))


def _faults() -> Iterator[str]:
    faults, results = _toml("faults.toml")["fault"], read("faults.json")
    counts = {area: Counter[str]() for area in (*SHOWN, "all")}
    missed = []
    for fault in faults:
        found = results[fault["name"]]
        for area in (fault["area"], "all"):
            counts[area].update(
                faults=1, verify=bool(found["verify"]), diff=bool(found["diff"]),
                missed=not (found["verify"] or found["diff"]),
            )  # fmt: skip
        if not (found["verify"] or found["diff"]):
            missed.append(f"*{fault['name']}* ({fault['reason']})")
    yield "### Deliberate faults"
    yield (
        f"How much would `--verify` notice? `benchmarks/faults.py` puts {len(faults)} faults into the package, one "
        "at a time, and runs `--verify` and `diff` of the plain pass with each other way of computing it, on five "
        "small models. `diff` cannot find a fault in a layer that all ways share. "
        "[faults.toml](../benchmarks/faults.toml) lists the faults, "
        "[faults.json](../benchmarks/results/faults.json) says where each is found."
    )
    yield table(["part", "faults", "found by `--verify`", "found by `diff`", "missed"], (
        [area, *(str(row[key]) for key in ("faults", "verify", "diff", "missed"))] for area, row in counts.items()
    ))  # fmt: skip
    yield (
        f"Missed: {'; '.join(missed)}. Of the first 114, which were written down before the first measurement, four "
        "were missed at first; `diff`, the search and the update have been checked further since. The results of "
        "these 114 were not measured again."
    )


def _mutants() -> Iterator[str]:
    results = read("mutants.json")
    reasons = {one["name"] for one in _toml("mutants.toml").get("equivalent", ())}
    rows = []
    for room in (*ROOMS, "all"):
        own = {key: one for key, one in results["mutants"].items() if room in (one["room"], "all")}
        found = sum(bool(one["found_by"]) for one in own.values())
        equivalent = sum(not one["found_by"] and key in reasons for key, one in own.items())
        every = sum(one["mutants"] for key, one in results["rooms"].items() if room in (key, "all"))
        counts = (every, len(own), sum(one["at_first"] for one in own.values()), found, equivalent)
        rows.append([room, *(f"{count:,}" for count in counts), f"{found / (len(own) - equivalent):.0%}"])
    yield "### Small changes of the source"
    yield (
        "How much would the tests notice? `make mutants` changes one operator, number, condition or call at a time "
        "and runs the fast tests of that part until one fails; the mutants are a seeded sample. *At first* is before "
        "tests were written for those that survived: of a fresh sample, about as many would be found. An "
        "*equivalent* mutant changes nothing that anyone can see ([the reasons](../benchmarks/mutants.toml))."
    )
    yield table(["part", "mutants", "sample", "found at first", "found now", "equivalent", "score"], rows)
