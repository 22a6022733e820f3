"""What is demanded in words is found in the text: beginnings, phrases that must and that must not occur."""

import pytest
from words import TEXTS, WORDS

from glassformer.decoding import Request, Translator
from glassformer.decoding.request import tokenize_constraints
from glassformer.errors import InputError
from glassformer.settings import DecodeConfig
from glassformer.text import Tokenizer

BEAM = DecodeConfig(beam=6, n_best=3, max_length_b=12)
KINDS = {"bpe": 300, "wordpiece": 60, "unigram": 60, "words": 14, "characters": 30}


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def speaker(make_model, kind) -> Translator:
    tokenizer = Tokenizer.train(kind, [*WORDS, " ".join(WORDS)], KINDS[kind])
    model = make_model(vocab=tokenizer.size, seed=3, bias={2: 1.0, 3: -30.0}, max_length=70)
    return Translator(model, tokenizer, tokenizer, BEAM)


def test_an_output_holds_what_it_must(speaker):
    constraints = [["house"], [], ["tall trees", "river"], ["by"], [], ["a"]]
    found = speaker.translate(TEXTS, BEAM, constraints=constraints)
    for translation, phrases in zip(found, constraints, strict=True):
        best = translation.hypotheses[0]
        assert all(phrase in best.text for phrase in phrases)
        assert best.unmet == ()
    plain = speaker.translate(TEXTS, BEAM)
    assert [one.text for one, phrases in zip(found, constraints, strict=True) if not phrases] == [
        one.text for one, phrases in zip(plain, constraints, strict=True) if not phrases
    ]


def test_an_output_holds_nothing_banned(speaker):
    plain = speaker.translate(TEXTS, BEAM)
    banned = sorted({word for one in plain for word in one.text.split() if word in WORDS})[:2] or ["house"]
    for options in (BEAM, DecodeConfig(sample=True, n_best=2, max_length_b=12)):
        found = speaker.translate(TEXTS, options, banned=banned)
        forbidden = {
            ids
            for word in banned
            for ids in tokenize_constraints(Request("", ban=(word,)), speaker.tgt_tokenizer, "x").banned
        }
        for translation in found:
            for one in translation.hypotheses:
                assert not any(
                    tuple(one.ids[at : at + len(ids)]) == ids for ids in forbidden for at in range(len(one.ids))
                )
    assert any(
        one.text != other.text
        for one, other in zip(speaker.translate(TEXTS, BEAM, banned=banned), plain, strict=True)
    ) or banned == ["house"]


def test_limits_count_behind_the_prefix_and_what_they_cut_is_told(speaker):
    options = DecodeConfig(beam=4, max_length_a=0, max_length_b=2)
    (found,) = speaker.translate(["the"], options, constraints=[["tall trees by a river"]])
    assert found.hypotheses[0].unmet == ("tall trees by a river",)
    assert found.to_mapping()["hypotheses"][0]["unmet"] == ["tall trees by a river"]
    options = DecodeConfig(beam=1, max_length_a=0, max_length_b=1)
    (found,) = speaker.translate(["the"], options, prefixes=["the old house"])
    assert len(found.hypotheses[0].ids) == len(speaker.tgt_tokenizer.to_ids("the old house")) + 1
    with pytest.raises(InputError, match=r"texts\[0\]: prefix: has \d+ tokens, expected fewer than the 70"):
        speaker.translate(["the"], prefixes=["the house " * 50])


def test_a_space_goes_before_words_of_scripts_that_write_it():
    tokenizer = Tokenizer.train("bpe", ["the house", "家 house の"], 300)
    word, character = (
        tokenize_constraints(Request("", must=(phrase,)), tokenizer, "x").required[0] for phrase in ("house", "家")
    )
    assert tokenizer.to_text(word) == " house"
    assert tokenizer.to_text(character) == "家"
    assert tokenizer.to_text(tokenize_constraints(Request("", prefix="house"), tokenizer, "x").prefix) == "house"
    banned = tokenize_constraints(Request("", ban=("house",)), tokenizer, "x").banned
    assert {tokenizer.to_text(ids) for ids in banned} == {" house", "house"}


def test_mistakes_are_told(translator):
    with pytest.raises(InputError, match="prefixes: found 1 for 2 texts, expected one for each"):
        translator.translate(["a", "the"], prefixes=["a"])
    with pytest.raises(InputError, match=r"constraints\[1\]: found one str 'house'"):
        translator.translate(["a", "the"], constraints=[[], "house"])
    with pytest.raises(InputError, match="banned: found one str 'house'"):
        translator.translate(["a"], banned="house")
    with pytest.raises(
        InputError,
        match=r"texts\[1\]: must 'zebra': contains characters or words that the target tokenizer does not know",
    ):
        translator.translate(["a", "the"], constraints=[[], ["zebra"]])
    with pytest.raises(InputError, match=r"texts\[0\]: must: found 1 phrases with sampling"):
        translator.translate(["a"], DecodeConfig(sample=True), constraints=[["house"]])
    assert translator.translate(["a"], banned=["zebra"]) == translator.translate(["a"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"must": "river"}, "must: found one str 'river', expected a list"),
        ({"ban": ("a", 1)}, r"ban: found \['a', 1\], expected phrases, each of them a str"),
        ({"prefix": None}, "prefix: found NoneType, expected str"),
    ],
)
def test_a_request_of_something_else_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        Request("a river", **given)


def test_an_empty_phrase_is_named_by_its_text(speaker):
    with pytest.raises(InputError, match=r"texts\[1\]: must: found an empty phrase"):
        speaker.translate(TEXTS[:2], constraints=[[], [" "]])
    with pytest.raises(InputError, match="chunk: found 0, expected 1 or more"):
        list(speaker.translate_stream(TEXTS, chunk=0))
