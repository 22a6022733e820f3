"""Noise: what each kind changes, that targets follow, and that the copies follow from the pairs alone."""

from random import Random

import pytest

from glassformer.settings import TextConfig
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.encoding import ChunkEncoder
from glassformer.text.corpus.noise import KINDS, given_names, noisy_copies
from glassformer.text.tokenizer.tokenizer import Tokenizer

TOM = Pair("Tom has 12 dogs, and Mary has 7.", "Tom hat 12 Hunde, und Maria hat 7.")


def test_every_kind_has_its_setting_and_changes_case_and_marks():
    assert {f"noise_{kind}" for kind in KINDS} == {key for key in TextConfig().to_mapping() if key[:6] == "noise_"}
    assert not list(noisy_copies([TOM], TextConfig()))
    found = {KINDS["case"](TOM, Random(seed)) for seed in range(9)}
    assert found == {TOM._replace(src=start + "om has 12 dogs, and mary has 7.") for start in "Tt"}
    assert KINDS["marks"](TOM, Random(1)) == Pair(TOM.src[:-1], TOM.tgt[:-1])
    assert KINDS["marks"](Pair("Go", "Geh!"), Random(1)) == Pair("Go", "Geh!")


@pytest.mark.parametrize("seed", range(20))
def test_a_mistake_changes_few_letters_of_the_source_alone(seed: int) -> None:
    pair = Pair("I understand this sentence.", "Ich verstehe diesen Satz.")
    src, tgt = KINDS["typos"](pair, Random(seed))
    assert tgt == pair.tgt
    assert abs(len(src) - len(pair.src)) <= 1
    assert sum(one != other for one, other in zip(src.split(), pair.src.split(), strict=True)) <= 1
    assert src.startswith("I ")
    for unchanged in Pair("Go on.", "Weiter."), Pair("friend", "Freund"):
        assert KINDS["typos"](unchanged, Random(seed)) == unchanged


@pytest.mark.parametrize("seed", range(20))
def test_names_change_on_both_sides_and_keep_their_gender(seed: int) -> None:
    src, tgt = (side.split() for side in KINDS["names"](TOM, Random(seed)))
    assert (src[0], src[5]) == (tgt[0], tgt[5])
    assert (src[0] in given_names()["Tom"], src[5] in given_names()["Mary"]) == (True, True)
    assert src[1:5] == TOM.src.split()[1:5]


def test_a_genitive_follows_the_name() -> None:
    pair = Pair("Tom's house is big.", "Toms Haus ist groß.")
    found = [KINDS["names"](pair, Random(seed)) for seed in range(200)]
    names = {src.removesuffix("'s house is big."): tgt.removesuffix(" Haus ist groß.") for src, tgt in found}
    assert all(tgt == name + ("'" if name[-1] in "sxz" else "s") for name, tgt in names.items())
    assert any(name[-1] in "sxz" for name in names)
    other = Pair("Will you come?", "Kommst du?")
    assert KINDS["names"](other, Random(1)) == other


@pytest.mark.parametrize("seed", range(20))
def test_numbers_change_on_both_sides(seed: int) -> None:
    src, tgt = (side.replace(".", "").split() for side in KINDS["numbers"](TOM, Random(seed)))
    assert (src[2], src[-1]) == (tgt[2], tgt[-1])
    assert (len(src[2]), len(src[-1])) == (2, 1)
    for same in (Pair("At 7:30, on 3.5 and x2.", "Um 7:30, am 3.5 und x2."), Pair("2 and 2", "2 und 2")):
        assert KINDS["numbers"](same, Random(seed)) == same


def test_copies_follow_from_the_pair_alone_and_are_added_to_the_training_pairs() -> None:
    pairs = [Pair(f"Tom {word} has {n} dogs.", f"Tom {word} hat {n} Hunde.") for n in range(2, 30) for word in "abc"]
    config = TextConfig(noise_names=0.5, noise_numbers=0.5, noise_typos=0.3)
    copies = list(noisy_copies(pairs, config))
    assert copies == [copy for pair in pairs for copy in noisy_copies([pair], config)]
    assert 0.6 * len(pairs) < len(copies) < len(pairs)
    tokenizer = Tokenizer.train("characters", [side for pair in pairs for side in pair], 100)
    chunk = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
    encoded = ChunkEncoder((tokenizer, tokenizer), config, valid_share=0.0)(chunk)
    assert encoded.counts["kept"] == len(encoded.src.lengths) == len(pairs) + len(copies)
