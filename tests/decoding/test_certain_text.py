"""Text that grows: pieces are given early, never taken back, and joined they are the text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding.sentence_translator import certain_text
from glassformer.text import Tokenizer

TRAINED_ON = ["A man's dog doesn't sleep, does it?", "日本語も、한국어도.", "don't stop: 3.5 naïve cafés!", "…\ufffd"]
SIZES = {"bpe": 300, "wordpiece": 90, "unigram": 90, "words": 60, "characters": 90}


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: Tokenizer.train(kind, TRAINED_ON, size) for kind, size in SIZES.items()}


def pieces_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    texts = [
        "",
        *(certain_text(tokenizer, ids[:length]) for length in range(1, len(ids) + 1)),
        tokenizer.to_text(ids),
    ]
    return [text[len(before) :] for before, text in pairwise(texts)]


@pytest.mark.parametrize("kind", SIZES)
@given(data=st.data())
def test_pieces_of_any_ids_join_to_their_text(tokenizers, kind, data):
    tokenizer = tokenizers[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=30))
    assert "".join(pieces_of(tokenizer, ids)) == tokenizer.to_text(ids)


@pytest.mark.parametrize("kind", SIZES)
def test_each_token_gives_its_text_at_once(tokenizers, kind):
    tokenizer = tokenizers[kind]
    for text in TRAINED_ON[:3]:
        ids = tokenizer.to_ids(text)
        pieces = pieces_of(tokenizer, ids)
        assert "".join(pieces) == tokenizer.to_text(ids)
        assert pieces[-1] == "", "nothing was held back that was certain"
        assert kind == "bpe" or all(pieces[:-1])


def test_a_character_of_several_tokens_is_given_whole(tokenizers):
    tokenizer = tokenizers["bpe"]
    ids = tokenizer.to_ids("a𝄞é")
    assert len(ids) > 5
    pieces = [piece for piece in pieces_of(tokenizer, ids) if piece]
    assert pieces == ["a", "𝄞", "é"]
    broken = ids[:3]
    assert "".join(pieces_of(tokenizer, broken)) == tokenizer.to_text(broken) == "a\ufffd"
    assert "".join(pieces_of(tokenizer, tokenizer.to_ids("\ufffd\ufffd b"))) == "\ufffd\ufffd b"
