"""Metrics and errors of words, by hand."""

import pytest

from glassformer.text.corpus.corpus import Pair
from glassformer.training.evaluation.evaluation import make_examples, score
from glassformer.training.evaluation.metrics import METRICS, symbol_edits
from glassformer.training.evaluation.results import Example, Scores, merge_answers
from glassformer.training.reporting.diagnosis import count_errors, describe
from glassformer.training.reporting.report import make_report

RIGHT = ["a b ə", "d͡ʒ i", "n"]
WRITTEN = ["a b ɛ", "d͡ʒ i i", ""]


def test_error_rates_are_those_of_the_field() -> None:
    found = score(WRITTEN, RIGHT)
    assert found["word_error_rate"] == pytest.approx(100)
    assert found["symbol_error_rate"] == pytest.approx(100 * 3 / 6), "one replaced, one added, one missing"
    assert found["edit_distance"] == pytest.approx(1)
    assert score(RIGHT, RIGHT)["symbol_error_rate"] == 0
    assert score(["walks"], ["walked"])["edit_distance"] == 2, "of words, letters are symbols"
    assert symbol_edits("d͡ʒ", "d ʒ", "symbols") == 2


def test_only_what_fits_is_shown() -> None:
    values = dict.fromkeys(METRICS, 1.0)
    assert Scores(values, {}, 1).format() == "BLEU 1.0  chrF 1.0  exact 1.0 %  n-best 1.0 %"
    assert Scores(values, {}, 1, unit="symbols").fitting == [
        "exact_match", "word_error_rate", "symbol_error_rate", "edit_distance", "n_best_accuracy",
    ]  # fmt: skip


def test_a_source_with_several_right_answers_is_one_item() -> None:
    pairs = [Pair("read", "ɹ iː d"), Pair("read", "ɹ ɛ d"), Pair("red", "ɹ ɛ d")]
    others = [Pair(f"re{letter}", "ɹ ɛ") for letter in "abcfghijk"]
    examples = make_examples([*pairs, *others], ["ɹ ɛ d"] * 12)
    assert len(examples) == 11
    assert [(one.source, one.reference, one.is_exact) for one in examples[:2]] == [
        ("read", "ɹ ɛ d", True), ("red", "ɹ ɛ d", True),
    ]  # fmt: skip
    assert len(make_examples([Pair("I am here.", "Ja."), Pair("I am here.", "Nein.")], ["Ja."] * 2)) == 2
    assert merge_answers([]) == []


def examples() -> list[Example]:
    sources = ["abe", "dschi", "n"]
    return [Example(*each, "symbols") for each in zip(sources, WRITTEN, RIGHT, strict=True)]


def test_confused_symbols_are_named_and_counted() -> None:
    assert [one.confusions() for one in examples()] == [[("ə", "ɛ")], [("", "i")], [("n", "")]]
    assert [(name, len(found)) for name, found in count_errors(examples() + examples()[:1]).items()] == [
        ("ɛ in the place of ə", 2), ("i is added", 1), ("n is missing", 1),
    ]  # fmt: skip
    assert [one.is_near for one in examples()] == [True, False, False]


def test_the_closing_words_and_the_report_speak_of_words_and_symbols() -> None:
    lines = describe(examples(), [], 800)
    assert lines[0].startswith("Of 3 held-out words, which this training has not seen, 0 are exactly right and 1 are")
    assert "right but for one or two symbols." in lines[0]
    page = make_report(
        "A",
        headline="",
        facts={},
        lines=lines,
        examples=examples(),
        records=[],
        counts={"read": 3, "kept": 2, "valid": 1},
    )
    assert "<tr><th>ə</th>" in page
    assert "right \\ written" in page
    assert "symbols of the right answer" in page
