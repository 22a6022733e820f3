"""What a reproduction starts from: the recipe's files, found on disk, and the request with each training it needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reproduce.recipe import Recipe, Variant
from glassformer.errors import ConfigError, TextError
from glassformer.run_directory import RunDirectory
from glassformer.training.request.arguments import TrainRequest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class ReproduceRequest:
    """What to reproduce.

    ``files`` are the paths of the recipe's files, by their names in the recipe. ``overrides`` are settings,
    section.key=value, applied after those of the ``variant`` and of the teachers.
    """

    recipe: Recipe
    files: dict[str, Path]
    run: Path
    seeds: tuple[int, ...]
    overrides: tuple[str, ...] = ()
    variant: Variant | None = None

    def __post_init__(self) -> None:
        if any(one.partition("=")[0].strip() == "train.seed" for one in self.changes):
            raise ConfigError("train.seed: differs for each training here. Name the seeds with --seeds 1,2,3.")

    @property
    def changes(self) -> list[str]:
        """All settings of the seeds' trainings that differ from the recipe's."""
        return [*(self.variant.changes if self.variant else ()), *self.overrides]

    @property
    def teachers(self) -> dict[str, list[str]]:
        """All settings of each teacher that differ from the recipe's, by its direction."""
        own = (self.variant or self.recipe).teachers
        return {direction: [*changes, *self.overrides] for direction, changes in own.items()}

    @property
    def teachers_directory(self) -> Path:
        """Where the teachers are trained and their translations are written."""
        return self.run / "teachers"

    def seed_run(self, seed: int) -> RunDirectory:
        """The run directory of one seed."""
        return RunDirectory(self.run / f"seed-{seed}")

    def teacher_run(self, direction: str) -> RunDirectory:
        """The run directory of one teacher."""
        return RunDirectory(self.teachers_directory / direction)

    def seed_training(self, seed: int) -> TrainRequest:
        """The training of one seed, in its own run directory, on the recipe's text."""
        return self._training(self.seed_run(seed).path, [*self.changes, f"train.seed={seed}"])

    def teacher_training(self, direction: str) -> TrainRequest:
        """The training of one teacher; both directions have the same text."""
        return self._training(self.teacher_run(direction).path, self.teachers[direction])

    def _training(self, run: Path, changes: list[str]) -> TrainRequest:
        data = {key: str(self.files[name]) for key, name in self.recipe.data.items()}
        return TrainRequest.make(run=run, data=data, config_file=self.recipe.path, overrides=changes)


def find_files(recipe: Recipe, given: Path | None = None) -> dict[str, Path]:
    """The path of each file, by its name in the recipe, in ``given`` and its folders or in the usual directories.

    A name that ends in .gz also matches the plain file. Optional files may be missing; if a required one is,
    ``TextError`` says what is expected and how to get it.
    """
    places = [given] if given is not None else usual_places(recipe.folder)
    for place in places:
        names = (*recipe.required_files(), *recipe.optional_files())
        found = {name: path for name in names if (path := _find(place, name))}
        if found.keys() >= set(recipe.required_files()):
            return found
    raise TextError(_how_to_get(recipe, places))


def usual_places(folder: str) -> list[Path]:
    """Where data is looked for by default: in the project's data/, and in shared/data/ next to the project."""
    return [ROOT / "data" / folder, ROOT.parent / "shared" / "data" / folder]


def _find(place: Path, name: str) -> Path | None:
    names = dict.fromkeys((name, name.removesuffix(".gz")))
    paths = (folder / one for folder in _folders(place) for one in names)
    return next((path for path in paths if path.is_file()), None)


def _folders(place: Path) -> Iterator[Path]:
    yield place
    if place.is_dir():
        yield from sorted(folder for folder in place.iterdir() if folder.is_dir())


def _how_to_get(recipe: Recipe, places: list[Path]) -> str:
    expected = sorted(set(recipe.required_files()))
    missing = min(([name for name in expected if not _find(place, name)] for place in places), key=len)
    found = "none of its files" if missing == expected else f"no {', '.join(missing)}"
    return (
        f"{recipe.name}: found {found} in {' or '.join(map(str, places))}, expected {', '.join(expected)}, plain or "
        f".gz, in one directory or in its folders. Get them at {recipe.origin}: {recipe.hint}. "
        f"Terms: {recipe.licence}."
    )
