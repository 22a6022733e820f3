"""A recipe: the settings of a training, the files it needs, its test sets, and published scores on them.

It is a TOML file that ``glassformer train --config`` accepts too: training reads the settings, this module reads
``[recipe]``. Those of published results are in ``recipes``.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from glassformer.errors import ConfigError, nearest
from glassformer.settings.section import read_toml

RECIPES = Path(__file__).parent / "recipes"
FORMS = ("tokenised", "raw")
DATA_FILES = ("src", "tgt", "valid_src", "valid_tgt")

_PLAIN: dict[Any, Any] = {str: str, float: (int, float), list[str]: list, list[str] | None: list}
_WORDS: dict[Any, str] = {
    str: "a string", float: "a number",
    **dict.fromkeys((list[str], list[str] | None), "a list of strings"),
}  # fmt: skip

Table = TypeVar("Table")


@dataclass(frozen=True)
class Published:
    """A published score: of which system, how it was computed (the name of a ``Scoring``), and where it is found."""

    system: str
    score: float
    way: str
    source: str
    details: str = ""


@dataclass(frozen=True, kw_only=True)
class _Teachers:
    """For each direction the settings (section.key=value) in which its teacher differs; None if it has no teacher."""

    forward: list[str] | None = None
    backward: list[str] | None = None

    @property
    def teachers(self) -> dict[str, list[str]]:
        """The settings of each teacher, by its direction."""
        both = {"forward": self.forward, "backward": self.backward}
        return {direction: changes for direction, changes in both.items() if changes is not None}


@dataclass(frozen=True)
class Variant(_Teachers):
    """The same recipe with some settings changed, each as section.key=value, and the reason.

    It has its own teachers or none; it does not inherit those of the recipe.
    """

    name: str
    why: str
    changes: list[str]


@dataclass(frozen=True)
class TestSet:
    """A test set: the file of its sources, and the file of its references in each available form."""

    __test__ = False  # pytest would collect it

    name: str
    src: str
    tokenised: str = ""
    raw: str = ""
    published: tuple[Published, ...] = ()

    def references(self) -> dict[str, str]:
        """The file of the references in each available form."""
        return {form: name for form in FORMS if (name := getattr(self, form))}


@dataclass(frozen=True)
class Recipe(_Teachers):
    """``form`` is the form of the text that the model reads and writes: tokenised (and lower-cased) or raw.

    ``language`` is the language of the targets. ``data`` holds the four training and validation files by their keys.
    ``folder`` is where files are looked for, ``origin`` and ``hint`` say where and how to get them, ``licence`` on
    what terms.
    """

    name: str
    path: Path
    title: str
    form: str
    language: str
    folder: str
    origin: str
    hint: str
    licence: str
    data: Mapping[str, str]
    tests: tuple[TestSet, ...]
    variants: tuple[Variant, ...] = ()

    def variant(self, name: str) -> Variant:
        """The variant of that name; ``ConfigError`` if there is none."""
        known = {variant.name: variant for variant in self.variants}
        if name not in known:
            raise ConfigError(
                f"--variant: {self.name} has none named {name!r}.{nearest(name, known)} "
                f"Known: {', '.join(known) or 'none'}."
            )
        return known[name]

    def required_files(self) -> list[str]:
        """The files to train on, to translate and to compare with."""
        test_files = [name for test in self.tests for name in (test.src, test.references()[self.form])]
        return [*self.data.values(), *test_files]

    def optional_files(self) -> list[str]:
        """References in the other form, for more scores."""
        return [name for test in self.tests for form, name in test.references().items() if form != self.form]


def recipe_names() -> list[str]:
    """The names of the recipes that are here."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def read_recipe(name: str) -> Recipe:
    """A recipe that is here by its name, or of your own by a path that ends in .toml.

    Raises ``ConfigError`` if there is no recipe of that name, or if the file is not a recipe.
    """
    path = Path(name) if name.endswith(".toml") else RECIPES / f"{name}.toml"
    if path.parent == RECIPES and name not in recipe_names():
        raise ConfigError(
            f"reproduce: there is no recipe named {name!r}.{nearest(name, recipe_names())} Known: "
            f"{', '.join(recipe_names())}; or give the path of a file of your own, ending in .toml."
        )
    values = read_toml(path)
    return _recipe(path, _section(path, values, "recipe"), _section(path, values, "data"))


def _section(path: Path, values: dict[str, Any], key: str) -> dict[str, Any]:
    found = values.get(key, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path.name}: {key}: found {found!r}, expected a section [{key}].")
    return found


def _recipe(path: Path, values: dict[str, Any], data: dict[str, Any]) -> Recipe:
    where = f"{path.name}: recipe"
    for key in ("name", "path", "data"):
        if key in values:
            raise ConfigError(f"{where}.{key}: there is no such key: it follows from the file itself. Remove it.")
    rows = _rows(f"{where}.tests", values.get("tests"))
    tests = [_test(f"{where}.tests[{number}]", row) for number, row in enumerate(rows, 1)]
    if missing := [key for key in DATA_FILES if not isinstance(data.get(key), str)]:
        raise ConfigError(f"{path.name}: data: found no {', '.join(missing)}, expected {', '.join(DATA_FILES)}.")
    files = {key: data[key] for key in DATA_FILES}
    variants = [
        _build(Variant, f"{where}.variants[{number}]", row)
        for number, row in enumerate(_rows(f"{where}.variants", values.get("variants", [])), 1)
    ]
    own = {"name": path.stem, "path": path, "data": files, "tests": tuple(tests), "variants": tuple(variants)}
    recipe = _build(Recipe, where, {**values, **own})
    names = [test.name for test in tests]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"{where}.tests: found {names}, expected at least one, all with different names.")
    if recipe.form not in FORMS:
        raise ConfigError(f"{where}.form: found {recipe.form!r}, expected one of {', '.join(FORMS)}.")
    for test in tests:
        if recipe.form not in test.references():
            raise ConfigError(
                f"{where}.tests: {test.name} has no {recipe.form}, expected a file of references in that form."
            )
    return recipe


def _test(where: str, values: dict[str, Any]) -> TestSet:
    rows = _rows(f"{where}.published", values.get("published", []))
    published = tuple(_build(Published, f"{where}.published", row) for row in rows)
    return _build(TestSet, where, {**values, "published": published})


def _rows(where: str, found: object) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ConfigError(f"{where}: found {found!r}, expected tables, each under [[...]].")
    return [dict(row) for row in found]


def _fits(value: object, kind: Any) -> bool:
    return isinstance(value, _PLAIN.get(kind, object)) and (
        kind not in (list[str], list[str] | None) or all(isinstance(one, str) for one in value)
    )


def _build(kind: type[Table], where: str, values: dict[str, Any]) -> Table:
    """Build a dataclass from plain values; refuse an unknown key, a missing value or a wrong type."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for key in values:
        if key not in known:
            raise ConfigError(f"{where}.{key}: there is no such key.{nearest(key, known)} Known: {', '.join(known)}.")
    for key, field in known.items():
        if key not in values and field.default is MISSING:
            raise ConfigError(f"{where}.{key}: found nothing, expected a value.")
        if key in values and not _fits(values[key], field.type):
            raise ConfigError(f"{where}.{key}: found {values[key]!r}, expected {_WORDS[field.type]}.")
    return kind(**values)
