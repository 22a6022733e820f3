"""When a training stops: at a limit, when patience has run out, or at a signal."""

import os
import signal
from types import FrameType
from typing import Any, Self

from glassformer.settings import TrainConfig
from glassformer.training.evaluation.metrics import METRICS
from glassformer.training.loop.checkpointing import TrainState


def stop_reason(settings: TrainConfig, state: TrainState, elapsed_s: float) -> str | None:
    """Why a training stops after ``elapsed_s`` seconds; None if it does not."""
    if state.update >= settings.max_updates:
        return f"reached {limit_text(settings, 'max_updates')}"
    if settings.max_minutes and elapsed_s >= 60 * settings.max_minutes:
        return f"reached {limit_text(settings, 'max_minutes')}"
    metric = METRICS.get(settings.metric)
    if settings.stop_at and metric and state.best is not None and state.best >= metric.rank(settings.stop_at):
        return f"{settings.metric} reached {abs(state.best):.1f} (train.stop_at)"
    if state.cooldown_to and state.update >= state.cooldown_to:
        return f"the cooldown for {state.cooldown_cause} is over"
    if is_out_of_patience(settings, state) and not settings.cooldown:
        measures = "loss" if settings.metric == "loss" else f"{settings.metric} and no better loss"
        return f"no better {measures} in {state.stale_validations} validations (train.patience)"
    return None


def fraction_done(settings: TrainConfig, state: TrainState) -> float:
    """How much of the training is done, from 0 to 1, by the limit that comes first."""
    last = state.cooldown_to or settings.max_updates
    by_time = state.elapsed_s / (60 * settings.max_minutes) if settings.max_minutes else 0.0
    return min(1.0, max(state.update / last, by_time))


def is_out_of_patience(settings: TrainConfig, state: TrainState) -> bool:
    """Whether as many validations in a row as ``train.patience`` were no better."""
    return bool(settings.patience) and state.stale_validations >= settings.patience


def limit_text(settings: TrainConfig, name: str) -> str:
    """A limit and its value; a saved state compares them as text."""
    value = getattr(settings, name)
    return f"train.{name} = {value:g}" if isinstance(value, float) else f"train.{name} = {value}"


class StopSignals:
    """SIGINT and SIGTERM stop a training, a second one at once."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError:
                return self
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
            return
        # The handlers stay: Python complains of a signal that arrives while its handler is being taken away.
        before = self._before.get(signal.Signals(number), signal.SIG_DFL)
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
