import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError
from glassformer.settings import TextConfig
from glassformer.text import EOS_ID, EncodedPairs, EncodedWriter, Tokenizer
from glassformer.text.corpus.bpe_dropout import BpeDropout, MergeTable, text_keys
from glassformer.text.corpus.dataset import EncodedTexts
from glassformer.text.corpus.encoding import ChunkEncoder

TEXTS = [
    "the lower and the slower newest widest tower", "He didn't say: 日本語 naïve!", "  two  spaces </s> ", "x",
    "unbelievably long internationalisations of lowest newness 1234567890 🙂",
] * 5  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", TEXTS * 3, 360)


def encode(tokenizer: Tokenizer, texts: list[str]) -> EncodedTexts:
    """Encode texts as the preparation does."""
    encoder = ChunkEncoder((tokenizer, tokenizer), TextConfig(bpe_dropout=0.1), 0.0)
    return encoder((texts, texts)).src


def ids_of(texts: EncodedTexts) -> list[list[int]]:
    return [part.tolist() for part in np.split(texts.ids, np.cumsum(texts.lengths)[:-1])]


def keys(count: int, **where: int) -> np.ndarray:
    return text_keys(np.arange(count), **{"seed": 1, "epoch": 1, "side": 0, **where})


def test_words_start_where_the_pre_tokenizer_splits(tokenizer):
    texts = encode(tokenizer, ["didn't  go"])
    ids = ids_of(texts)[0]
    words = np.split(np.array(ids), np.flatnonzero(texts.starts)[1:])
    assert [tokenizer.to_text(word) for word in words] == ["didn", "'t", " ", " go", ""]
    assert words[-1].tolist() == [EOS_ID]


@given(text=st.text(max_size=30) | st.sampled_from(TEXTS))
def test_without_dropout_the_merges_are_those_of_the_tokenizer(tokenizer, text):
    table, ids = MergeTable(tokenizer.json), []
    texts = encode(tokenizer, [f"a{text}"])  # not blank: blank texts are left out
    for word in np.split(texts.ids, np.flatnonzero(texts.starts)[1:]):
        ids += table.derive(table.to_characters(tuple(word.tolist())))[-1]
    assert ids == [*tokenizer.to_ids(f"a{text}"), EOS_ID]


def test_p_0_changes_nothing_and_p_1_leaves_single_bytes(tokenizer):
    texts = encode(tokenizer, TEXTS)
    same = BpeDropout(tokenizer.json, 0.0, 1000).resegment(texts, keys(len(TEXTS)))
    assert ids_of(same) == [[*tokenizer.to_ids(text), EOS_ID] for text in TEXTS]
    bytes_ = BpeDropout(tokenizer.json, 1.0, 1000).resegment(texts, keys(len(TEXTS)))
    assert bytes_.lengths.tolist() == [len(text.encode()) + 1 for text in TEXTS]
    assert len(bytes_.ids) == bytes_.lengths.sum()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_other_tokens_spell_the_same_text(tokenizer, p):
    texts = encode(tokenizer, TEXTS)
    changed = BpeDropout(tokenizer.json, p, 1000).resegment(texts, keys(len(TEXTS)))
    found = ids_of(changed)
    assert [tokenizer.to_text(ids) for ids in found] == TEXTS
    assert all(ids.count(EOS_ID) == 1 and ids[-1] == EOS_ID for ids in found)
    assert changed.lengths.sum() > texts.lengths.sum()
    assert changed.ids.dtype == texts.ids.dtype


def algorithm_1(tokenizer: Tokenizer, word: str, p: float, draws: random.Random) -> tuple[int, ...]:
    """Algorithm 1 as the paper gives it, with a random number for every merge."""
    table = MergeTable(tokenizer.json)
    split = table.to_characters(tuple(tokenizer.to_ids(word)))
    while True:
        possible = [merge for merge in table._find_merges(split) if draws.random() >= p]
        if not possible:
            return split
        at, merged = possible[0]
        split = (*split[:at], merged, *split[at + 2 :])


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.1, 0.4])
def test_each_segmentation_of_a_word_is_as_frequent_as_in_the_papers_algorithm(tokenizer, p):
    word, count = " slower", 4000
    draws = random.Random(4)
    expected = Counter(algorithm_1(tokenizer, word, p, draws) for _ in range(count))
    changed = BpeDropout(tokenizer.json, p, 1000).resegment(encode(tokenizer, [word] * count), keys(count))
    found = Counter(tuple(ids[:-1]) for ids in ids_of(changed))
    assert len(expected) > 4
    for ids in expected | found:
        share = (expected[ids] + found[ids]) / (2 * count)
        # Five standard deviations of the difference of two counts.
        assert abs(expected[ids] - found[ids]) <= 5 * (2 * count * share * (1 - share)) ** 0.5 + 1, ids


