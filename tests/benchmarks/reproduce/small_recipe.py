"""A small request, and a display that records updates and messages."""

from pathlib import Path
from typing import Any

from benchmarks.reproduce.inputs import ReproduceRequest, find_files
from benchmarks.reproduce.recipe import read_recipe
from glassformer.training.reporting.run_log import Display, TrainProgress


class Silent(Display):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.updates: list[int] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        self.updates.append(progress.update)


def small_request(home: Path, run: Path, **changes: Any) -> ReproduceRequest:
    """The recipe phrases.toml in ``home``, with two seeds."""
    recipe = read_recipe(str(home / "phrases.toml"))
    return ReproduceRequest(
        **{"recipe": recipe, "files": find_files(recipe, home), "run": run, "seeds": (1, 2), **changes}
    )
