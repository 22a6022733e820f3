"""A vocabulary that is learned step by step is the one that the library's trainer finds."""

import json
from itertools import islice

import pytest
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.tasks import load_task
from glassformer.text.tokenizer.bpe_training import learn_merges
from glassformer.text.tokenizer.tokenizer import Tokenizer

TEXTS = {
    "repeats": ["aaaa aaa aa a banana bananas", "nananana x"],
    "bytes": ["lower low lowest 😀😀 é é", "日本日本 語", "  two  spaces\tand tabs "],
    "phrases": [pair.src for pair in load_task("phrasebook-de").train[:120]],
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_merges_are_those_of_the_library(name: str) -> None:
    trained = json.loads(Tokenizer.train("bpe", TEXTS[name], 420).json)["model"]["merges"]
    assert trained == [list(merge.pair) for merge in islice(learn_merges(TEXTS[name]), len(trained))]


def test_each_merge_is_the_pair_that_occurs_most_often_and_makes_words_shorter() -> None:
    merges = list(islice(learn_merges(["low lower lowest slow slower"]), 3))
    assert ["".join(merge.pair) for merge in merges] == ["lo", "low", "lowe"]
    assert [merge.counts[merge.pair] for merge in merges] == [5, 5, 3]
    assert merges[-1].words[("low",)] == 1


def test_they_can_be_watched() -> None:
    found = CliRunner().invoke(app, ["trace", "low lower", "lowest slow slower", "--merges", "2"])
    assert found.exit_code == 0
    assert "0      l + o     5" in found.output
    assert "1      lo + w" in found.output
    for texts in (["x", "--merges", "1"], ["abc", "--merges", "0"]):
        assert CliRunner().invoke(app, ["trace", *texts]).exit_code != 0
