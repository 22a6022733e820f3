"""A run that an earlier version trained loads, and translates as it did then."""

import json
from pathlib import Path

import pytest

from glassformer import DecodeConfig, Translator
from glassformer.run_directory import RunDirectory

DATA = Path(__file__).parent / "data"
EARLIER = json.loads((DATA / "earlier-translations.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def translator_and_rows():
    return Translator.load(DATA / "earlier-run", engine="torch"), EARLIER["run"]


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_it_translates_as_then(translator_and_rows, search):
    translator, rows = translator_and_rows
    found = translator.translate([row["source"] for row in rows], DecodeConfig(beam={"greedy": 1, "beam": 4}[search]))
    for row, translation in zip(rows, found, strict=True):
        best, then = translation.hypotheses[0], row[search]
        assert (best.text, list(best.tokens)) == (then["text"], then["tokens"])
        assert best.log_prob == pytest.approx(then["log_prob"], abs=1e-4)
        assert best.score == pytest.approx(then["score"], abs=1e-4)


def test_it_scores_given_targets_as_then(translator_and_rows):
    translator, rows = translator_and_rows
    scored = translator.score_tokens([row["source"] for row in rows], [row["beam"]["text"] for row in rows])
    assert [one.log_prob for one in scored] == pytest.approx([row["forced"] for row in rows], abs=1e-4)


def test_settings_that_are_retired_are_left_out_where_they_changed_nothing():
    saved = json.loads((DATA / "earlier-run" / "config.json").read_text())["config"]["decode"]
    assert {"beam_groups", "diversity"} <= saved.keys() & DecodeConfig.retired.keys()
    assert RunDirectory(DATA / "earlier-run").read_config()[0].decode == DecodeConfig(beam=4)
