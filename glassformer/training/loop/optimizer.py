"""Adam, section 5.3, and Muon: which weights are moved, the step, the moments."""

import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Adam

from glassformer.checkpoint import read_tensors
from glassformer.errors import CheckpointError, ConfigError, nearest
from glassformer.settings import TrainConfig
from glassformer.trace import is_tracing, note
from glassformer.training.loop.distributed import full_tensor
from glassformer.training.loop.muon import Muon, layer_matrices
from glassformer.training.loop.strategy import ParallelStrategy
from glassformer.training.objective.objective import computes_in_bf16

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
    """The one of ``OPTIMIZERS`` that ``config`` names, with its constants, the paper's by default."""
    constants = {"lr": 0.0, "betas": (config.adam_beta1, config.adam_beta2), "eps": config.adam_eps, "fused": True}
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return OPTIMIZERS[config.optimizer](model, weights, config, constants)


def _new_muon(model: nn.Module, weights: Sequence[Tensor], config: TrainConfig, constants: dict[str, Any]) -> Muon:
    if config.sharding == "full":
        raise ConfigError(
            "train.optimizer: found 'muon' with train.sharding = full, expected 'adam' or whole matrices: a step of "
            "Muon needs all of a matrix. Set train.optimizer=adam, or train.sharding=none."
        )
    matrices = layer_matrices(model)
    others = set(weights) - set(matrices.values())
    bf16 = bool(weights) and computes_in_bf16(config.precision, weights[0].device)
    dtype = torch.bfloat16 if bf16 else torch.float32
    return Muon([one for one in weights if one in others], matrices, dtype, **constants)


# The register: `train.optimizer` names one of these.
OPTIMIZERS: dict[str, Callable[[nn.Module, Sequence[Tensor], TrainConfig, dict[str, Any]], Adam]] = {
    "adam": lambda model, weights, config, constants: Adam(weights, **constants),
    "muon": _new_muon,
}


def clip_gradients(model: nn.Module, config: TrainConfig) -> Float[Tensor, ""]:
    """Scale all gradients to a norm of at most ``clip_norm``; returns the norm."""
    norm = full_tensor(torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf))
    note("update.gradient_norm", norm, "")
    note_gradients(model, "clipped_gradient")
    return norm


def adam_step(model: nn.Module, optimizer: Adam, rate: float) -> None:
    """Update every weight by the optimizer's rule, and clear the gradients."""
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

    def moment(name: str) -> Callable[[Tensor], Tensor | None]:
        def compute(weight: Tensor) -> Tensor | None:
            is_kept = name in _moments(optimizer, weight)
            return optimizer.state[weight].get(name, torch.zeros_like(weight)) if is_kept else None

        return compute

    _note_each(model, f"first_moment{when}", moment("exp_avg"))
    _note_each(model, f"second_moment{when}", moment("exp_avg_sq"))
    _note_each(model, f"value{when}", lambda weight: weight)
    counts = (int(state["step"]) for state in optimizer.state.values() if "step" in state)
    note(f"update.count{when}", lambda: torch.tensor(max(counts, default=0)), "")


def _note_each(model: nn.Module, name: str, compute: Callable[[Tensor], Tensor | None]) -> None:
    if not is_tracing():
        return
    for weight_name, weight in model.named_parameters():
        axes, value = "row column" if weight.ndim == 2 else "row", compute(weight)
        if value is not None:
            note(f"{weight_name}.{name}", value, axes)


def _moments(optimizer: Adam, weight: Tensor) -> tuple[str, ...]:
    """The running means of a weight; Muon has no second moment."""
    is_matrix = isinstance(optimizer, Muon) and weight in optimizer.names
    return ("exp_avg",) if is_matrix else ("exp_avg", "exp_avg_sq")


def optimizer_tensors(model: torch.nn.Module, optimizer: Adam) -> dict[str, Tensor]:
    """The moments and the step count of each parameter, by the parameter's name."""
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
        moments = _moments(optimizer, parameter)
        state = {key: saved[f"{key}/{name}"] for key in ("step", *moments) if f"{key}/{name}" in saved}
        if len(state) not in {0, 1 + len(moments)}:  # a weight that was frozen when this was saved has none
            raise CheckpointError(f"{checkpoint}/{OPTIMIZER}.safetensors: holds no moments of {name}.")
        if state:
            step = state["step"].to(parameter.device) if optimizer.param_groups[0]["fused"] else state["step"]
            means = {key: strategy.distribute_like(state[key], parameter) for key in moments}
            optimizer.state[parameter] = {"step": step, **means}
