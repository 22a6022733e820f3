import json
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import TokenizerError
from glassformer.settings import TextConfig
from glassformer.text import CONTROL_TOKENS, Derivation, Tokenizer
from glassformer.text.tokenizer.derivation import Lookup, Match, Merge, PreToken, Segmentation
from glassformer.text.tokenizer.kinds import train_library

KINDS = TextConfig.choices("tokenizer")
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich!",
    "Someone typed </s> and <pad>, then <s> and <unk> once more.",
    "banana bananas an ana nanana abab baba aabbaabb ああ 日本語 👩‍👩‍👧‍👦 family",
] * 20

parts = [*CONTROL_TOKENS, "<", "/s>", "Ġ", "▁", "##s", "<0x41>", " ", "\t", "\n", "\ud800", "\ud83d\ude00", "e\u0301"]
words = ["fox", "banana", "Über", "日本", "👩‍👩‍👧‍👦", "x" * 101, "ab" * 90, "\x00", "\u2028", "\u200b"]
hostile = st.lists(st.sampled_from([*parts, *words]) | st.text(max_size=4)).map("".join)
# Few letters and long runs give many segmentations that differ only in the last bits, and many equal merges.
runs = st.text("abn", max_size=80)
anything = hostile | runs | st.text(st.characters())


@pytest.fixture(scope="module")
def tokenizers() -> dict[tuple[str, bool], Tokenizer]:
    return {
        (kind, lowercase): Tokenizer.train(kind, SENTENCES, 420, lowercase=lowercase)
        for kind in KINDS
        for lowercase in (False, True)
    }


def edited_tokenizer(kind: str, model: dict | None = None, **other) -> Tokenizer:
    """A trained tokenizer with some parts of its JSON replaced."""
    library = json.loads(train_library(kind, SENTENCES, 420, False).to_str())
    library["model"] |= model or {}
    return Tokenizer(json.dumps(library | other))


def vocabulary(*entries: str) -> dict[str, int]:
    return {entry: number for number, entry in enumerate([*CONTROL_TOKENS, *entries])}


def only(derivation: Derivation) -> PreToken:
    """Its only pre-token."""
    (pre_token,) = derivation.pre_tokens
    return pre_token


def lines(pre_token: PreToken) -> list[str]:
    return list(map(str, pre_token.steps))


# Byte-pair merges


def test_bpe_merges_the_most_frequent_pair_first():
    # low once, ▁low twice, ▁lower once: l+o and o+w come 4 times each, then lo+w 4 times, then ▁+low 3 times.
    bpe = Tokenizer.train("bpe", ["low low low lower"], 260 + 3)
    pre_token = only(bpe.derive(" lower"))
    assert pre_token == PreToken(
        text="▁lower",
        symbols=("▁", "l", "o", "w", "e", "r"),
        steps=(
            Merge("l", "o", "lo", rank=0, start=1, middle=2, end=3),
            Merge("lo", "w", "low", rank=1, start=1, middle=3, end=4),
            Merge("▁", "low", "▁low", rank=2, start=0, middle=1, end=4),
        ),
        tokens=("▁low", "e", "r"),
        ids=(262, *bpe.to_ids("er")),
    )
    assert lines(pre_token) == ["l + o → lo (merge 0)", "lo + w → low (merge 1)", "▁ + low → ▁low (merge 2)"]
    assert [" ".join(state) for state in pre_token.states()] == [
        "▁ l o w e r",
        "▁ lo w e r",
        "▁ low e r",
        "▁low e r",
    ]
    assert str(pre_token) == f"▁lower → ▁low e r {list(pre_token.ids)}"


def bpe_of(*merges: str) -> Tokenizer:
    """Byte-level BPE with these merges, each given as two symbols and a space between them."""
    pairs = [merge.split() for merge in merges]
    blank = json.loads(train_library("bpe", ["a"], 260, False).to_str())["model"]["vocab"]
    vocab = blank | {left + right: 260 + rank for rank, (left, right) in enumerate(pairs)}
    return edited_tokenizer("bpe", {"vocab": vocab, "merges": pairs})


def test_an_earlier_merge_comes_first_and_can_prevent_a_later_one():
    # b + c comes first, although a + b is further left; then there is no a + b left to merge.
    bpe = bpe_of("b c", "a b", "bc d")
    assert lines(only(bpe.derive("abcd"))) == ["b + c → bc (merge 0)", "bc + d → bcd (merge 2)"]
    assert bpe.derive("abcd").tokens == ["a", "bcd"]


