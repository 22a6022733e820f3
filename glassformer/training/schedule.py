"""The learning rate of each update: the paper's equation 3, or the same curve with a peak of one's own.

When a training ends, and how its learning rate falls before. Knows nothing of models, batches or files.

Over the last part of a training, ``train.cooldown`` of it, the rate falls in a straight line to nothing (Hägele et
al. 2024, arXiv 2405.18392). That part begins when the nearest limit is near enough, or when patience has run out;
from then on its last update is settled, so that a training that was stopped makes the same updates.
"""

import math
from dataclasses import replace

from glassformer.config import TrainConfig
from glassformer.training.checkpointing import TrainState


def learning_rate(update: int, config: TrainConfig, d_model: int) -> float:
    """The rate of update 1, 2, 3 ...: linear up to the peak at ``warmup``, then falling with 1 / √update.

    Equation 3, d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), is this curve with the peak
    (d_model · warmup)^-0.5. What a cooldown leaves of it is not counted here: see ``limits``.
    """
    peak = (d_model * config.warmup) ** -0.5 if config.schedule == "noam" else config.peak_rate
    return float(peak * min(update / config.warmup, (config.warmup / update) ** 0.5))


def stop_reason(settings: TrainConfig, state: TrainState, elapsed_s: float) -> str | None:
    """What ends the training now, after ``elapsed_s`` seconds of it."""
    if state.update >= settings.max_updates:
        return f"reached {_updates(settings)}"
    if settings.max_minutes and elapsed_s >= 60 * settings.max_minutes:
        return f"reached {_minutes(settings)}"
    if settings.stop_at and settings.metric != "loss" and (state.best or 0.0) >= settings.stop_at:
        return f"{settings.metric} reached {state.best:.1f} (train.stop_at)"
    if state.cooldown_to and state.update >= state.cooldown_to:
        return f"the cooldown for {state.cooldown_cause} is over"
    if _is_out_of_patience(settings, state) and not settings.cooldown:
        return f"no better {settings.metric} in {state.stale_validations} validations (train.patience)"
    return None


def start_cooldown(settings: TrainConfig, state: TrainState, elapsed_s: float) -> TrainState:
    """The state with its cooldown from here on, if it is due.

    It lasts until the nearest limit, in updates at the pace so far; after patience has run out, for
    ``train.cooldown`` of the whole training at most.
    """
    if state.cooldown_to or not settings.cooldown:
        return state
    left, cause = min(_left(settings, state, elapsed_s))
    if _is_out_of_patience(settings, state):
        share = settings.cooldown / (1 - settings.cooldown)
        left, cause = min((left, cause), (state.update * share, _patience(settings)))
    elif left > settings.cooldown * (state.update + left):
        return state
    last = state.update + max(1, math.floor(left))
    return replace(state, cooldown_from=state.update, cooldown_to=last, cooldown_cause=cause)


def cancel_stale_cooldown(settings: TrainConfig, state: TrainState) -> TrainState:
    """The state without a cooldown for a limit that is no longer set: the training may go on for longer."""
    if not state.cooldown_to or state.cooldown_cause in {_updates(settings), _minutes(settings), _patience(settings)}:
        return state
    return replace(state, cooldown_from=0, cooldown_to=0, cooldown_cause="")


def cooldown_factor(state: TrainState, update: int) -> float:
    """What the rate of ``update`` is multiplied by: 1 outside the cooldown, and a little more than 0 at its end."""
    if not state.cooldown_to:
        return 1.0
    left = max(1, state.cooldown_to + 1 - update)  # with this update, so that the last one still moves
    return min(1.0, left / (state.cooldown_to - state.cooldown_from + 1))


def fraction_done(settings: TrainConfig, state: TrainState) -> float:
    """The part of the training that is done, by whichever limit comes first."""
    last = state.cooldown_to or settings.max_updates
    by_time = state.elapsed_s / (60 * settings.max_minutes) if settings.max_minutes else 0.0
    return min(1.0, max(state.update / last, by_time))


def _left(settings: TrainConfig, state: TrainState, elapsed_s: float) -> list[tuple[float, str]]:
    """The updates that are left until each limit, at the pace so far."""
    left = [(float(settings.max_updates - state.update), _updates(settings))]
    if settings.max_minutes and state.update:
        left_s = 60 * settings.max_minutes - elapsed_s
        left.append((state.update * left_s / max(elapsed_s, 1e-9), _minutes(settings)))
    return left


def _is_out_of_patience(settings: TrainConfig, state: TrainState) -> bool:
    return bool(settings.patience) and state.stale_validations >= settings.patience


def _updates(settings: TrainConfig) -> str:
    return f"train.max_updates = {settings.max_updates}"


def _minutes(settings: TrainConfig) -> str:
    return f"train.max_minutes = {settings.max_minutes:g}"


def _patience(settings: TrainConfig) -> str:
    return f"train.patience = {settings.patience}"
