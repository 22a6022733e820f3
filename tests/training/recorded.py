"""Displays that record what a training reports, and that stop it."""

import os
import signal

from glassformer.text.corpus.prepare import PrepareProgress
from glassformer.training.evaluation.results import Validation
from glassformer.training.reporting.run_log import Display, TrainProgress


class Lines(Display):
    """Records what a training reports."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.validations: list[Validation] = []
        self.updates: list[TrainProgress] = []
        self.advances: list[PrepareProgress] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    def on_prepare(self, progress: PrepareProgress, *, due: bool) -> None:
        self.advances.append(progress)

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        self.updates.append(progress)

    def on_validation(self, validation: Validation, *, best: bool) -> None:
        self.validations.append(validation)


class StopsAt(Lines):
    """A signal after an update, such as that of a person who presses Ctrl-C."""

    def __init__(self, update: int, number: signal.Signals = signal.SIGINT) -> None:
        super().__init__()
        self._update, self._number = update, number

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        super().on_update(progress, due=due)
        if progress.update == self._update:
            os.kill(os.getpid(), self._number)
