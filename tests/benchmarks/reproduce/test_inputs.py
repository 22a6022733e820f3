"""A recipe's files are found wherever people have them, and one message says how to get them."""

from pathlib import Path

import pytest

from benchmarks.reproduce import inputs
from benchmarks.reproduce.inputs import find_files
from benchmarks.reproduce.recipe import read_recipe
from glassformer.errors import TextError

RECIPE = read_recipe("multi30k-en-de")
FILES = [*RECIPE.required_files(), *RECIPE.optional_files()]


def put(home: Path, names: list[str]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for name in names:
        (home / name).write_text("")


def test_they_are_found_plain_or_packed_and_in_folders(tmp_path: Path) -> None:
    """As the repository of Multi30k has them: raw/ and tok/, some packed and some not."""
    put(tmp_path / "tok", [name.removesuffix(".gz") for name in FILES if "tok" in name])
    put(tmp_path / "raw", [name for name in FILES if "tok" not in name])
    found = find_files(RECIPE, tmp_path)
    assert found.keys() == set(FILES)
    assert found["train.lc.norm.tok.en.gz"] == tmp_path / "tok" / "train.lc.norm.tok.en"
    assert found["test_2016_flickr.de.gz"] == tmp_path / "raw" / "test_2016_flickr.de.gz"


@pytest.mark.parametrize("place", ["project/data/multi30k", "shared/data/multi30k"])
def test_they_are_found_in_the_project_and_beside_it(place, tmp_path, monkeypatch):
    put(tmp_path / place, FILES)
    monkeypatch.setattr(inputs, "ROOT", tmp_path / "project")
    assert find_files(RECIPE)["train.lc.norm.tok.de.gz"] == tmp_path / place / "train.lc.norm.tok.de.gz"


def test_without_them_one_message_says_what_where_how_and_on_what_terms(tmp_path: Path) -> None:
    with pytest.raises(TextError) as nothing:
        find_files(RECIPE, tmp_path)
    message = str(nothing.value)
    assert "\n" not in message
    assert message.startswith(f"multi30k-en-de: found none of its files in {tmp_path}, expected ")
    for said in (*RECIPE.required_files(), "https://github.com/multi30k/dataset", "--data", "non-commercial"):
        assert said in message
    put(tmp_path, RECIPE.required_files()[1:])
    with pytest.raises(TextError, match=f"found no {RECIPE.required_files()[0]} in"):
        find_files(RECIPE, tmp_path)
