"""Adam, section 5.3: which weights it moves, its step, its moments."""

import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Adam

from glassformer.checkpoint import read_tensors
from glassformer.errors import CheckpointError, ConfigError, nearest
from glassformer.settings import TrainConfig
from glassformer.trace import is_tracing, note
from glassformer.training.loop.distributed import full_tensor
from glassformer.training.loop.strategy import ParallelStrategy

OPTIMIZER = "optimizer"  # the name of the file


def freeze(model: nn.Module, patterns: str, report: Callable[[str], None]) -> None:
    """Exclude the weights whose addresses match one of the ``patterns``, with ``*`` and ``?``, from the training.

    The address of a module stands for all its weights. Raises ``ConfigError`` if nothing matches, or nothing is left.
    """
    if not patterns:
        return
    weights = dict(model.named_parameters(remove_duplicate=False))
    for pattern in (part.strip() for part in patterns.split(",")):
        found = [name for name in weights if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")]
        if not found:
            addresses = (name for name, _ in (*model.named_modules(), *model.named_parameters()))
            raise ConfigError(
                f"train.freeze: {pattern!r} matches no weight.{nearest(pattern, addresses)} `glassformer summary` "
                "lists the addresses."
            )
        for name in found:
            weights[name].requires_grad_(False)
    frozen = sum(weight.numel() for weight in model.parameters() if not weight.requires_grad)
    total = sum(weight.numel() for weight in model.parameters())
    if frozen == total:
        raise ConfigError(f"train.freeze: {patterns!r} matches every weight, expected some to train. Freeze less.")
    report(f"Frozen: {frozen:,} of {total:,} parameters.")


def new_optimizer(model: nn.Module, config: TrainConfig) -> Adam:
    """Adam with the constants of ``config``, the paper's by default."""
    betas = (config.adam_beta1, config.adam_beta2)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return Adam(weights, lr=0.0, betas=betas, eps=config.adam_eps, fused=True)


def clip_gradients(model: nn.Module, config: TrainConfig) -> Float[Tensor, ""]:
    """Scale all gradients to a norm of at most ``clip_norm``; returns the norm."""
    norm = full_tensor(torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf))
    note("update.gradient_norm", norm, "")
    note_gradients(model, "clipped_gradient")
    return norm


def adam_step(model: nn.Module, optimizer: Adam, rate: float) -> None:
    """Update every weight by Adam's rule, and clear the gradients."""
    _note_state(model, optimizer, "_before")
    note("update.rate", lambda: torch.tensor(rate, dtype=torch.float64), "")
    optimizer.param_groups[0]["lr"] = rate
    optimizer.step()
    _note_state(model, optimizer, "")
    optimizer.zero_grad(set_to_none=True)
    note("update.gradients_left", lambda: torch.tensor(sum(one.grad is not None for one in model.parameters())), "")


def note_gradients(model: nn.Module, name: str) -> None:
    """Note the gradient of each weight; zeros if it has none."""
    _note_each(model, name, lambda weight: torch.zeros_like(weight) if weight.grad is None else weight.grad)


def _note_state(model: nn.Module, optimizer: Adam, when: str) -> None:
    """Note each weight and its two moments as they are now."""

    def moment(name: str) -> Callable[[Tensor], Tensor]:
        return lambda weight: optimizer.state[weight].get(name, torch.zeros_like(weight))

    _note_each(model, f"first_moment{when}", moment("exp_avg"))
    _note_each(model, f"second_moment{when}", moment("exp_avg_sq"))
    _note_each(model, f"value{when}", lambda weight: weight)
    counts = (int(state["step"]) for state in optimizer.state.values() if "step" in state)
    note(f"update.count{when}", lambda: torch.tensor(max(counts, default=0)), "")


def _note_each(model: nn.Module, name: str, compute: Callable[[Tensor], Tensor]) -> None:
    if not is_tracing():
        return
    for weight_name, weight in model.named_parameters():
        axes = "row column" if weight.ndim == 2 else "row"
        note(f"{weight_name}.{name}", partial(compute, weight), axes)


def optimizer_tensors(model: torch.nn.Module, optimizer: Adam) -> dict[str, Tensor]:
    """Adam's moments and step count of each parameter, by the parameter's name."""
    return {
        f"{key}/{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def restore_optimizer(strategy: ParallelStrategy, optimizer: Adam, checkpoint: Path) -> None:
    """Put the saved moments of a checkpoint back into the optimizer."""
    saved = read_tensors(checkpoint, OPTIMIZER)
    for name, parameter in strategy.model.named_parameters():
        if not parameter.requires_grad:
            continue
        state = {key: saved[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in saved}
        if len(state) not in {0, 3}:  # a weight that was frozen when this was saved has none
            raise CheckpointError(f"{checkpoint}/{OPTIMIZER}.safetensors: holds no moments of {name}.")
        if state:
            moments = {key: strategy.distribute_like(state[key], parameter) for key in ("exp_avg", "exp_avg_sq")}
            step = state["step"].to(parameter.device) if optimizer.param_groups[0]["fused"] else state["step"]
            optimizer.state[parameter] = {"step": step, **moments}
