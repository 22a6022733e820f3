import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.corpus import batches
from glassformer.text.corpus.batches import count_windows, window_indices


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PAIRS_IN_WINDOW", 60)
    monkeypatch.setattr(batches, "PAIRS_IN_BLOCK", 7)


@pytest.mark.usefixtures("small")
@given(pairs=st.integers(61, 700), seed=st.integers(0, 3), epoch=st.integers(0, 3))
def test_the_windows_of_an_epoch_hold_each_index_once_and_have_similar_sizes(pairs, seed, epoch):
    parts = [window_indices(pairs, window, seed=seed, epoch=epoch) for window in range(count_windows(pairs))]
    assert sorted(np.concatenate(parts).tolist()) == list(range(pairs))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 2 * 7
    assert max(sizes) <= 60 + 7


@pytest.mark.usefixtures("small")
def test_a_window_is_from_all_over_the_corpus_and_another_in_each_epoch():
    first, again, other = (window_indices(700, 2, seed=1, epoch=epoch) for epoch in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    assert np.diff(first).max() > 20
    assert first.min() < 200
    assert first.max() > 500


def test_a_small_corpus_is_one_window():
    assert count_windows(0) == count_windows(1) == count_windows(2**20) == 1
    assert count_windows(2**20 + 1) == 2
    assert window_indices(5, 0, seed=1, epoch=1).tolist() == [0, 1, 2, 3, 4]
