"""A display that remembers what it was told."""

from glassformer.text.prepare import PrepareProgress
from glassformer.training.evaluation import Validation
from glassformer.training.run_log import Progress


class Lines:
    """A display that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.validations: list[Validation] = []
        self.updates: list[Progress] = []
        self.advances: list[PrepareProgress] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def advanced(self, progress: PrepareProgress, *, due: bool) -> None:
        self.advances.append(progress)

    def progress(self, progress: Progress, *, due: bool) -> None:
        self.updates.append(progress)

    def validated(self, validation: Validation, *, best: bool) -> None:
        self.validations.append(validation)
