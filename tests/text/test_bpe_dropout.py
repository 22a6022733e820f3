import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.config import TextConfig
from glassformer.errors import ConfigError
from glassformer.text import EOS_ID, EncodedPairs, EncodedWriter, Tokenizer
from glassformer.text.bpe_dropout import BpeDropout, MergeTable, text_keys
from glassformer.text.dataset import Rows
from glassformer.text.prepare import ChunkEncoder

TEXTS = [
    "the lower and the slower newest widest tower", "He didn't say: 日本語 naïve!", "  two  spaces </s> ", "x",
    "unbelievably long internationalisations of lowest newness 1234567890 🙂",
] * 5  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", TEXTS * 3, 360)


def rows_of(tokenizer: Tokenizer, texts: list[str]) -> Rows:
    """Encoded as a preparation does it."""
    encoder = ChunkEncoder((tokenizer, tokenizer), TextConfig(bpe_dropout=0.1), 0.0)
    return encoder((texts, texts)).src


def texts_of(rows: Rows) -> list[list[int]]:
    return [part.tolist() for part in np.split(rows.ids, np.cumsum(rows.lengths)[:-1])]


def keys(count: int, **where: int) -> np.ndarray:
    return text_keys(np.arange(count), **{"seed": 1, "epoch": 1, "side": 0, **where})


def test_words_begin_where_the_splitter_cuts(tokenizer):
    rows = rows_of(tokenizer, ["didn't  go"])
    ids = texts_of(rows)[0]
    words = np.split(np.array(ids), np.flatnonzero(rows.starts)[1:])
    assert [tokenizer.to_text(word) for word in words] == ["didn", "'t", " ", " go", ""]
    assert words[-1].tolist() == [EOS_ID]


@given(text=st.text(max_size=30) | st.sampled_from(TEXTS))
def test_with_no_merge_left_out_the_merges_are_those_of_the_tokenizer(tokenizer, text):
    table, ids = MergeTable(tokenizer.json), []
    rows = rows_of(tokenizer, [f"a{text}"])  # nothing blank, which would be left out
    for word in np.split(rows.ids, np.flatnonzero(rows.starts)[1:]):
        ids += table.derivation(table.spelled(tuple(word.tolist())))[-1]
    assert ids == [*tokenizer.to_ids(f"a{text}"), EOS_ID]


def test_at_0_nothing_changes_and_at_1_only_bytes_are_left(tokenizer):
    rows = rows_of(tokenizer, TEXTS)
    same = BpeDropout(tokenizer.json, 0.0, 1000).draw(rows, keys(len(TEXTS)))
    assert texts_of(same) == [[*tokenizer.to_ids(text), EOS_ID] for text in TEXTS]
    bytes_ = BpeDropout(tokenizer.json, 1.0, 1000).draw(rows, keys(len(TEXTS)))
    assert bytes_.lengths.tolist() == [len(text.encode()) + 1 for text in TEXTS]
    assert len(bytes_.ids) == bytes_.lengths.sum()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_whatever_is_left_out_the_text_is_the_same(tokenizer, p):
    rows = rows_of(tokenizer, TEXTS)
    drawn = BpeDropout(tokenizer.json, p, 1000).draw(rows, keys(len(TEXTS)))
    found = texts_of(drawn)
    assert [tokenizer.to_text(ids) for ids in found] == TEXTS
    assert all(ids.count(EOS_ID) == 1 and ids[-1] == EOS_ID for ids in found)
    assert drawn.lengths.sum() > rows.lengths.sum()
    assert drawn.ids.dtype == rows.ids.dtype


Merges = Callable[[tuple[int, ...]], tuple[tuple[int, int], ...]]


def algorithm_1(split: tuple[int, ...], ordered_merges: Merges, p: float, draws: random.Random) -> tuple[int, ...]:
    """The paper's algorithm as it stands there, with a draw for every merge."""
    while True:
        left = [merge for merge in ordered_merges(split) if draws.random() >= p]
        if not left:
            return split
        at, merged = left[0]
        split = (*split[:at], merged, *split[at + 2 :])


