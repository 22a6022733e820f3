"""Scores of text that looks tokenised."""

import logging

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from glassformer.training.evaluation import score, tokenised_warning

TOKENISED = [f"ein mann schläft {number} ." for number in range(150)]


def test_tokenised_references_are_warned_of_once_in_our_own_words(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert score(TOKENISED, TOKENISED).bleu == pytest.approx(100)
    assert not caplog.records
    assert "look tokenised" in tokenised_warning(TOKENISED)


@pytest.mark.parametrize("references", [[], ["Ein Mann schläft."] * 3, ["Ein Mann .", "Eine Frau."]])
def test_other_references_are_not_warned_of(references: list[str]) -> None:
    assert not tokenised_warning(references)


def test_no_line_is_held_in_memory_once_it_is_scored():
    """sacrebleu caches what it splits, by object: a training that validates often would grow by megabytes an hour."""
    for tokenize, kind in (("13a", Tokenizer13a), ("13a", TokenizerRegexp), ("char", TokenizerChar)):
        score(["a b", "c"], ["a", "c d"], tokenize=tokenize)
        assert kind.__call__.cache_info().currsize == 0


def test_two_ways_to_write_a_letter_are_one():
    decomposed = "fu\u0308r Ka\u0308se"
    assert score(["für Käse"], [decomposed]).exact_match == 100.0
    assert score([decomposed], ["für Käse"]).chrf == pytest.approx(100.0)