def test_of_equal_merges_the_leftmost_is_made_first():
    bpe = bpe_of("a a", "aa a")
    assert list(only(bpe.derive("aaaaa")).states()) == [
        ("a", "a", "a", "a", "a"),
        ("aa", "a", "a", "a"),
        ("aa", "aa", "a"),
        ("aa", "aaa"),
    ]


def test_bpe_begins_with_bytes():
    pre_token = only(bpe_of("Ã ¶").derive("ö"))
    assert (pre_token.symbols, pre_token.tokens) == (("⟨C3⟩", "⟨B6⟩"), ("ö",))
    assert lines(pre_token) == ["⟨C3⟩ + ⟨B6⟩ → ö (merge 0)"]


@given(text=anything)
@settings(max_examples=200, deadline=None)
def test_every_merge_has_its_position(tokenizers, text):
    for pre_token in tokenizers["bpe", False].derive(text).pre_tokens:
        states = list(pre_token.states())
        assert states[0] == pre_token.symbols
        assert states[-1] == pre_token.tokens
        for merge, (earlier, later) in zip(pre_token.steps, pairwise(states), strict=True):
            assert merge.start < merge.middle < merge.end
            assert len(later) == len(earlier) - 1
            at = next(place for place, (old, new) in enumerate(zip(earlier, later, strict=False)) if old != new)
            assert (earlier[at], earlier[at + 1], later[at]) == (merge.left, merge.right, merge.result)


# WordPiece


def test_wordpiece_takes_the_longest_match_first():
    wordpiece = edited_tokenizer(
        "wordpiece", {"vocab": vocabulary("un", "u", "able", "##aff", "##a", "##able", "##ab")}
    )
    pre_token = only(wordpiece.derive("unaffable"))
    assert pre_token.steps == (
        Match("unaffable", "un", tries=8),
        Match("##affable", "##aff", tries=5),
        Match("##able", "##able", tries=1),
    )
    assert (pre_token.tokens, pre_token.ids) == (("un", "##aff", "##able"), (4, 7, 9))
    assert lines(pre_token)[1] == "##affable → ##aff (longest match, at try 5)"


def test_wordpiece_never_goes_back_to_a_shorter_match():
    # ab + ##cd would be possible, but abc is longer.
    wordpiece = edited_tokenizer("wordpiece", {"vocab": vocabulary("ab", "abc", "##cd", "##", "#")})
    pre_token = only(wordpiece.derive("abcd"))
    assert lines(pre_token) == [
        "abcd → abc (longest match, at try 2)",
        "##d → <unk> (no prefix is in the vocabulary, so the whole word is unknown)",
    ]
    assert (pre_token.tokens, pre_token.ids) == (("<unk>",), (3,))


def test_wordpiece_makes_words_over_its_limit_unknown(tokenizers):
    wordpiece = tokenizers["wordpiece", False]
    assert isinstance(only(wordpiece.derive("a" * 100)).steps[0], Match)
    (step,) = only(wordpiece.derive("a" * 101)).steps
    assert step == Lookup("a" * 101, "<unk>", "101 characters, more than 100")


# Unigram


def unigram_of(**scores: float) -> Tokenizer:
    vocab = [[token, 0.0] for token in CONTROL_TOKENS] + [[piece, score] for piece, score in scores.items()]
    return edited_tokenizer("unigram", {"vocab": vocab})


def test_unigram_takes_the_highest_sum():
    unigram = unigram_of(a=-1.0, b=-2.0, c=-4.0, ab=-2.5, bc=-3.75)
    pre_token = only(unigram.derive("abc"))
    # ab + c = -6.5 and a + b + c = -7: a + bc = -4.75 beats both.
    assert pre_token.steps == (
        Segmentation(("a", "bc"), (-1.0, -3.75), total=-4.75, best=True),
        Segmentation(("ab", "c"), (-2.5, -4.0), total=-6.5, best=False),
    )
    assert lines(pre_token) == [
        "a (-1.00) + bc (-3.75) = -4.75 (the best)",
        "ab (-2.50) + c (-4.00) = -6.50 (the runner-up)",
    ]
    assert (pre_token.symbols, pre_token.tokens, pre_token.ids) == (("a", "b", "c"), ("a", "bc"), (4, 8))


def test_unigram_joins_unknown_neighbours():
    # The worst entry scores -4, so each unknown character scores -14.
    pre_token = only(unigram_of(a=-1.0, b=-4.0).derive("axyb"))
    assert pre_token.steps == (Segmentation(("a", "xy", "b"), (-1.0, -28.0, -4.0), total=-33.0, best=True),)
    assert (pre_token.tokens, pre_token.ids) == (("a", "<unk>", "b"), (4, 3, 5))


