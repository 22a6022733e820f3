"""One update of the weights: gradients, clipping, Adam. Sections 5.3 and 5.4.

The training loop and the traced training step call the same functions. While a trace records, the gradient, moments
and change of each parameter are noted under its name. Forward and backward compute in float32, or with bfloat16
products and float32 weights and sums.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Adam

from glassformer.config import TrainConfig
from glassformer.model.transformer import Transformer
from glassformer.text.batches import Batch
from glassformer.trace import is_tracing, note
from glassformer.training.distributed import ParallelStrategy, full_tensor


@dataclass(frozen=True)
class LossSums:
    """Sums over ``tokens`` target tokens, in nats: the smoothed loss and the negative log-likelihood."""

    loss: float
    nll: float
    tokens: int


def new_optimizer(model: nn.Module, config: TrainConfig) -> Adam:
    """Adam with the constants of ``config``, the paper's by default; ``adam_step`` sets the learning rate."""
    betas = (config.adam_beta1, config.adam_beta2)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return Adam(weights, lr=0.0, betas=betas, eps=config.adam_eps, fused=True)


def accumulate_gradients(model: Transformer, batches: Sequence[Batch], config: TrainConfig) -> LossSums:
    """Add the gradients of the mean smoothed loss over all target tokens of ``batches``, in one process."""
    tokens = sum(batch.target_tokens for batch in batches)
    sums = backward_batches(ParallelStrategy(model, config), batches, tokens, config)
    _note_each(model, "gradient", _gradient)
    return sums


def backward_batches(
    strategy: ParallelStrategy, batches: Sequence[Batch], tokens: int, config: TrainConfig
) -> LossSums:
    """The same in any number of processes: ``batches`` are this one's, ``tokens`` counts those of all processes."""
    device = next(strategy.model.parameters()).device
    loss_sum = nll_sum = 0.0
    for number, batch in enumerate(batches, start=1):
        batch = batch.to(device)
        with strategy.gradient_sync(enabled=number == len(batches)):
            with autocast(config.precision, device):
                loss, nll = strategy.objective(batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids)
            mean = loss / (tokens / strategy.world.size)  # the gradients are averaged over the processes
            note("loss.mean", mean, "")
            mean.backward()
        loss_sum, nll_sum = loss_sum + float(loss.detach()), nll_sum + float(nll)
    loss_sum, nll_sum = strategy.world.sum(loss_sum, nll_sum)
    return LossSums(loss_sum, nll_sum, tokens)


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which the forward pass runs: autocast to bfloat16, or nothing."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def clip_gradients(model: nn.Module, config: TrainConfig) -> float:
    """Scale all gradients to a common norm of at most ``clip_norm``, if it is set; returns the norm before."""
    norm = full_tensor(torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf))
    note("update.gradient_norm", norm, "")
    _note_each(model, "clipped_gradient", _gradient)
    return float(norm)


def adam_step(model: nn.Module, optimizer: Adam, rate: float) -> None:
    """Update every weight by Adam's rule with this learning rate, and clear the gradients."""
    _note_state(model, optimizer, "_before")
    note("update.rate", lambda: torch.tensor(rate, dtype=torch.float64), "")
    optimizer.param_groups[0]["lr"] = rate
    optimizer.step()
    _note_state(model, optimizer, "")
    optimizer.zero_grad(set_to_none=True)


def _note_state(model: nn.Module, optimizer: Adam, when: str) -> None:
    """Note each weight and its two moments as they are now."""

    def moment(name: str) -> Callable[[Tensor], Tensor]:
        return lambda weight: optimizer.state[weight].get(name, torch.zeros_like(weight))

    _note_each(model, f"first_moment{when}", moment("exp_avg"))
    _note_each(model, f"second_moment{when}", moment("exp_avg_sq"))
    _note_each(model, f"value{when}", lambda weight: weight)
    steps = next((int(state["step"]) for state in optimizer.state.values() if "step" in state), 0)
    note(f"update.count{when}", lambda: torch.tensor(steps), "")


def _note_each(model: nn.Module, name: str, compute: Callable[[Tensor], Tensor]) -> None:
    if not is_tracing():
        return
    for weight_name, weight in model.named_parameters():
        axes = "row column" if weight.ndim == 2 else "row"
        note(f"{weight_name}.{name}", partial(compute, weight), axes)


def _gradient(weight: Tensor) -> Tensor:
    return torch.zeros_like(weight) if weight.grad is None else weight.grad