def test_words_of_one_text_and_neighbouring_texts_are_independent(tokenizer):
    """Two words both lose a merge as often as the product of their own frequencies says."""
    count = 4000
    whole = len(tokenizer.to_ids(" slower"))
    changed = BpeDropout(tokenizer.json, 0.2, 1000).resegment(
        encode(tokenizer, ["x slower slower"] * count), keys(count)
    )
    rest = [ids[1:-1] for ids in ids_of(changed)]
    plain = tokenizer.to_ids(" slower")
    first = np.array([ids[:whole] != plain for ids in rest])
    second = np.array([ids[-whole:] != plain for ids in rest])
    for one, other in ((first, second), (first[:-1], first[1:]), (second[:-1], first[1:])):
        expected = one.mean() * other.mean()
        assert 0.02 < expected < 0.9
        assert abs((one & other).mean() - expected) < 5 * (expected / count) ** 0.5


def test_seed_epoch_side_and_index_alone_decide(tokenizer):
    dropout = BpeDropout(tokenizer.json, 0.3, 1000)
    texts = encode(tokenizer, TEXTS)
    whole = ids_of(dropout.resegment(texts, keys(len(TEXTS))))
    some = np.array([7, 2, 19])
    apart = dropout.resegment(encode(tokenizer, [TEXTS[n] for n in some]), text_keys(some, seed=1, epoch=1, side=0))
    assert ids_of(apart) == [whole[n] for n in some]
    again = BpeDropout(tokenizer.json, 0.3, 1000).resegment(texts, keys(len(TEXTS)))
    assert ids_of(again) == whole
    for other in ({"seed": 2}, {"epoch": 2}, {"side": 1}):
        assert ids_of(dropout.resegment(texts, keys(len(TEXTS), **other))) != whole
    assert whole[0] != whole[5]  # equal texts


def test_a_text_that_would_become_too_long_is_left_as_it_is(tokenizer):
    texts = encode(tokenizer, TEXTS)
    free = BpeDropout(tokenizer.json, 0.5, 1000).resegment(texts, keys(len(TEXTS)))
    longest = int(np.median(free.lengths))
    changed = BpeDropout(tokenizer.json, 0.5, longest).resegment(texts, keys(len(TEXTS)))
    kept = 0
    for before, after, unbound in zip(ids_of(texts), ids_of(changed), ids_of(free), strict=True):
        fits = len(unbound) <= longest
        assert after == (unbound if fits else before)
        kept += not fits
    assert 5 < kept < 20


def test_word_starts_are_written_and_read_again(tokenizer, tmp_path: Path):
    texts = encode(tokenizer, TEXTS)
    with EncodedWriter(tmp_path, tokenizer.size) as writer:
        writer.append_encoded(texts, texts)
        writer.append_encoded(texts, texts)
    read = EncodedPairs(tmp_path).tgt_side.take(np.array([3, 25, 1]))
    whole = ids_of(texts)
    assert ids_of(read) == [whole[3], whole[0], whole[1]]
    assert read.starts.tolist() == encode(tokenizer, [TEXTS[3], TEXTS[0], TEXTS[1]]).starts.tolist()
    with EncodedWriter(tmp_path, tokenizer.size) as writer:
        writer.append([[4, EOS_ID]], [[5, EOS_ID]])
    assert EncodedPairs(tmp_path).src_side.take(np.array([0])).starts is None
    assert not (tmp_path / "src.starts").exists()


def test_only_bpe_can_have_bpe_dropout():
    with pytest.raises(ConfigError, match=r"text\.bpe_dropout: found 0\.1 with tokenizer 'unigram', expected 'bpe'"):
        TextConfig(bpe_dropout=0.1, tokenizer="unigram")
