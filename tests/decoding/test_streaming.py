"""A translation in pieces: joined it is the translation, and it comes as early as it is certain."""

import pytest
from words import MIXED, TEXTS, WORDS

from glassformer.decoding import Translator
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
