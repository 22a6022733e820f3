"""A translation in pieces: joined it is the translation, and it comes as early as it is certain."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from words import MIXED, TEXTS, WORDS

from glassformer.decoding import Translator
from glassformer.decoding.sentence_translator import certain_text
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig
from glassformer.text import Tokenizer

KINDS = {"bpe": 280, "wordpiece": 60, "unigram": 40, "words": 14, "characters": 30}
OPTIONS = {
    "greedy": DecodeConfig(beam=1, max_length_b=9),
    "beam": DecodeConfig(beam=4, n_best=3, max_length_b=9),
    "sample": DecodeConfig(sample=True, seed=2, max_length_b=9),
    "samples": DecodeConfig(sample=True, n_best=3, seed=2, max_length_b=9),
    "mbr": DecodeConfig(sample=True, mbr=4, seed=2, max_length_b=9),
    "coverage": DecodeConfig(beam=3, coverage_penalty=0.3, no_repeat_ngram=2, max_length_b=9),
    "sentences": DecodeConfig(beam=2, split_sentences=True, max_length_b=9),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPTIONS)
def test_pieces_join_to_the_translation(make_model, kind, name):
    # Characters of two and three bytes, so that byte-level tokens are parts of characters.
    tokenizer = Tokenizer.train(kind, [*WORDS, "äß€ の"] if kind != "words" else WORDS, KINDS[kind])
    model = make_model(vocab=tokenizer.size, seed=1, bias={2: 2.0})
    translator = Translator(model, tokenizer, tokenizer, OPTIONS[name])
    for text in ["the old house", "a river. Under tall trees!  The house", ""]:
        pieces = list(translator.stream(text))
        assert "".join(pieces) == translator.translate([text])[0].text


def test_greedy_and_sampled_tokens_come_one_by_one(translator, monkeypatch):
    calls: list[int] = []
    decode = Transformer.decode
    monkeypatch.setattr(Transformer, "decode", lambda *given: calls.append(1) or decode(*given))
    for options in (OPTIONS["greedy"], OPTIONS["sample"]):
        expected = translator.translate(TEXTS[:1], options)[0].hypotheses[0]
        calls.clear()
        for number, piece in enumerate(translator.stream(TEXTS[0], options), start=1):
            if number <= len(expected.ids):
                assert len(calls) == number, "each piece is there before the next token is asked for"
                assert piece.strip() == (
                    "" if number == len(expected.ids) and not expected.truncated else expected.tokens[number - 1]
                )
        assert number > 3


def test_a_beam_gives_what_all_share_before_it_has_ended(translator):
    early = 0
    for text in TEXTS:
        pieces = list(translator.stream(text, DecodeConfig(beam=3, max_length_b=9)))
        early += any(pieces[:-2])
    assert early


def test_a_model_in_training_mode_is_given_back_between_pieces(translator):
    expected = translator.translate(TEXTS[:1])[0].text
    translator.model.train()
    found = ""
    for piece in translator.stream(TEXTS[0]):
        assert translator.model.training
        found += piece
    assert found == expected


@pytest.mark.parametrize("text", MIXED)
def test_what_is_blank_gives_nothing_or_its_text(translator, text):
    assert "".join(translator.stream(text)) == translator.translate([text])[0].text


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
