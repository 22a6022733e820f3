"""What lines hold is found by the lines: sentences, words, or the symbols of words."""

import pytest

from glassformer.settings import TextConfig
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.noise import joined_copies
from glassformer.text.corpus.units import Lines, find_units, split_symbols

SENTENCES = ["I love you, too.", "A man sleeps.", "Where is my cat?"]
WORDS = ["абаджиите", "house", "あいかわらず", "ISDN"]
SOUNDS = ["a b ə d͡ʒ i i t̪ ɛ", "ʁʷ aː n", "i"]
FORMS = ["walk (V) (PST)", "rozsępiać się (V.PTCP) (IPFV)", "see (V)"]


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (SENTENCES, "sentences"), (WORDS, "words"), (SOUNDS, "symbols"), (FORMS, "words"), ([], "sentences"),
        (["我喜欢你。", "你好吗？"], "sentences"), (["the man sleeps", "he is here"], "sentences"), (["w" * 90], "sentences"),
    ],
)  # fmt: skip
def test_the_unit_is_found_by_the_lines(texts: list[str], unit: str) -> None:
    assert Lines.count(texts).unit == unit


def test_both_sides_are_words_or_neither_is() -> None:
    def units(sources: list[str], targets: list[str]) -> tuple[str, str]:
        return find_units(
            [Pair(f"{src}{number}", tgt) for number in range(9) for src, tgt in zip(sources, targets, strict=False)]
        )

    assert units(WORDS, SOUNDS) == ("words", "symbols")
    assert units(SOUNDS, WORDS) == ("symbols", "words")
    assert units(["3 May 2026", "May the 4th, 2026"], ["2026-05-03", "2026-05-04"]) == ("sentences", "sentences")
    assert units(FORMS, ["hasta gitmiş olacak", "gider", "gelmiyor muydu"]) == ("words", "words")
    assert units(SENTENCES, WORDS) == ("sentences", "sentences")
    assert find_units([Pair("house", "h aʊ s")] * 20) == ("sentences", "sentences"), "one word says nothing"


def test_symbols_are_split_as_they_are_written() -> None:
    assert split_symbols("t͡ʃ aː", "symbols") == ["t͡ʃ", "aː"]
    assert split_symbols("ab c", "words") == ["a", "b", " ", "c"]


def test_joined_copies_are_two_pairs_as_one_and_the_same_each_time() -> None:
    pairs = [Pair("ab", "a b"), Pair("c", "k"), Pair("de", "d e")]
    config = TextConfig(src_tokenizer="characters", tgt_tokenizer="symbols", joined=2)
    copies = list(joined_copies(pairs, config))
    assert len(copies) == 6
    assert copies == list(joined_copies(pairs, config))
    assert {copy.src for copy in copies} <= {one.src + other.src for one in pairs for other in pairs}
    assert all(copy.tgt == " ".join(copy.tgt.split()) and len(copy.tgt.split()) >= 2 for copy in copies)
    assert list(joined_copies(pairs, TextConfig())) == []
