"""What docstrings name in double back quotes exists: a renamed method or module takes its mentions along."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "glassformer"
PATHS = sorted(PACKAGE.rglob("*.py"))
WORD = re.compile(r"\w+")


def words_of(node: ast.AST) -> Iterator[str]:
    """Identifiers and words in strings of all that is below a node, without docstrings."""
    said = {id(one.body[0].value) for one in ast.walk(node) if has_docstring(one)}
    for one in ast.walk(node):
        found = (getattr(one, key, None) for key in ("name", "id", "attr", "arg"))
        yield from (word for word in found if isinstance(word, str))
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in said:
            yield from WORD.findall(one.value)


def has_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PATHS}


@pytest.fixture(scope="module")
def known(trees: dict[Path, ast.Module]) -> set[str]:
    places = {part for path in PATHS for part in path.relative_to(PACKAGE).with_suffix("").parts}
    return places.union(*(words_of(tree) for tree in trees.values()))


@pytest.fixture(scope="module")
def members(trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """The words in each class; one of two classes of a name may have what is named."""
    found = defaultdict(set)
    for tree in trees.values():
        for one in ast.walk(tree):
            if isinstance(one, ast.ClassDef):
                found[one.name].update(words_of(one))
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_a_docstring_names_exists(path, trees, known, members):
    """Checked are ``Class.member`` of our classes, and names with an underscore."""
    docstrings = [ast.get_docstring(one) or "" for one in ast.walk(trees[path]) if has_docstring(one)]
    named = [name for text in docstrings for name in re.findall(r"``([\w.]+)(?:\(.*?\))?``", text)]
    for name in named:
        owner, _, member = name.partition(".")
        if owner in members and member:
            assert member.partition(".")[0] in members[owner], name
        elif re.fullmatch(r"[A-Za-z_]+_[a-z_]+", name):
            assert name in known, name
