"""The mean of several checkpoints' weights. Section 6.1: the last 5 for base, the last 20 for big."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoint import (
    checkpoints,
    prune,
    read_json,
    read_tensors,
    save_checkpoint,
    update_of,
    whole,
)
from glassformer.errors import CheckpointError, RunError
from glassformer.run_directory import WEIGHTS, RunDirectory


def average_weights(directories: list[Path]) -> dict[str, Tensor]:
    """The mean of each weight over the checkpoints, summed in float64."""
    total: dict[str, Tensor] = {}
    for directory in directories:
        for name, weight in read_tensors(directory, WEIGHTS).items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(directories)).to(torch.float32) for name, weight in total.items()}


def last_checkpoints(
    run: RunDirectory, last: int, warn: Callable[[str], None], update: int | None = None
) -> list[Path]:
    """The newest ``last`` checkpoints kept for averaging, or all when there are fewer; none after ``update``.

    Damaged ones are named through ``warn`` and passed over.
    """
    kept = checkpoints(run.history)
    if update is not None:
        kept = [checkpoint for checkpoint in kept if update_of(checkpoint) <= update]
    return [checkpoint for checkpoint in kept if whole(checkpoint, warn)][-last:]


def average_run(path: Path, last: int | None, warn: Callable[[str], None]) -> list[Path]:
    """Make the mean of the last checkpoints a run's final model; which ones were used is returned.

    Damaged ones are named through ``warn`` and passed over. Raises ``RunError`` where there is none,
    ``CheckpointError`` where none is whole.
    """
    run = RunDirectory(path)
    config, _ = run.read_config()
    with run.locked():
        if not checkpoints(run.history):
            raise RunError(f"{run.history}: holds no checkpoint to average yet. Train until the first validation.")
        latest = checkpoints(run.latest)
        until = update_of(latest[-1]) if latest else None
        used = last_checkpoints(run, last or config.train.average_last, warn, until)
        if not used:
            raise CheckpointError(f"{run.history}: none of its checkpoints is whole, expected one to average.")
        state = {**read_json(used[-1] / "state.json"), "averaged": len(used)}
        final = save_checkpoint(run.final, update_of(used[-1]), {WEIGHTS: average_weights(used)}, state)
        prune(final, keep=1)
    return used
