"""What a person asked to have done again, and each training that it takes. Trains nothing."""

from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.reproduction.recipe import Recipe, Variant
from glassformer.run_directory import RunDirectory
from glassformer.training.request import TrainRequest


@dataclass(frozen=True)
class Order:
    """What to do. ``files`` are the places of the recipe's files; ``overrides`` are settings, section.key=value,
    set after those of the ``variant`` and of the teachers."""

    recipe: Recipe
    files: dict[str, Path]
    run: Path
    seeds: tuple[int, ...]
    overrides: tuple[str, ...] = ()
    variant: Variant | None = None

    def __post_init__(self) -> None:
        if any(one.partition("=")[0].strip() == "train.seed" for one in self.changes):
            raise ConfigError("train.seed: is another for each training here. Name the seeds with --seeds 1,2,3.")

    @property
    def changes(self) -> list[str]:
        """All settings of the seeds' trainings that are not the recipe's own."""
        return [*(self.variant.changes if self.variant else ()), *self.overrides]

    @property
    def teachers(self) -> dict[str, list[str]]:
        """All settings of each teacher that are not the recipe's own, by its direction."""
        own = (self.variant or self.recipe).teachers
        return {direction: [*changes, *self.overrides] for direction, changes in own.items()}

    @property
    def teachers_place(self) -> Path:
        """Where the teachers are trained, and where what they make of the text is."""
        return self.run / "teachers"

    def run_of(self, seed: int) -> RunDirectory:
        """Where one seed is trained."""
        return RunDirectory(self.run / f"seed-{seed}")

    def teacher_run(self, direction: str) -> RunDirectory:
        """Where a teacher is trained."""
        return RunDirectory(self.teachers_place / direction)

    def request(self, seed: int) -> TrainRequest:
        """The training of one seed, in its own run directory, on the recipe's text."""
        return self._request(self.run_of(seed).path, [*self.changes, f"train.seed={seed}"])

    def teacher_request(self, direction: str) -> TrainRequest:
        """The training of a teacher; its text is the same for both directions."""
        return self._request(self.teacher_run(direction).path, self.teachers[direction])

    def _request(self, run: Path, changes: list[str]) -> TrainRequest:
        data = {key: str(self.files[name]) for key, name in self.recipe.data.items()}
        return TrainRequest.make(run=run, data=data, config_file=self.recipe.path, overrides=changes)
