"""Scores of targets that are already there, token by token."""

import math

import pytest
import torch
from words import MIXED, TEXTS

from glassformer.settings import DecodeConfig

BOS, EOS = 1, 2


def test_each_token_by_hand(translator, tokenizer):
    ids = tokenizer.to_ids("old trees")
    src = torch.tensor([[*tokenizer.to_ids("river"), EOS]])
    log_probs = translator.model(src, torch.tensor([[BOS, *ids]]))[0].log_softmax(-1)
    (found,) = translator.score_tokens(["river"], ["old trees"], DecodeConfig(length_penalty=1.0))
    expected = [log_probs[place, token].item() for place, token in enumerate([*ids, EOS])]
    assert found.text == "old trees"
    assert found.tokens == ["old", "trees", "</s>"]
    assert found.token_log_probs == pytest.approx(expected, abs=1e-6)
    assert found.log_prob == pytest.approx(sum(expected), abs=1e-6)
    assert found.score == pytest.approx(sum(expected) * 6 / 8, abs=1e-6)
    assert found.perplexity == pytest.approx(math.exp(-sum(expected) / 3), rel=1e-5)
    assert found.to_mapping().keys() == {
        "text", "tokens", "token_log_probs", "log_prob", "score", "source_truncated", "perplexity",
    }  # fmt: skip


def test_a_hypothesis_is_scored_as_the_search_scored_it(translator):
    options = DecodeConfig(beam=3, length_penalty=0.8)
    done = [one for one in translator.translate(TEXTS, options) if not one.hypotheses[0].truncated]
    assert done
    found = translator.score_tokens([one.source for one in done], [one.text for one in done], options)
    for scored, translation in zip(found, done, strict=True):
        best = translation.hypotheses[0]
        assert scored.tokens == best.tokens
        assert scored.score == pytest.approx(best.score, abs=1e-4)
        assert scored.score == pytest.approx(
            scored.log_prob / DecodeConfig(length_penalty=0.8).penalty(len(best.ids))
        )


@pytest.mark.parametrize("batch_tokens", [1, 30, 10_000])
def test_batches_and_neighbours_change_nothing(translator, batch_tokens):
    found = translator.score_tokens(MIXED, MIXED[::-1], DecodeConfig(batch_tokens=batch_tokens))
    for source, target, one in zip(MIXED, MIXED[::-1], found, strict=True):
        (alone,) = translator.score_tokens([source], [target])
        assert one.tokens == alone.tokens
        assert one.token_log_probs == pytest.approx(alone.token_log_probs, abs=1e-5)
    assert translator.score(MIXED, MIXED[::-1]) == pytest.approx([one.log_prob for one in found], abs=1e-5)
