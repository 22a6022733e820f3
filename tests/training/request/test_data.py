"""Streams of batches, over one window and several: all pairs occur, and a position determines the next batch."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from glassformer.settings import TrainConfig
from glassformer.text.corpus import batches
from glassformer.text.corpus.batches import Batch, plan_batches
from glassformer.text.corpus.dataset import EncodedPairs, EncodedWriter
from glassformer.training.request.data import BatchStream

PAIRS = 307
SETTINGS = TrainConfig(batch_tokens=40, seed=3)


@pytest.fixture
def encoded(tmp_path: Path) -> EncodedPairs:
    """Each source begins with ids that tell its number."""
    random = np.random.default_rng(2)
    src, tgt = ([[*divmod(n, 100), *[9] * random.integers(0, 9), 2] for n in range(PAIRS)] for _ in range(2))
    with EncodedWriter(tmp_path, 1000) as writer:
        writer.append([[n + 4 for n in row[:2]] + row[2:] for row in src], tgt)
    return EncodedPairs(tmp_path)


def numbers(batch: Batch) -> list[int]:
    return [100 * (row[0] - 4) + row[1] - 4 for row in batch.src_ids.tolist()]


def epoch_of(stream: BatchStream, epoch: int) -> list[list[int]]:
    """What the stream gives until the epoch after ``epoch`` begins."""
    found = []
    while True:
        batch = stream.next()
        if stream.epoch != epoch:
            return found
        found.append(numbers(batch))


@pytest.fixture(params=[1, 4])
def count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(batches, "PAIRS_IN_WINDOW", -(-PAIRS // request.param))
    monkeypatch.setattr(batches, "PAIRS_IN_BLOCK", 5)
    assert batches.count_windows(PAIRS) == request.param
    return int(request.param)


def test_each_epoch_holds_every_pair_once_in_another_order(encoded: EncodedPairs, count: int) -> None:
    first = epoch_of(BatchStream(encoded, SETTINGS, 1, 0), 1)
    second = epoch_of(BatchStream(encoded, SETTINGS, 2, 0), 2)
    for epoch in (first, second):
        assert sorted(number for batch in epoch for number in batch) == list(range(PAIRS))
    assert first != second


def test_the_same_batches_follow_from_any_position(encoded: EncodedPairs, count: int) -> None:
    whole = BatchStream(encoded, SETTINGS, 1, 0)
    batches, places = [], []
    for _ in range(2 * len(whole) + 9):
        places.append((whole.epoch, whole.position))
        batches.append(numbers(whole.next()))
    for start in range(0, len(places), 7):
        resumed = BatchStream(encoded, SETTINGS, *places[start])
        assert [numbers(resumed.next()) for _ in batches[start : start + 12]] == batches[start : start + 12]
        assert len(resumed) == len(BatchStream(encoded, SETTINGS, resumed.epoch, 0))


def test_one_window_is_counted_exactly_and_several_are_estimated(encoded, monkeypatch):
    stream = BatchStream(encoded, SETTINGS, 1, 0)
    plan = plan_batches(
        encoded.src_side.lengths, encoded.tgt_side.lengths, 40, seed=3, epoch=1, bucket=SETTINGS.bucket
    )
    given = [sorted(numbers(stream.next())) for _ in plan]
    assert given == [sorted(batch.tolist()) for batch in plan]
    assert len(stream) == len(plan)
    monkeypatch.setattr(batches, "PAIRS_IN_WINDOW", 100)
    monkeypatch.setattr(batches, "PAIRS_IN_BLOCK", 5)
    several = BatchStream(encoded, SETTINGS, 1, 0)
    assert len(several) == pytest.approx(len(epoch_of(several, 1)), rel=0.1)


def test_the_order_of_the_pairs_is_that_of_earlier_versions() -> None:
    """A run that stopped under one version goes on under the next with the batches that it had not seen yet."""
    lengths = np.arange(40) * 7 % 11 + 1
    plan = plan_batches(lengths, lengths[::-1], 30, seed=2, epoch=3)
    assert [batch.tolist() for batch in islice(plan, 3)] == [[8, 11, 0], [39, 9, 20], [12, 34, 15]]
