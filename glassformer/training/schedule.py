"""The learning rate of each update, its cooldown, and when a training stops. Section 5.3.

The rate follows the paper's equation 3, or the same curve with a peak of your own. Over the last part of a training,
``train.cooldown`` of it, it falls in a straight line to zero (Hägele et al. 2024, arXiv 2405.18392). The cooldown
starts when the nearest limit is close enough, or when patience has run out. Its last update is fixed when it starts,
so that a training that is stopped and resumed makes the same updates.
"""

import math
from dataclasses import replace

from glassformer.config import TrainConfig
from glassformer.training.checkpointing import TrainState
from glassformer.training.metrics import METRICS


def learning_rate(update: int, config: TrainConfig, d_model: int) -> float:
    """The rate of update 1, 2, 3 ...: linear up to the peak at ``warmup``, then falling with 1 / √update.

    Equation 3, d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), is this curve with the peak
    (d_model · warmup)^-0.5. ``cooldown_factor`` is not included.
    """
    peak = (d_model * config.warmup) ** -0.5 if config.schedule == "noam" else config.peak_rate
    return float(peak * min(update / config.warmup, (config.warmup / update) ** 0.5))


def cooldown_factor(state: TrainState, update: int) -> float:
    """What the rate of ``update`` is multiplied by: 1 before the cooldown, falling to a little above 0 at its end."""
    if not state.cooldown_to:
        return 1.0
    left = max(1, state.cooldown_to + 1 - update)  # counts this update, so that the last one is not without effect
    return min(1.0, left / (state.cooldown_to - state.cooldown_from + 1))


def start_cooldown(settings: TrainConfig, state: TrainState, elapsed_s: float) -> TrainState:
    """The state with a cooldown that starts here, if it is due; otherwise ``state``.

    It lasts until the nearest limit, in updates at the pace so far. If patience has run out, it takes at most
    ``train.cooldown`` of the whole training.
    """
    if state.cooldown_to or not settings.cooldown:
        return state
    left, cause = min(_updates_left(settings, state, elapsed_s))
    if _is_out_of_patience(settings, state):
        share = settings.cooldown / (1 - settings.cooldown)
        left, cause = min((left, cause), (state.update * share, _setting(settings, "patience")))
    elif left > settings.cooldown * (state.update + left):
        return state
    last = state.update + max(1, math.floor(left))
    return replace(state, cooldown_from=state.update, cooldown_to=last, cooldown_cause=cause)


def cancel_stale_cooldown(settings: TrainConfig, state: TrainState) -> TrainState:
    """The state without a cooldown whose limit is no longer set: the training may now be longer."""
    limits = {_setting(settings, name) for name in ("max_updates", "max_minutes", "patience")}
    if not state.cooldown_to or state.cooldown_cause in limits:
        return state
    return replace(state, cooldown_from=0, cooldown_to=0, cooldown_cause="")


def stop_reason(settings: TrainConfig, state: TrainState, elapsed_s: float) -> str | None:
    """Why a training stops after ``elapsed_s`` seconds; None if it does not."""
    if state.update >= settings.max_updates:
        return f"reached {_setting(settings, 'max_updates')}"
    if settings.max_minutes and elapsed_s >= 60 * settings.max_minutes:
        return f"reached {_setting(settings, 'max_minutes')}"
    metric = METRICS.get(settings.metric)
    if settings.stop_at and metric and state.best is not None and state.best >= metric.rank(settings.stop_at):
        return f"{settings.metric} reached {abs(state.best):.1f} (train.stop_at)"
    if state.cooldown_to and state.update >= state.cooldown_to:
        return f"the cooldown for {state.cooldown_cause} is over"
    if _is_out_of_patience(settings, state) and not settings.cooldown:
        return f"no better {_measures(settings)} in {state.stale_validations} validations (train.patience)"
    return None


def fraction_done(settings: TrainConfig, state: TrainState) -> float:
    """How much of the training is done, from 0 to 1, by the limit that comes first."""
    last = state.cooldown_to or settings.max_updates
    by_time = state.elapsed_s / (60 * settings.max_minutes) if settings.max_minutes else 0.0
    return min(1.0, max(state.update / last, by_time))


def _updates_left(settings: TrainConfig, state: TrainState, elapsed_s: float) -> list[tuple[float, str]]:
    """The updates left until each limit, at the pace so far."""
    left = [(float(settings.max_updates - state.update), _setting(settings, "max_updates"))]
    if settings.max_minutes and state.update:
        left_s = 60 * settings.max_minutes - elapsed_s
        left.append((state.update * left_s / max(elapsed_s, 1e-9), _setting(settings, "max_minutes")))
    return left


def _is_out_of_patience(settings: TrainConfig, state: TrainState) -> bool:
    return bool(settings.patience) and state.stale_validations >= settings.patience


def _measures(settings: TrainConfig) -> str:
    return "loss" if settings.metric == "loss" else f"{settings.metric} and no better loss"


def _setting(settings: TrainConfig, name: str) -> str:
    """A limit and its value; a saved state compares them as text."""
    value = getattr(settings, name)
    return f"train.{name} = {value:g}" if isinstance(value, float) else f"train.{name} = {value}"
