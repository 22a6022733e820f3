"""Minimum Bayes risk: by hand, against the slow way, and through the translator."""

import itertools

import pytest
from sacrebleu.metrics.chrf import CHRF
from words import MIXED, TEXTS, outcomes

from glassformer.decoding.search.mbr import chrf_utility, mbr_rank
from glassformer.errors import ConfigError
from glassformer.settings import DecodeConfig

MBR = DecodeConfig(sample=True, mbr=12, n_best=4, seed=3)


def overlap(text: str, reference: str) -> float:
    return len(set(text) & set(reference)) / len(set(text))


def test_ranks_by_hand_and_each_pair_of_distinct_texts_is_compared_once():
    # "ab" agrees half with "ac" and "bd", wholly with itself twice: (1 + 1 + ½ + ½) / 4.
    texts = ["ac", "ab", "bd", "ab"]
    assert mbr_rank(texts, 2, overlap) == [(1, 0.75), (0, 0.5)]
    assert mbr_rank(texts, 9, overlap) == [(1, 0.75), (0, 0.5), (2, 0.5)]
    seen: list[tuple[str, str]] = []

    def utility(text: str, reference: str) -> float:
        seen.append((text, reference))
        return 0.0

    mbr_rank(["a", "b", "a", "c", "b", "a"], 9, utility)
    assert sorted(seen) == sorted(itertools.product("abc", repeat=2))


def test_utility_is_sacrebleus_sentence_chrf():
    found = chrf_utility()("the old house", "the old horse stands")
    assert found == CHRF().sentence_score("the old house", ["the old horse stands"]).score
    assert found != chrf_utility()("the old horse stands", "the old house"), "it matters which is the reference"


def test_the_best_is_that_which_agrees_most_with_all_samples(translator):
    samples = translator.translate(TEXTS, DecodeConfig(sample=True, n_best=12, seed=3))
    differ = 0
    for drawn, chosen in zip(samples, translator.translate(TEXTS, MBR), strict=True):
        texts = [one.text for one in drawn.hypotheses]
        utilities = {
            text: sum(CHRF().sentence_score(text, [reference]).score for reference in texts) / len(texts)
            for text in texts
        }
        expected = sorted(utilities.values(), reverse=True)[:4]
        assert [one.utility for one in chosen.hypotheses] == pytest.approx(expected)
        for one in chosen.hypotheses:
            assert one.utility == pytest.approx(utilities[one.text])
            assert any(one.ids == other.ids and one.log_prob == other.log_prob for other in drawn.hypotheses)
        assert len({one.text for one in chosen.hypotheses}) == len(chosen.hypotheses)
        assert chosen.to_mapping()["hypotheses"][0]["utility"] == chosen.hypotheses[0].utility
        differ += chosen.text != drawn.text
    assert differ, "the most agreed with is not always the most probable"


@pytest.mark.parametrize("batch_tokens", [1, 200])
def test_batches_change_nothing(translator, batch_tokens):
    expected = outcomes(translator.translate(MIXED, MBR))
    options = DecodeConfig(sample=True, mbr=12, n_best=4, seed=3, batch_tokens=batch_tokens)
    assert outcomes(translator.translate(MIXED, options)) == expected


def test_attention_is_that_of_the_chosen(translator):
    for plain, seen in zip(
        translator.translate(TEXTS, MBR), translator.translate(TEXTS, MBR, attention=True), strict=True
    ):
        assert plain == seen
        assert seen.hypotheses[0].attention.shape[2:] == (len(seen.hypotheses[0].ids), len(seen.source_tokens))


def test_it_chooses_among_samples_and_no_more_than_there_are():
    with pytest.raises(ConfigError, match=r"decode\.mbr: found 5 with sample = false"):
        DecodeConfig(mbr=5)
    with pytest.raises(ConfigError, match=r"decode\.n_best: found 6, expected at most mbr = 5"):
        DecodeConfig(sample=True, mbr=5, n_best=6)
