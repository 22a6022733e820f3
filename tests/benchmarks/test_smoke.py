"""Every benchmark still runs: the short ones with their smallest sizes, in a process of their own, as a person starts them.

``make slow FULL=1`` starts those of ``LONG``, too; without it they are only imported.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from covering import only_full

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PARTS = {"decoding_ceiling", "decoding_systems", "turns"}  # processes that other benchmarks start
ELSEWHERE = {"gpu"}  # has a test of its own
LONG = {  # at least ten seconds of a core, even with the smallest sizes
    "busy_cores", "decoding", "decoding_growth", "decoding_revisions", "engines", "faults", "fine_tuning", "large_corpus",
    "memory", "multi30k", "mutants", "page", "page_steps", "pareto", "positions_scan", "proof_cost", "race", "serving_soak",
    "small_data", "startup", "tasks", "trace_cost", "training", "training_end_to_end", "training_loop",
    "training_step", "verification",
}  # fmt: skip
SCRIPTS = [path for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text(encoding="utf-8")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent), "OMP_NUM_THREADS": "1"}


def run(*arguments: str | Path) -> str:
    """What a program prints, which must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def kept_results() -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (BENCHMARKS / "results").rglob("*")}


@pytest.mark.slow
def test_every_benchmark_can_be_imported() -> None:
    code = "import runpy, sys; sys.path.insert(0, sys.argv[1]); [runpy.run_path(path) for path in sys.argv[2:]]"
    assert run("-c", code, BENCHMARKS, *SCRIPTS) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[only_full] * (path.stem in LONG))
        for path in SCRIPTS
        if path.stem not in PARTS | ELSEWHERE
    ],
)
def test_it_runs_with_its_smallest_sizes_and_keeps_nothing(script: Path) -> None:
    before = kept_results()
    printed = run(script, "--smoke")
    assert kept_results() == before
    if printed.startswith("skipped: "):
        pytest.skip(printed.removeprefix("skipped: ").strip())
