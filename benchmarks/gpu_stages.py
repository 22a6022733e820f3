"""How ``gpu.py`` measures: stages of cells, each written when it is done and begun only if the time allows it."""

import gc
import json
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from machine import machine, spread

from glassformer.files import write_durably

Cell = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Bench:
    """Where and for how long is measured. ``smoke`` runs all code on the CPU, with sizes that take no time."""

    device: torch.device
    smoke: bool
    commit: str
    card: str
    out: Path
    scratch: Path
    ends: float
    data: Path | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether there are events, peaks and streams to wait for."""
        return self.device.type == "cuda"

    def left_s(self) -> float:
        """Seconds until the time is over."""
        return self.ends - time.monotonic()

    def wait(self) -> None:
        """Until the device has done all that it was given."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def path(self, stage: str) -> Path:
        """The file of a stage."""
        return self.out / f"{stage}.{self.commit}.{self.card}.json"

    def cells(self, stage: str) -> dict[str, Any]:
        """What was measured of a stage so far."""
        path = self.path(stage)
        return json.loads(path.read_text("utf-8"))["cells"] if path.is_file() else {}  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Stage:
    """A name, the seconds that one of its cells takes at most, and the function that lists its cells."""

    name: str
    cell_s: float
    cells: Callable[[Bench], dict[str, Cell]]


def check(what: str, found: float, bound: float) -> dict[str, Any]:
    """Something that must not be greater than a bound; NaN is."""
    return {"what": what, "found": found, "bound": bound, "holds": found <= bound}


def run_stage(stage: Stage, bench: Bench, *, again: bool = False) -> list[str]:
    """Measure the cells that are missing; returns what is wrong, of earlier runs too.

    With ``again`` those that failed are measured once more.
    """
    done = {name: cell for name, cell in bench.cells(stage.name).items() if not (again and "error" in cell)}
    cells = stage.cells(bench)
    for name, measure in cells.items():
        if name in done:
            continue
        if bench.left_s() < stage.cell_s:
            break
        done[name] = {"error": "the process ended in this cell."}  # stays if it does
        _write(stage, bench, done)
        start = time.monotonic()
        done[name] = {**_attempt(measure, bench), "seconds": round(time.monotonic() - start, 2)}
        _write(stage, bench, done)
        print(f"  {stage.name}: {name}: {_in_short(done[name])}", flush=True)
    print(f"{stage.name}: {len(done)} of {len(cells)} cells", flush=True)
    return [f"{stage.name}: {name}: {wrong}" for name, cell in done.items() for wrong in _wrongs(cell)]


def _attempt(measure: Cell, bench: Bench) -> dict[str, Any]:
    try:
        found = measure()
    except Exception:
        found = {"error": traceback.format_exc(limit=-4)}
    gc.collect()
    if bench.on_gpu:
        torch.cuda.synchronize()  # raises if the card refuses more work in this process, which ends it
        torch.cuda.empty_cache()
    return found


def _write(stage: Stage, bench: Bench, cells: dict[str, Any]) -> None:
    result = {"stage": stage.name, "commit": bench.commit, "card": bench.card, "machine": machine(), "cells": cells}
    with write_durably(bench.path(stage.name)) as file:
        file.write(json.dumps(result, indent=1) + "\n")


def _in_short(cell: dict[str, Any]) -> str:
    wrong = _wrongs(cell)
    if wrong or "left_out" in cell:
        return "; ".join(wrong) or f"left out, {cell['left_out']}"
    speeds = [f"{row['median']:.4g} {key}" for key, row in cell.items() if isinstance(row, dict) and "median" in row]
    return ", ".join([*speeds, *(f"{one['what']} {one['found']:.2g}" for one in cell.get("checks", []))]) or "done"


def _wrongs(cell: dict[str, Any]) -> list[str]:
    broken = [one for one in cell.get("checks", []) if not one["holds"]]
    errors = [cell["error"].strip().splitlines()[-1]] if "error" in cell else []
    return errors + [
        f"{one['what']}: found {one['found']:.3g}, expected at most {one['bound']:.3g}" for one in broken
    ]


def of_peer(bench: Bench, measure: Cell) -> Cell:
    """The cell of another system, whose failure is a reason to leave it out; only in a smoke test it is a fault."""

    def attempt() -> dict[str, Any]:
        try:
            return measure()
        except Exception as error:
            if bench.smoke:
                raise
            return {"left_out": f"{type(error).__name__}: {str(error)[:300]}"}

    return attempt


def seconds_of(bench: Bench, runs: list[Callable[[], Any]], warm_up: int) -> list[float]:
    """Seconds of each run, by the device's clock if it has one, after the first ``warm_up`` were run once."""
    for run in runs[:warm_up]:
        run()
    bench.wait()
    if not bench.on_gpu:
        return [_wall_seconds(run) for run in runs]
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(runs) + 1)]
    marks[0].record()
    for run, mark in zip(runs, marks[1:], strict=True):
        run()
        mark.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1000 for before, after in pairwise(marks)]


def _wall_seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def speed(amounts: list[float], seconds: list[float]) -> dict[str, float]:
    """Median and quartiles of amounts a second."""
    return spread([amount / spent for amount, spent in zip(amounts, seconds, strict=True)])


@contextmanager
def products_in(precision: str) -> Iterator[str]:
    """A block in which float32 products may be TF32; gives the precision for autocast."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield "bf16" if precision == "bf16" else "float32"
    finally:
        torch.set_float32_matmul_precision(before)
