"""Every benchmark still runs: each with its smallest sizes, in a process of its own, as a person starts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PARTS = {"decoding_ceiling.py", "decoding_systems.py", "turns.py"}  # processes that other benchmarks start
SCRIPTS = [path for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text(encoding="utf-8")]


def kept_results() -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (BENCHMARKS / "results").rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.name not in PARTS], ids=lambda path: path.stem)
def test_it_runs_with_its_smallest_sizes_and_keeps_nothing(script: Path) -> None:
    before = kept_results()
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, "--smoke"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert kept_results() == before
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.removeprefix("skipped: ").strip())
