"""Averages the weights of checkpoints: section 6.1."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoint import (
    checkpoints,
    is_valid,
    prune,
    read_json,
    read_tensors,
    save_checkpoint,
    update_number,
)
from glassformer.errors import CheckpointError, RunError
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.training.evaluation.calibration import calibrate_run


def average_weights(directories: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of each weight over the checkpoints, summed in float64."""
    total: dict[str, Tensor] = {}
    for directory in directories:
        for name, weight in read_tensors(directory, WEIGHTS).items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(directories)).to(torch.float32) for name, weight in total.items()}


def last_checkpoints(
    run: RunDirectory, last: int, warn: Callable[[str], None], update: int | None = None
) -> list[Path]:
    """The newest ``last`` valid checkpoints in ``history``, up to ``update``."""
    past = (found for found in checkpoints(run.history) if update is None or update_number(found) <= update)
    return [checkpoint for checkpoint in past if is_valid(checkpoint, warn)][-last:]


def average_run(path: Path, last: int | None, warn: Callable[[str], None]) -> list[Path]:
    """Make the mean of the last valid checkpoints the final model; returns those."""
    run = RunDirectory(path)
    config, _ = run.read_config()
    run.refuse_links()
    with run.lock():
        run.recover_interrupted()
        if not checkpoints(run.history):
            raise RunError(f"{run.history}: found no checkpoint to average. Train until the first validation.")
        latest = checkpoints(run.latest)
        until = update_number(latest[-1]) if latest else None
        used = last_checkpoints(run, last or config.train.average_last, warn, until)
        if not used:
            raise CheckpointError(
                f"{run.history}: none of its checkpoints is valid, expected at least one to average."
            )
        state = {**read_json(used[-1] / "state.json"), "averaged": len(used)}
        final = save_checkpoint(run.final, update_number(used[-1]), {WEIGHTS: average_weights(used)}, state)
        prune(final, keep=1)
        calibrate_run(run, warn)
    return used
