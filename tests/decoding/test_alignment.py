"""Which source token each token was written from, softly and hard, and how it is told."""

from dataclasses import replace

import pytest
import torch
from words import MIXED, TEXTS

from glassformer import Translator
from glassformer.decoding.restore.alignment import token_ends
from glassformer.decoding.translation import EMPTY, Hypothesis, Translation, pharaoh
from glassformer.errors import InputError
from glassformer.text.tokenizer.tokenizer import EOS_ID


def written(weights: list, tokens: list[str], source_tokens: list[str]) -> Translation:
    best = Hypothesis(" ".join(tokens), tokens, [5] * len(tokens), -1.0, -1.0, False, torch.tensor(weights))
    return Translation("x", source_tokens, False, [best])


def test_layers_and_heads_are_those_of_the_attention(translator):
    for translation in translator.translate(TEXTS, attention=True):
        best = translation.hypotheses[0]
        for layer in range(2):
            torch.testing.assert_close(best.alignment(layer), best.attention[layer].mean(0))
            for head in range(3):
                assert torch.equal(best.alignment(layer, head), best.attention[layer, head])
                assert best.hard_alignment(layer, head) == best.attention[layer, head].argmax(-1).tolist()
        assert torch.equal(best.alignment(), best.alignment(1))
        assert torch.equal(best.alignment(head=2), best.attention[1, 2])
        for layer, head, message in [
            (2, None, "layer: found 2, expected 0 to 1"),
            (0, -1, "head: found -1, expected 0 to 2"),
        ]:
            with pytest.raises(InputError, match=message):
                best.alignment(layer, head)


@pytest.mark.parametrize(
    "text",
    ["I am hungry.", "  The man ", "naïve café", "a\u200bb\u00a0c", "▁a ▁", "⟨U+200B⟩ x", "日本 \U0001f600!", "x  y"],
)
def test_token_ends_are_those_that_the_tokenizer_gives(text):
    with Translator.load() as bundled:
        src, tgt = bundled.src_tokenizer, bundled.tgt_tokenizer
        ids = [*src.to_ids(text), EOS_ID]
        best = replace(EMPTY, text=text, tokens=tgt.to_tokens(ids), ids=ids)
        src_ends, tgt_ends = token_ends(Translation(text, src.to_tokens(ids), False, [best]), src, tgt)
        given = [end for _, end in src.offsets(text)]
        assert [text[:end].rstrip() for end in src_ends] == [text[:end].rstrip() for end in given]
        assert tgt_ends == tgt.ends(ids)


def test_links_by_hand():
    # Two heads; the second token looks most at </s>, and the third is </s> itself.
    first = [[0.1, 0.9, 0.0], [0.2, 0.2, 0.6], [0.8, 0.1, 0.1]]
    second = [[0.9, 0.1, 0.0], [0.7, 0.2, 0.1], [0.8, 0.1, 0.1]]
    translation = written([[first, second]], ["p", "q", "</s>"], ["a", "b", "</s>"])
    assert translation.hypotheses[0].hard_alignment(0, 0) == [1, 2, 0]
    assert translation.links(head=0) == [(1, 0)]
    assert translation.links(head=1) == [(0, 0), (0, 1)]
    assert pharaoh(translation.links(head=1)) == "0-0 0-1"
    assert translation.to_mapping(attention=False, head=1)["links"] == [[0, 0], [0, 1]]
    assert "attention" not in translation.to_mapping(attention=False)["hypotheses"][0]
    assert "attention" in translation.to_mapping()["hypotheses"][0]


def test_without_attention_there_are_none(translator):
    for translation in translator.translate(MIXED):
        assert translation.links() is None
        assert translation.hypotheses[0].hard_alignment() is None
        assert "links" not in translation.to_mapping()
