"""What a training must remember to go on as if it had not been stopped, as tensors and plain values."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.optim import Adam

from glassformer.checkpoint import read_json, read_tensors
from glassformer.errors import CheckpointError
from glassformer.training.distributed import Spread
from glassformer.world import ALONE, World

OPTIMIZER = "optimizer"
RANDOM = "random"
_COOLDOWN = {"cooldown_from", "cooldown_to", "cooldown_cause"}


@dataclass(frozen=True)
class TrainState:
    """Counters of a training. ``position`` counts the epoch's batches that are done; higher ``best`` is better.

    ``cooldown_from`` and ``cooldown_to`` are the updates after which the cooldown begins and ends, 0 before it is
    settled; ``cooldown_cause`` is the limit that it leads to.
    """

    update: int = 0
    epoch: int = 1
    position: int = 0
    elapsed_s: float = 0.0
    target_tokens: int = 0
    validated_update: int = 0
    best: float | None = None
    best_update: int = 0
    stale_validations: int = 0
    cooldown_from: int = 0
    cooldown_to: int = 0
    cooldown_cause: str = ""

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def read(cls, checkpoint: Path) -> Self:
        """The counters saved with a checkpoint; one from before there were cooldowns has none."""
        values = read_json(checkpoint / "state.json").get("counters", {})
        known = {field.name for field in fields(cls)}
        if values.keys() | _COOLDOWN != known:
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


def restore_optimizer(spread: Spread, optimizer: Adam, checkpoint: Path) -> None:
    """Put saved moments back."""
    saved = read_tensors(checkpoint, OPTIMIZER)
    for name, parameter in spread.model.named_parameters():
        state = {key: saved[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in saved}
        if saved and len(state) != 3:
            raise CheckpointError(f"{checkpoint}/{OPTIMIZER}.safetensors: holds nothing for {name}.")
        if state:
            moments = {key: spread.placed(state[key], parameter) for key in ("exp_avg", "exp_avg_sq")}
            step = state["step"].to(parameter.device) if optimizer.param_groups[0]["fused"] else state["step"]
            optimizer.state[parameter] = {"step": step, **moments}


def random_tensors(world: World = ALONE) -> dict[str, Tensor]:
    """The states of torch's generators, of all processes, in the first one; the others' names end in /rank."""
    own = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["cuda"] = torch.cuda.get_rng_state()
    return {
        _of_rank(name, rank): state for rank, states in enumerate(world.gather(own)) for name, state in states.items()
    }


def restore_random(checkpoint: Path, world: World = ALONE) -> None:
    """Put this process's saved generator states back, where there are some."""
    saved = read_tensors(checkpoint, RANDOM)
    cpu, cuda = (saved.get(_of_rank(name, world.rank)) for name in ("cpu", "cuda"))
    if cpu is not None:
        torch.set_rng_state(cpu)
    if cuda is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(cuda)


def _of_rank(name: str, rank: int) -> str:
    return f"{name}/{rank}" if rank else name


def draw_apart(world: World, seed: int, update: int) -> None:
    """Let each process but the first draw random numbers of its own from here on; the first one's go on."""
    if not world.is_first:
        torch.manual_seed(int(np.random.PCG64([seed, world.rank, update]).random_raw() >> 1))
