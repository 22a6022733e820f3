import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    EncodedPairs,
    EncodedWriter,
    collate,
    padding_fraction,
    plan_batches,
)

lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=200)


def sides(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def natural(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths like those of sentences and their translations."""
    random = np.random.default_rng(3)
    src = np.clip(random.gamma(6.0, 2.5, count).round(), 2, 120).astype(np.int32)
    return src, np.clip((src * random.normal(1.0, 0.2, count)).round(), 2, 120).astype(np.int32)


@given(pairs=lengths, budget=st.integers(1, 300), seed=st.integers(0, 3), epoch=st.integers(0, 3))
def test_every_pair_is_in_one_batch_and_batches_keep_the_budget(pairs, budget, seed, epoch):
    src, tgt = sides(pairs)
    plan = plan_batches(src, tgt, budget, seed=seed, epoch=epoch)
    assert sorted(index for batch in plan for index in batch) == list(range(len(pairs)))
    for batch in plan:
        assert len(batch) > 0
        assert len(batch) == 1 or len(batch) * max(src[batch].max(), tgt[batch].max()) <= budget


def test_the_plan_depends_on_seed_and_epoch_alone():
    src, tgt = natural(3000)

    def order(**where: int) -> list[list[int]]:
        return [batch.tolist() for batch in plan_batches(src, tgt, 1000, **where)]

    first = order(seed=1, epoch=2)
    assert first == order(seed=1, epoch=2)
    for other in (order(seed=1, epoch=3), order(seed=2, epoch=2), order(seed=2, epoch=1)):
        assert first != other
        # Not only the order of the batches: other pairs of equal length share a batch.
        assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in other}


def test_batches_come_in_random_order_with_little_padding():
    src, tgt = natural(3000)
    longest = [int(tgt[batch].max()) for batch in plan_batches(src, tgt, 1000, seed=1, epoch=0)]
    assert longest != sorted(longest)
    src, tgt = natural(30_000)
    assert padding_fraction(src, tgt, plan_batches(src, tgt, 4096, seed=1, epoch=0)) < 0.07
    src, tgt = sides([(2, 4), (3, 1)])
    together, apart = [np.array([0, 1])], [np.array([0]), np.array([1])]
    assert padding_fraction(src, tgt, together) == pytest.approx(1 - 10 / 14)
    assert padding_fraction(src, tgt, apart) == 0.0
    assert padding_fraction(src, tgt, []) == 0.0


@pytest.fixture
def pairs(tmp_path) -> EncodedPairs:
    with EncodedWriter(tmp_path, 100) as writer:
        writer.append(
            [[11, 12, EOS_ID], [13, EOS_ID], [14, 15, 16, EOS_ID]], [[21, EOS_ID], [22, 23, 24, EOS_ID], [EOS_ID]]
        )
    return EncodedPairs(tmp_path)


def test_batches_by_hand(pairs):
    batch = collate(pairs, np.array([1, 0]))
    assert batch.src_ids.tolist() == [[13, EOS_ID, PAD_ID], [11, 12, EOS_ID]]
    assert batch.tgt_in_ids.tolist() == [[BOS_ID, 22, 23, 24], [BOS_ID, 21, PAD_ID, PAD_ID]]
    assert batch.tgt_out_ids.tolist() == [[22, 23, 24, EOS_ID], [21, EOS_ID, PAD_ID, PAD_ID]]
    assert batch.target_tokens == 6
    assert {ids.dtype for ids in (batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids)} == {torch.int64}
    batch = collate(pairs, np.array([2]))
    assert batch.tgt_in_ids.tolist() == [[BOS_ID]]
    assert batch.tgt_out_ids.tolist() == [[EOS_ID]]


def test_a_wider_bucket_mixes_lengths_and_keeps_the_budget_and_every_pair():
    rng = np.random.default_rng(13)
    src, tgt = rng.integers(3, 40, size=2000), np.full(2000, 11)
    plan = plan_batches(src, tgt, 512, seed=1, epoch=1, bucket=8)
    assert sorted(np.concatenate(plan).tolist()) == list(range(2000))
    assert all(len(batch) * max(src[batch].max(), 11) <= 512 for batch in plan)
    assert max(len(set(src[batch])) for batch in plan) > 4
    assert padding_fraction(src, tgt, plan) > padding_fraction(src, tgt, plan_batches(src, tgt, 512, seed=1, epoch=1))
