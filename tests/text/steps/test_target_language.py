"""The token of the target language: every sentence and line is read with it, and one that is missing is said."""

import pytest

from glassformer.text.steps.passage import Passage
from glassformer.text.steps.step import TextOptions
from glassformer.text.steps.target_language import TargetLanguage, find_targets

TARGETS = ("cat", "spa")


def read(text: str, target: str = "") -> tuple[list[str], str, list[str]]:
    passage = Passage((text,), TextOptions(targets=TARGETS, target=target))
    (change,) = [change for change in passage.changes if isinstance(change, TargetLanguage)]
    texts = ["".join(map(str, parts)) for parts in passage.texts]
    return texts, change.token, passage.restore([("x",) for _ in texts])[1]


def test_targets_are_entries_of_the_vocabulary():
    assert find_targets(["▁>>cat<<", "a<<", ">>spa<<", ">>", "▁the"]) == TARGETS


@pytest.mark.parametrize("text", [">>spa<< I am hungry. We go.", " >>spa<<I am hungry.\nWe go."])
def test_a_token_is_that_of_all_sentences(text):
    assert read(text) == (["I am hungry.", "We go."], ">>spa<<", [])


@pytest.mark.parametrize(
    ("text", "found"), [("Yes.", "none"), (">>xyz<< Yes.", "xyz"), (">>SPA<< Yes.", "SPA"), (">>cat Yes.", "none")]
)
def test_a_missing_or_unknown_one_is_said(text, found):
    _, token, flags = read(text)
    assert token == ""
    assert flags == [f"the target language is not known: found {found}, expected one of >>cat<<, >>spa<<"]


def test_an_option_names_it_where_the_text_does_not():
    assert read("Yes.", "cat") == (["Yes."], ">>cat<<", [])
    assert read(">>spa<< Yes.", "cat") == (["Yes."], ">>spa<<", [])


def test_a_model_of_one_language_reads_the_text_as_it_is():
    assert not any(isinstance(one, TargetLanguage) for one in Passage((">>spa<< Yes.",), TextOptions()).changes)
