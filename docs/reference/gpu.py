"""The sections of GPUs in the page of speed, from what benchmarks/gpu.py left; without a result they say so."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.markdown import table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "gpu"
WAITING = "Not measured yet. `make gpu` measures it on a machine with a GPU."


def gpu_section(stage: str, unit: str) -> Iterator[str]:
    """The section on a stage, ``training`` or ``decoding``: for each card the medians of its cells in ``unit``."""
    yield f"### {stage.capitalize()} on a GPU"
    files = [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob(f"{stage}.*.json"))]
    if not files:
        yield WAITING
    for found in files:
        machine = found["machine"]
        yield (
            f"{machine.get('gpu', found['card'])}, PyTorch {machine['torch']}, commit {found['commit']}: medians of "
            f"`benchmarks/gpu.py`, in {unit}."
        )
        yield table([stage, unit], _rows(found["cells"], unit))
        left_out = [f"{name} ({cell['left_out']})" for name, cell in found["cells"].items() if "left_out" in cell]
        yield f"Left out: {'; '.join(left_out)}." if left_out else ""


def _rows(cells: dict[str, Any], unit: str) -> Iterator[list[str]]:
    for name, cell in cells.items():
        if unit in cell:
            share = f" ({100 * cell['share']:.0f} % of the ceiling)" if cell.get("share") else ""
            yield [name, f"{cell[unit]['median']:,.0f}{share}"]
