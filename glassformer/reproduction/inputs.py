"""Where a recipe's files are: in a directory that was given or in the usual ones, plain or gzip. Reads none.

What a person asked to have done again, and each training that it takes. Trains nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import ConfigError, TextError
from glassformer.reproduction.recipe import Recipe, Variant
from glassformer.run_directory import RunDirectory
from glassformer.training.arguments import TrainRequest

_ROOT_MARKS = (".git", "pyproject.toml")


def find_files(recipe: Recipe, given: Path | None = None) -> dict[str, Path]:
    """The place of each file, by its name in the recipe: ``given`` and the folders in it, or the usual directories.

    A name that ends in .gz also stands for the plain file. All needed files are there; further ones may be missing.
    Raises ``TextError`` which says what is expected and how to get it.
    """
    homes = [given] if given is not None else usual_homes(recipe.folder)
    for home in homes:
        found = {
            name: path for name in (*recipe.needed_files(), *recipe.further_files()) if (path := _find(home, name))
        }
        if found.keys() >= set(recipe.needed_files()):
            return found
    raise TextError(_how_to_get(recipe, homes))


def usual_homes(folder: str) -> list[Path]:
    """Where data lie when nobody says: in the project, or shared beside it."""
    root = _project_root()
    return [root / "data" / folder, root.parent / "shared" / "data" / folder]


def _project_root() -> Path:
    here = Path.cwd()
    marked = (place for place in (here, *here.parents) if any((place / mark).exists() for mark in _ROOT_MARKS))
    return next(marked, here)


def _find(home: Path, name: str) -> Path | None:
    names = dict.fromkeys((name, name.removesuffix(".gz")))
    places = (folder / one for folder in _folders(home) for one in names)
    return next((place for place in places if place.is_file()), None)


def _folders(home: Path) -> Iterator[Path]:
    yield home
    if home.is_dir():
        yield from sorted(place for place in home.iterdir() if place.is_dir())


def _how_to_get(recipe: Recipe, homes: list[Path]) -> str:
    wanted = sorted(set(recipe.needed_files()))
    missing = min(([name for name in wanted if not _find(home, name)] for home in homes), key=len)
    found = "none of its files" if missing == wanted else f"no {', '.join(missing)}"
    return (
        f"{recipe.name}: found {found} in {' or '.join(map(str, homes))}, expected {', '.join(wanted)}, plain or "
        f".gz, in one directory or in folders of it. Get them at {recipe.origin}: {recipe.hint}. "
        f"Terms: {recipe.licence}."
    )


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
