"""A display that counts updates and remembers what was said, and a small order."""

from pathlib import Path
from typing import Any

from glassformer.reproduction.inputs import Order, find_files
from glassformer.reproduction.recipe import read_recipe
from glassformer.text.prepare import PrepareProgress
from glassformer.training.evaluation import Validation
from glassformer.training.run_log import Progress


class Silent:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.updates: list[int] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def advanced(self, progress: PrepareProgress, *, due: bool) -> None:
        pass

    def progress(self, progress: Progress, *, due: bool) -> None:
        self.updates.append(progress.update)

    def validated(self, validation: Validation, *, best: bool) -> None:
        pass


def small_order(home: Path, run: Path, **changes: Any) -> Order:
    """The recipe phrases.toml in ``home``, with two seeds."""
    recipe = read_recipe(str(home / "phrases.toml"))
    return Order(**{"recipe": recipe, "files": find_files(recipe, home), "run": run, "seeds": (1, 2), **changes})
