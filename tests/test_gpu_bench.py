"""The benchmark of GPUs runs to its end without one, and goes on where it stopped."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from covering import only_full

ROOT = Path(__file__).parents[1]


def gpu(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/gpu.py", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@only_full
@pytest.mark.slow
def test_all_its_code_runs_on_the_cpu_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    first = gpu("--smoke", "--out", str(tmp_path), "--minutes", "20")
    assert first.returncode == 0, first.stdout + first.stderr
    files = {path.name.split(".")[0]: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert set(files) == {"parity", "tests", "ceilings", "training", "decoding", "training_float32"}
    assert all(
        one["holds"] for file in files.values() for cell in file["cells"].values() for one in cell.get("checks", [])
    )

    path = next(tmp_path.glob("ceilings.*.json"))
    cells = files["ceilings"]["cells"]
    done = cells.pop("copy")
    cells["product, bf16"] = {"checks": [{"what": "a", "found": 2.0, "bound": 1.0, "holds": False}]}
    path.write_text(json.dumps({**files["ceilings"], "cells": cells}))
    second = gpu("--smoke", "--out", str(tmp_path), "--minutes", "20")
    assert second.returncode == 1
    assert "WRONG  ceilings: product, bf16: a: found 2, expected at most 1" in second.stdout
    assert [line for line in second.stdout.splitlines() if line.startswith("  ")] == [
        line for line in second.stdout.splitlines() if line.startswith("  ceilings: copy: ")
    ]
    assert json.loads(path.read_text())["cells"]["copy"].keys() == done.keys()


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_card_it_says_what_waits() -> None:
    found = gpu()
    assert found.returncode == 0
    assert found.stdout.startswith(
        "No GPU here. Waiting for one: parity, tests, ceilings, training, decoding, training_float32."
    )