def all_totals(word: str, scores: dict[str, float], unknown: float) -> list[float]:
    """The totals of all segmentations of a word, by brute force."""
    if not word:
        return [0.0]
    sizes = [size for size in range(1, len(word) + 1) if size == 1 or word[:size] in scores]
    return [
        scores.get(word[:size], unknown) + rest for size in sizes for rest in all_totals(word[size:], scores, unknown)
    ]


@given(word=st.text("abnx日", min_size=1, max_size=9))
@settings(max_examples=100, deadline=None)
def test_no_other_segmentation_lies_between_the_best_and_the_runner_up(tokenizers, tmp_path_factory, word):
    unigram = tokenizers["unigram", False]
    file = tmp_path_factory.mktemp("unigram") / "t.json"
    unigram.save(file)
    scores = dict(json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"])
    totals = sorted(all_totals(word, scores, min(scores.values()) - 10), reverse=True)[:2]
    steps = only(unigram.derive(word)).steps
    assert [step.total for step in steps] == pytest.approx(totals)
    assert [sum(step.log_probs) for step in steps] == pytest.approx(totals)
    assert ["".join(step.pieces) for step in steps] == [word] * len(steps)


# Words and characters


def test_words_are_looked_up_whole():
    known, unknown = Tokenizer.train("words", ["a a a b b c"], 6).derive("b c").pre_tokens
    assert (lines(known), known.ids) == (["b → b (in the vocabulary)"], (5,))
    assert (lines(unknown), unknown.ids) == (["c → <unk> (not in the vocabulary)"], (3,))


def test_characters_are_looked_up_one_by_one():
    derivation = Tokenizer.train("characters", ["a a a"], 10).derive("a z")
    assert list(map(str, derivation.pre_tokens)) == ["a → a [4]", "▁ → ▁ [5]", "z → <unk> [3]"]


# All kinds


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(text=anything)
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_the_steps_lead_to_the_ids_of_the_tokenizer(tokenizers, kind, lowercase, text):
    tokenizer = tokenizers[kind, lowercase]
    derivation = tokenizer.derive(text)
    assert derivation.ids == tokenizer.to_ids(text)
    assert derivation.tokens == tokenizer.to_tokens(derivation.ids)
    for pre_token in derivation.pre_tokens:
        assert not any("\n" in line for line in [str(pre_token), *lines(pre_token)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", " ", *CONTROL_TOKENS, "\ud800", "e\u0301", "👩‍👩‍👧‍👦", "日本語 ☃"])
def test_texts_that_often_cause_errors(tokenizers, kind, text):
    tokenizer = tokenizers[kind, False]
    assert tokenizer.derive(text).ids == tokenizer.to_ids(text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "word", ["a", " ", "<", "banana", "日本", "".join(random.Random(7).choices("abnfox", k=20_000))]
)
def test_a_word_of_20000_characters_is_derived(tokenizers, kind, word):
    text = (word * 20_000)[:20_000]
    assert tokenizers[kind, False].derive(text).ids == tokenizers[kind, False].to_ids(text)


def test_the_normal_form_is_shown_before_the_pre_tokens(tokenizers):
    derivation = tokenizers["words", True].derive("E\u0301 FOX\ud800")
    assert (derivation.text, derivation.normalised) == ("E\u0301 FOX\ufffd", "é fox\ufffd")
    assert [pre_token.text for pre_token in derivation.pre_tokens] == ["é", "fox", "\ufffd"]


def test_equal_pre_tokens_are_one_object(tokenizers):
    first, second, third = tokenizers["bpe", False].derive("x fox fox").pre_tokens
    assert second is third
    assert first is not second


def test_a_loaded_tokenizer_derives_the_same(tokenizers, tmp_path):
    for (kind, _), tokenizer in tokenizers.items():
        tokenizer.save(tmp_path / f"{kind}.json")
        text = "The <s>bananas</s> of Zwölf über\tthe fox " + "ab" * 60
        assert Tokenizer.load(tmp_path / f"{kind}.json").derive(text) == tokenizer.derive(text)


def test_other_steps_than_those_of_the_library_are_refused(monkeypatch):
    unigram = unigram_of(a=-1.0)
    monkeypatch.setattr(unigram, "to_ids", lambda text: [4] if text == "a" else [])
    assert unigram.derive("a").ids == [4]
    with pytest.raises(TokenizerError, match=re.escape("'aa': the steps lead to other ids")):
        unigram.derive("aa")
    with pytest.raises(TokenizerError, match=f"'{'日' * 60}…': the steps"):
        unigram.derive("日" * 100)
