"""Where a recipe's files are: in a directory that was given or in the usual ones, plain or gzip. Reads none."""

from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import TextError
from glassformer.reproduction.recipe import Recipe

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
