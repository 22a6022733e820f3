"""The mean of several checkpoints' weights. Section 6.1: the last 5 for base, the last 20 for big."""

from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoint import checkpoints, prune, read_json, read_tensors, save_checkpoint, verify
from glassformer.errors import RunError
from glassformer.run_directory import WEIGHTS, RunDirectory


def average_weights(directories: list[Path]) -> dict[str, Tensor]:
    """The mean of each weight over the checkpoints, summed in float64."""
    total: dict[str, Tensor] = {}
    for directory in directories:
        verify(directory)
        for name, weight in read_tensors(directory, WEIGHTS).items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(directories)).to(torch.float32) for name, weight in total.items()}


def last_checkpoints(run: RunDirectory, last: int) -> list[Path]:
    """The newest ``last`` checkpoints kept for averaging, or all when there are fewer."""
    found = checkpoints(run.history)[-last:]
    if not found:
        raise RunError(f"{run.history}: holds no checkpoint to average yet. Train until the first validation.")
    return found


def average_run(path: Path, last: int | None) -> list[Path]:
    """Make the mean of the last checkpoints a run's final model; which ones were used is returned."""
    run = RunDirectory(path)
    config, _ = run.read_config()
    used = last_checkpoints(run, last or config.train.average_last)
    with run.locked():
        state = read_json(used[-1] / "state.json")
        update = int(state["counters"]["update"])
        save_checkpoint(run.final, update, {WEIGHTS: average_weights(used)}, {**state, "averaged": len(used)})
        prune(run.final, keep=1)
    return used
