"""``--columns``: texts with features, files of the shared tasks, and what is wrong with columns."""

import gzip
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, TextError
from glassformer.text.columns import Columns
from glassformer.text.corpus.corpus import describe_pairs, read_pairs
from glassformer.text.formats.sheets import read_sources

FORMS = "walk\twalked\tV;PST\nsee\tsaw\tV;PST;HAB+IPFV\ngo\tgo\tV; NFIN (x)\n"


def test_features_become_symbols_behind_the_text(tmp_path: Path) -> None:
    path = tmp_path / "eng"
    path.write_text(FORMS)
    pairs = list(read_pairs(path, columns=Columns.parse("1+3:2")))
    assert pairs == [
        ("walk (V) (PST)", "walked"), ("see (V) (PST) (HAB+IPFV)", "saw"), ("go (V) (NFIN_x_)", "go"),
    ]  # fmt: skip
    assert describe_pairs(path, columns=Columns.parse("1+3:2")) == f"{path}: columns 1+3 to 2."
    assert next(read_pairs(path, columns=Columns.parse("2:3"))) == ("walked", "V;PST")
    other = list(read_pairs(path, columns=Columns.parse("1+3:2", "+")))
    assert other[1] == ("see (V;PST;HAB) (IPFV)", "saw")


@pytest.mark.parametrize("ending", [".train", ".dev", ".test", ".gold", ".tsv", ".train.tsv.gz", ".dev.gz"])
def test_files_of_the_shared_tasks_are_read_as_they_are(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"bul{ending}"
    data = "абата\tə b a t̪ ə\nи\ti\n".encode()
    path.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    assert list(read_pairs(path)) == [("абата", "ə b a t̪ ə"), ("и", "i")]


def test_the_sources_alone_are_read_from_a_table_without_targets(tmp_path: Path) -> None:
    table, sheet = tmp_path / "x.test", tmp_path / "x.csv"
    table.write_text("walk\tV;PST\nsee\n")
    with pytest.raises(TextError, match=r"x\.test:2: found 1 columns, expected columns 1\+2"):
        list(read_sources(table, Columns.parse("1+2")))
    assert list(read_sources(table, Columns.parse("1"))) == ["walk", "see"]
    sheet.write_text("lemma,form\nwalk,\nsee,\n")
    assert list(read_sources(sheet, Columns.parse("lemma"))) == ["walk", "see"]


@pytest.mark.parametrize("wrong", ["", ":", "1:2:3", "1+:2", "+"])
def test_columns_of_another_form_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="expected some such as 1:2"):
        Columns.parse(wrong)


def test_columns_that_are_not_there_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(FORMS)
    for columns, message in (
        ("4:2", "column 4: found 3 columns in the first row"),
        ("lemma:2", "column 'lemma': found walk, walked, V;PST, expected it in the first row"),
        ("1+3:7", r"a\.tsv:1: found 3 columns, expected source and target in columns 1\+3 and 7"),
    ):
        with pytest.raises(TextError, match=message):
            list(read_pairs(path, columns=Columns.parse(columns)))
    (tmp_path / "a.tmx").write_text("<tmx/>")
    with pytest.raises(TextError, match=r"columns: found with .*a\.tmx, expected a table ending in \.tsv"):
        read_pairs(tmp_path / "a.tmx", columns=Columns.parse("1:2"))
    with pytest.raises(ConfigError, match="separator: found ' '"):
        Columns.parse("1+3:2", " ")
