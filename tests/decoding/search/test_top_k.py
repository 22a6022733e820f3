"""The greatest of many, block by block, are the greatest of all."""

import math

import pytest
import torch

from glassformer.decoding.search.beam import top_k, top_k_of_beams


@pytest.mark.parametrize("count", [1, 2, 7, 10])
@pytest.mark.parametrize("n", [5, 64, 777, 6400, 6463])
def test_they_are_those_that_topk_finds(n, count):
    values = torch.randn(13, n, generator=torch.Generator().manual_seed(n))
    values[3, : n // 2] = -math.inf
    found, places = top_k(values, count)
    expected = values.topk(min(count, n), dim=1)
    assert torch.equal(found, expected.values)
    assert torch.equal(values.gather(1, places), found)
    assert all(len(set(row)) == len(row) for row in places.tolist())


def test_the_last_numbers_behind_whole_blocks_count_too():
    values = torch.zeros(2, 64 * 30 + 5)
    values[0, -1], values[1, -5] = 3.0, 2.0
    found, places = top_k(values, 3)
    assert found[:, 0].tolist() == [3.0, 2.0]
    assert places[:, 0].tolist() == [64 * 30 + 4, 64 * 30]


@pytest.mark.parametrize("vocab", [4, 3000])
def test_of_beams_they_are_the_greatest_sums(vocab):
    generator = torch.Generator().manual_seed(vocab)
    ranking = torch.randn(5, 3, generator=generator)
    ranking[2, 1:] = -math.inf
    log_probs = torch.randn(5, 3, vocab, generator=generator).log_softmax(-1)
    places = top_k_of_beams(ranking, log_probs, 6)
    sums = (ranking[:, :, None] + log_probs).flatten(1)
    assert torch.equal(sums.gather(1, places), sums.topk(6, dim=1).values)