@pytest.mark.parametrize("p", [0.1, 0.4])
def test_each_way_to_cut_a_word_is_as_frequent_as_in_the_papers_algorithm(tokenizer, p):
    word, count = " slower", 4000
    draws, table = random.Random(4), MergeTable(tokenizer.json)
    spelled, ordered_merges = table.spelled(tuple(tokenizer.to_ids(word))), cache(table._ordered_merges)
    expected = Counter(algorithm_1(spelled, ordered_merges, p, draws) for _ in range(count))
    drawn = BpeDropout(tokenizer.json, p, 1000).draw(rows_of(tokenizer, [word] * count), keys(count))
    found = Counter(tuple(ids[:-1]) for ids in texts_of(drawn))
    assert len(expected) > 4
    for way in expected | found:
        share = (expected[way] + found[way]) / (2 * count)
        # Five standard deviations of the difference of two counts.
        assert abs(expected[way] - found[way]) <= 5 * (2 * count * share * (1 - share)) ** 0.5 + 1, way


def test_words_of_one_text_and_texts_side_by_side_are_drawn_independently(tokenizer):
    """Counted: how often both of two words lose a merge, against the product of how often each does."""
    count = 4000
    whole = len(tokenizer.to_ids(" slower"))
    drawn = BpeDropout(tokenizer.json, 0.2, 1000).draw(rows_of(tokenizer, ["x slower slower"] * count), keys(count))
    rest = [ids[1:-1] for ids in texts_of(drawn)]
    plain = tokenizer.to_ids(" slower")
    first = np.array([ids[:whole] != plain for ids in rest])
    second = np.array([ids[-whole:] != plain for ids in rest])
    for one, other in ((first, second), (first[:-1], first[1:]), (second[:-1], first[1:])):
        expected = one.mean() * other.mean()
        assert 0.02 < expected < 0.9
        assert abs((one & other).mean() - expected) < 5 * (expected / count) ** 0.5


def test_seed_epoch_side_and_index_alone_decide(tokenizer):
    dropout = BpeDropout(tokenizer.json, 0.3, 1000)
    rows = rows_of(tokenizer, TEXTS)
    whole = texts_of(dropout.draw(rows, keys(len(TEXTS))))
    some = np.array([7, 2, 19])
    apart = dropout.draw(rows_of(tokenizer, [TEXTS[n] for n in some]), text_keys(some, seed=1, epoch=1, side=0))
    assert texts_of(apart) == [whole[n] for n in some]
    again = BpeDropout(tokenizer.json, 0.3, 1000).draw(rows, keys(len(TEXTS)))
    assert texts_of(again) == whole
    for other in ({"seed": 2}, {"epoch": 2}, {"side": 1}):
        assert texts_of(dropout.draw(rows, keys(len(TEXTS), **other))) != whole
    assert whole[0] != whole[5]  # equal texts


def test_a_text_that_would_grow_too_long_stays_as_it_was(tokenizer):
    rows = rows_of(tokenizer, TEXTS)
    free = BpeDropout(tokenizer.json, 0.5, 1000).draw(rows, keys(len(TEXTS)))
    longest = int(np.median(free.lengths))
    drawn = BpeDropout(tokenizer.json, 0.5, longest).draw(rows, keys(len(TEXTS)))
    kept = 0
    for before, after, unbound in zip(texts_of(rows), texts_of(drawn), texts_of(free), strict=True):
        fits = len(unbound) <= longest
        assert after == (unbound if fits else before)
        kept += not fits
    assert 5 < kept < 20


def test_where_words_begin_is_written_and_read_again(tokenizer, tmp_path: Path):
    rows = rows_of(tokenizer, TEXTS)
    with EncodedWriter(tmp_path, tokenizer.size) as writer:
        writer.append_rows(rows, rows)
        writer.append_rows(rows, rows)
    read = EncodedPairs(tmp_path).tgt_side.rows(np.array([3, 25, 1]))
    whole = texts_of(rows)
    assert texts_of(read) == [whole[3], whole[0], whole[1]]
    assert read.starts.tolist() == rows_of(tokenizer, [TEXTS[3], TEXTS[0], TEXTS[1]]).starts.tolist()
    with EncodedWriter(tmp_path, tokenizer.size) as writer:
        writer.append([[4, EOS_ID]], [[5, EOS_ID]])
    assert EncodedPairs(tmp_path).src_side.rows(np.array([0])).starts is None
    assert not (tmp_path / "src.starts").exists()


def test_only_a_tokenizer_that_merges_can_leave_merges_out():
    with pytest.raises(ConfigError, match=r"text\.bpe_dropout: found 0\.1 with tokenizer 'unigram', expected 'bpe'"):
        TextConfig(bpe_dropout=0.1, tokenizer="unigram")
