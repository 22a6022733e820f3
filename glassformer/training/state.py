"""What a training must remember to go on as if it had not been stopped, as tensors and plain values."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.optim import Adam

from glassformer.checkpoint import read_json, read_tensors
from glassformer.errors import CheckpointError

OPTIMIZER = "optimizer"
RANDOM = "random"


@dataclass(frozen=True)
class TrainState:
    """Counters of a training. ``position`` counts the epoch's batches that are done; higher ``best`` is better."""

    update: int = 0
    epoch: int = 1
    position: int = 0
    elapsed_s: float = 0.0
    target_tokens: int = 0
    validated_update: int = 0
    best: float | None = None
    best_update: int = 0
    stale_validations: int = 0

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def read(cls, checkpoint: Path) -> Self:
        """The counters saved with a checkpoint."""
        values = read_json(checkpoint / "state.json").get("counters", {})
        known = {field.name for field in fields(cls)}
        if values.keys() != known:
            raise CheckpointError(
                f"{checkpoint}/state.json: found counters {sorted(values)}, expected {sorted(known)}."
            )
        return replace(cls(), **values)


def optimizer_tensors(model: torch.nn.Module, optimizer: Adam) -> dict[str, Tensor]:
    """Adam's moments and step count of each parameter, by the parameter's name."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}/{name}"] = value
    return tensors


def restore_optimizer(model: torch.nn.Module, optimizer: Adam, checkpoint: Path) -> None:
    """Put saved moments back."""
    saved = read_tensors(checkpoint, OPTIMIZER)
    for name, parameter in model.named_parameters():
        state = {key: saved[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in saved}
        if saved and len(state) != 3:
            raise CheckpointError(f"{checkpoint}/{OPTIMIZER}.safetensors: holds nothing for {name}.")
        if state:
            moments = {key: state[key].to(parameter.device) for key in ("exp_avg", "exp_avg_sq")}
            step = state["step"].to(parameter.device) if optimizer.param_groups[0]["fused"] else state["step"]
            optimizer.state[parameter] = {"step": step, **moments}


def random_tensors() -> dict[str, Tensor]:
    """The states of torch's generators."""
    tensors = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["cuda"] = torch.cuda.get_rng_state()
    return tensors


def restore_random(checkpoint: Path) -> None:
    """Put saved generator states back."""
    saved = read_tensors(checkpoint, RANDOM)
    torch.set_rng_state(saved["cpu"])
    if "cuda" in saved and torch.cuda.is_available():
        torch.cuda.set_rng_state(saved["cuda"])
