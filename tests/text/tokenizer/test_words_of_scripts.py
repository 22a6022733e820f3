"""Byte-level BPE keeps the words of every script whole, as unigram does."""

import random
import unicodedata

import pytest

from glassformer.text import Tokenizer

# The first letter and the marks of each, from the names of Unicode; those without marks are there for comparison.
SCRIPTS = [
    "LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "HEBREW", "ARABIC", "SYRIAC", "THAANA", "NKO", "SAMARITAN", "MANDAIC",
    "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA",
    "THAI", "LAO", "TIBETAN", "MYANMAR", "GEORGIAN", "ETHIOPIC", "CHEROKEE", "TAGALOG", "KHMER", "MONGOLIAN", "LIMBU",
    "BALINESE", "SUNDANESE", "LEPCHA", "JAVANESE", "CHAM", "HANGUL", "HIRAGANA", "ADLAM",
]  # fmt: skip
JOINERS = "\u200c\u200d"


def words_of(script: str, rng: random.Random, count: int = 40) -> list[str]:
    """Words of letters, with one of the marks of the script behind every second one, and a joiner now and then."""
    named = [chr(code) for code in range(0x30000) if unicodedata.name(chr(code), "").startswith(script + " ")]
    letters = [one for one in named if unicodedata.category(one) in ("Lo", "Ll", "Lm")]
    marks = [one for one in named if unicodedata.category(one)[0] == "M"] or ["\u0301"]
    words = []
    for number in range(count):
        pieces = [rng.choice(letters) + (rng.choice(marks) if rng.random() < 0.5 else "") for _ in range(4)]
        words.append(unicodedata.normalize("NFC", (JOINERS[number % 2] if number % 7 == 0 else "").join(pieces)))
    return words


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_of_a_script_are_not_cut_at_marks(script: str) -> None:
    rng = random.Random(script)
    words = words_of(script, rng)
    lines = [" ".join(rng.choices(words, k=6)) + rng.choice(("", ".", "!")) for _ in range(400)]
    tokens = {}
    for kind in ("bpe", "unigram"):
        tokenizer = Tokenizer.train(kind, lines, 1200 if kind == "bpe" else 400)
        ids = [tokenizer.to_ids(line) for line in lines]
        tokens[kind] = sum(map(len, ids))
        assert [tokenizer.to_text(each) for each in ids] == lines
        if kind == "bpe":
            cut = [token.text for line in lines[:50] for token in tokenizer.derive(line).pre_tokens]
            assert not [one for one in cut if unicodedata.category(one.lstrip("▁")[:1] or "a")[0] == "M"]
            assert len(cut) <= 1.3 * sum(len(line.split()) for line in lines[:50])
    assert tokens["bpe"] <= 1.3 * tokens["unigram"], tokens


def test_a_tokenizer_of_an_earlier_run_cuts_as_it_did() -> None:
    new = Tokenizer.train("bpe", ["मेरी बिल्ली सोती है"] * 20, 400)
    before = new.json.replace(
        new.json[new.json.index('"pre_tokenizer"') : new.json.index('"post_processor"')],
        '"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},',
    )
    old = Tokenizer(before)
    assert [word.text for word in old.derive("मेरी").pre_tokens] == ["म", "े", "र", "ी"]
    assert [word.text for word in new.derive("मेरी").pre_tokens] == ["मेरी"]
    assert Tokenizer(old.json).json == old.json
