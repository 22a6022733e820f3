"""What a person asked to have done again, and each training that it takes. Trains nothing."""

from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.reproduction.recipe import Recipe, Variant
from glassformer.run_directory import RunDirectory
from glassformer.training.request import TrainRequest

_BACKWARD = {"src": "tgt", "tgt": "src", "valid_src": "valid_tgt", "valid_tgt": "valid_src"}


@dataclass(frozen=True)
class Order:
    """What to do. ``files`` are the places of the recipe's files; ``overrides`` are settings, section.key=value,
    set after those of the ``variant``, but before those of its teachers, which have few of their own."""

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
        own = self.variant.teachers if self.variant else {}
        return {direction: [*self.overrides, *changes] for direction, changes in own.items()}

    @property
    def texts(self) -> dict[str, Path]:
        """The recipe's files to train on and to validate with, by their keys."""
        return {key: self.files[name] for key, name in self.recipe.data.items()}

    def run_of(self, seed: int) -> RunDirectory:
        """Where one seed is trained."""
        return RunDirectory(self.run / f"seed-{seed}")

    def teacher_run(self, direction: str) -> Path:
        """Where a teacher is trained."""
        return self.run / "teachers" / direction

    def taught(self) -> dict[str, Path]:
        """The files that the teachers' translations are in, beside the recipe's own text, by the keys of both."""
        return {key: self.run / "teachers" / f"train.{key}" for key in ("src", "tgt")}

    def request(self, seed: int) -> TrainRequest:
        """The training of one seed, in its own run directory."""
        texts = {**self.texts, **(self.taught() if self.teachers else {})}
        return self._request(self.run_of(seed).path, texts, [*self.changes, f"train.seed={seed}"])

    def teacher_request(self, direction: str) -> TrainRequest:
        """The training of a teacher; the backward one learns from targets to sources."""
        texts = self.texts
        if direction == "backward":
            texts = {key: texts[_BACKWARD[key]] for key in texts}
        return self._request(self.teacher_run(direction), texts, self.teachers[direction])

    def _request(self, run: Path, texts: dict[str, Path], changes: list[str]) -> TrainRequest:
        data = {key: str(path) for key, path in texts.items()}
        return TrainRequest.make(run=run, data=data, config_file=self.recipe.path, overrides=changes)
