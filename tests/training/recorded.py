"""A display that records what a training reports."""

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
