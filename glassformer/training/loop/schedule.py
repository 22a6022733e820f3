"""The learning rate of each update: equation 3, section 5.3, the same curve with another peak, or a constant.

Over the last part, the cooldown, it falls in a straight line to zero (Hägele et al. 2024, arXiv 2405.18392).
"""

import math
from dataclasses import replace

from glassformer.settings import LIMITS, TrainConfig
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.stopping import is_out_of_patience, limit_text


def learning_rate(update: int, config: TrainConfig, d_model: int) -> float:
    """The rate of update 1, 2, 3 ...: linear up to the peak at ``warmup``, then constant or falling with 1 / √update.

    Equation 3, d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), has the peak (d_model · warmup)^-0.5.
    """
    peak = (d_model * config.warmup) ** -0.5 if config.schedule == "noam" else config.peak_rate
    later = 1.0 if config.schedule == "constant" else (config.warmup / update) ** 0.5
    return float(peak * min(update / config.warmup, later))


def cooldown_factor(state: TrainState, update: int) -> float:
    """The factor of the rate: 1 before the cooldown, then falling."""
    if not state.cooldown_to:
        return 1.0
    left = max(1, state.cooldown_to + 1 - update)  # with this update
    return min(1.0, left / (state.cooldown_to - state.cooldown_from + 1))


def start_cooldown(settings: TrainConfig, state: TrainState, elapsed_s: float) -> TrainState:
    """``state`` with a cooldown from here to the nearest limit, if it is due."""
    if state.cooldown_to or not settings.cooldown:
        return state
    left, cause = min(_updates_left(settings, state, elapsed_s))
    if is_out_of_patience(settings, state):
        share = settings.cooldown / (1 - settings.cooldown)
        left, cause = min((left, cause), (state.update * share, limit_text(settings, "patience")))
    elif left > settings.cooldown * (state.update + left):
        return state
    last = state.update + max(1, math.floor(left))
    return replace(state, cooldown_from=state.update, cooldown_to=last, cooldown_cause=cause)


def cancel_stale_cooldown(settings: TrainConfig, state: TrainState) -> TrainState:
    """The state without a cooldown whose limit is no longer set."""
    limits = {limit_text(settings, name) for name in LIMITS}
    if not state.cooldown_to or state.cooldown_cause in limits:
        return state
    return replace(state, cooldown_from=0, cooldown_to=0, cooldown_cause="")


def _updates_left(settings: TrainConfig, state: TrainState, elapsed_s: float) -> list[tuple[float, str]]:
    """The updates left until each limit, at the pace so far."""
    left = [(float(settings.max_updates - state.update), limit_text(settings, "max_updates"))]
    if settings.max_minutes and state.update:
        left_s = 60 * settings.max_minutes - elapsed_s
        left.append((state.update * left_s / max(elapsed_s, 1e-9), limit_text(settings, "max_minutes")))
    return left
