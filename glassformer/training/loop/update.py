"""One update: gradients, clipping, the rate, Adam. Sections 5.3, 5.4."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Adam

from glassformer.model.transformer import Transformer
from glassformer.settings import TrainConfig
from glassformer.text.corpus.batches import Batch
from glassformer.trace import note
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.optimizer import adam_step, clip_gradients, note_gradients
from glassformer.training.loop.schedule import cooldown_factor, learning_rate
from glassformer.training.loop.strategy import ParallelStrategy


@dataclass(frozen=True)
class LossSums:
    """Sums over ``tokens`` target tokens, in nats."""

    loss: float
    nll: float
    tokens: int


@dataclass(frozen=True)
class UpdateMetrics:
    """What one update measured: losses in nats per token of all processes."""

    loss: float
    nll: float
    tokens: int
    rate: float
    gradient_norm: float


def update(
    strategy: ParallelStrategy,
    optimizer: Adam,
    batches: Sequence[Batch],
    *,
    tokens: int,
    state: TrainState,
    config: TrainConfig,
    check: Callable[[float, float], None] = lambda loss, gradient_norm: None,
) -> UpdateMetrics:
    """Make update ``state.update + 1``: one step of Adam on the mean smoothed loss.

    ``tokens`` counts the target tokens of all processes. ``check`` gets the loss and the norm of the gradient before
    any weight moves; it may raise.
    """
    sums = backward_batches(strategy, batches, tokens, config)
    norms = clip_gradients(strategy.model, config)
    *own, norm = torch.cat([sums, norms[None]]).tolist()  # the one time that an update waits for a GPU
    loss, nll = strategy.world.sum(*own)
    check(loss, norm)
    rate = _rate(state, config, strategy.model.config.d_model)
    adam_step(strategy.model, optimizer, rate)
    return UpdateMetrics(loss / tokens, nll / tokens, tokens, rate, norm)


def _rate(state: TrainState, config: TrainConfig, d_model: int) -> float:
    """The schedule, its cooldown, and half for each restart."""
    number = state.update + 1
    cooldown = cooldown_factor(state, number)
    note("update.cooldown", lambda: torch.tensor(cooldown, dtype=torch.float64), "")
    if state.restarts:
        note("update.restarts", lambda: torch.tensor(state.restarts), "")
    return float(learning_rate(number, config, d_model) * cooldown * 0.5**state.restarts)


def accumulate_gradients(model: Transformer, batches: Sequence[Batch], config: TrainConfig) -> LossSums:
    """Add the gradients of the mean smoothed loss of ``batches``."""
    tokens = sum(batch.target_tokens for batch in batches)
    loss, nll = backward_batches(ParallelStrategy(model, config), batches, tokens, config).tolist()
    return LossSums(loss, nll, tokens)


def backward_batches(
    strategy: ParallelStrategy, batches: Sequence[Batch], tokens: int, config: TrainConfig
) -> Float[Tensor, "2"]:
    """The same in any number of processes; returns the sums of both losses."""
    count = tokens / strategy.world.size  # the gradients are averaged over the processes
    sums = []
    for number, batch in enumerate(batches, start=1):
        with strategy.gradient_sync(enabled=number == len(batches)):
            sums.append(strategy.backward(batch, count, config))
    note_gradients(strategy.model, "gradient")
    return torch.stack(sums).sum(0)
