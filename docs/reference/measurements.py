"""What the benchmarks left in benchmarks/results, and how pages speak of it."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
USUAL = (
    "Unless a section says otherwise, the machine is an AMD EPYC virtual machine with 2 cores and no GPU, PyTorch "
    "2.13.0 and Python 3.11. Each section names its script in [benchmarks](../benchmarks); "
    "[results](../benchmarks/results/) has what the script wrote, with versions and spread."
)


def read(name: str) -> Any:
    """The results of one benchmark."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def interval(row: dict[str, float], digits: int = 2) -> str:
    """A median with its interval."""
    return f"{row['median']:.{digits}f} ({row['low']:.{digits}f} to {row['high']:.{digits}f})"


def versions(found: dict[str, Any]) -> str:
    """The other programs that were measured."""
    return ", ".join(f"{name} {version}" for name, version in found.items() if name != "glassformer")


def bundled_bleu() -> float:
    """BLEU of the bundled model on its held-out sentences."""
    return float(read("bundled.json")["bundled"]["by_words"]["all"]["bleu"])


def verification() -> dict[str, dict[str, Any]]:
    """The walks that were recomputed, by their names."""
    return {name: row for name, row in read("verification.json").items() if "checked" in row}
