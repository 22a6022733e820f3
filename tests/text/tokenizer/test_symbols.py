"""Symbols on single spaces, marked symbols among characters, and characters in parts."""

import unicodedata

import pytest

from glassformer.errors import ConfigError
from glassformer.settings import TextConfig
from glassformer.text import UNK_ID, Tokenizer

SOUNDS = ["a b ə d͡ʒ i i t̪ ɛ", "t͡ʃ aː ʁʷ", "ᵑɡ <s> k"]
FORMS = ["walk (V) (PST;PL)", "see (V)", "(V) first", "a (b) ( c)"]


def test_symbols_are_what_single_spaces_separate_and_come_back():
    tokenizer = Tokenizer.train("symbols", SOUNDS, 100)
    for text in SOUNDS[:2]:
        ids = tokenizer.to_ids(text)
        assert tokenizer.to_tokens(ids) == text.split(" ")
        assert tokenizer.to_text(ids) == text
        assert tokenizer.derive(text).ids == ids
    assert tokenizer.to_ids("ʒ") == [UNK_ID], "a part of a symbol is no symbol"
    assert tokenizer.to_tokens(tokenizer.to_ids("<s>")) == ["<", "s>"]


def test_symbols_are_cut_at_no_other_space():
    text = "a\u00a0b c\u3000d"
    tokenizer = Tokenizer.train("symbols", [text], 100)
    assert len(tokenizer.to_ids(text)) == 2
    assert tokenizer.to_text(tokenizer.to_ids(text)) == text


def test_a_marked_symbol_is_one_of_the_characters_and_comes_back():
    tokenizer = Tokenizer.train("characters", FORMS, 100, marked=True)
    assert tokenizer.to_tokens(tokenizer.to_ids(FORMS[0])) == ["w", "a", "l", "k", "▁(V)", "▁(PST;PL)"]
    for text in FORMS:
        assert tokenizer.to_text(tokenizer.to_ids(text)) == text
        assert tokenizer.derive(text).ids == tokenizer.to_ids(text)
    assert tokenizer.to_ids("(X)") == [UNK_ID]
    assert len(Tokenizer.train("characters", FORMS, 100).to_ids("see (V)")) == 7, "without marked, each character"


def test_decomposed_characters_are_read_in_parts_and_written_whole():
    text = "한국 é"
    tokenizer = Tokenizer.train("characters", [text], 100, decompose=True)
    ids = tokenizer.to_ids(text)
    assert len(ids) == len(unicodedata.normalize("NFD", text)) == 9
    assert tokenizer.to_text(ids) == text
    assert tokenizer.ends(ids) == [1, 1, 1, 2, 2, 2, 3, 4, 4]
    assert tokenizer.to_ids(unicodedata.normalize("NFD", text)) == ids


@pytest.mark.parametrize("options", [{"marked": True}, {"decompose": True}, {"marked": True, "decompose": True}])
def test_what_was_saved_is_read_again(tmp_path, options):
    tokenizer = Tokenizer.train("characters", FORMS, 100, **options)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (again.kind, again.json, again.decomposes) == ("characters", tokenizer.json, "decompose" in options)


def test_sides_of_two_kinds_are_not_joint():
    assert TextConfig(src_tokenizer="characters", tgt_tokenizer="symbols").kinds == ("characters", "symbols")
    assert not TextConfig(tokenizer="characters", tgt_tokenizer="symbols").joint
    assert TextConfig(src_tokenizer="characters", tgt_tokenizer="characters").joint
    with pytest.raises(ConfigError, match=r"found 0\.1 with tokenizer 'bpe' and 'symbols', expected 'bpe'"):
        TextConfig(tgt_tokenizer="symbols", bpe_dropout=0.1)
