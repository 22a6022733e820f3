"""The cache's own promises: buffers that grow by doubling, rows that agree, gradients that survive."""

import pytest
import torch

from glassformer.errors import InputError
from glassformer.model.cache import AttentionCache


def positions(count: int, start: int) -> torch.Tensor:
    return torch.arange(start, start + count, dtype=torch.float32).view(1, 1, count, 1).expand(3, 2, count, 5)


def test_buffers_double_and_a_reorder_keeps_what_they_can_hold() -> None:
    cache = AttentionCache(grows=True)
    capacities = []
    for step in range(9):
        cache.append(positions(1, step), positions(1, step))
        cache.reorder(torch.tensor([2, 0, 1]))
        capacities.append(cache._k.shape[2] if cache._k is not None else 0)
    assert capacities == [1, 4, 4, 4, 10, 10, 10, 10, 10]
    assert cache.k[0, 0, :, 0].tolist() == list(range(9))


@pytest.mark.parametrize("grows", [False, True])
def test_only_keys_that_are_read_at_each_step_and_stay_are_laid_out_in_a_row(grows: bool) -> None:
    cache, heads_last = AttentionCache(grows=grows), torch.zeros(3, 4, 2, 5)
    cache.append(heads_last.transpose(1, 2), heads_last.transpose(1, 2))
    assert cache.k.is_contiguous() != grows
    assert cache.v.is_contiguous() != grows


def test_a_cache_a_memory_or_a_mask_of_other_sentences_is_refused(small_model, unchecked) -> None:
    model = small_model()
    memory, mask = model.encode(torch.tensor([[4, 5, 2], [6, 7, 2], [8, 2, 0]]))
    cache = model.new_cache()
    model.decode(torch.tensor([[1], [1], [1]]), memory, mask, cache)
    two = torch.tensor([[4], [5]])
    with pytest.raises(InputError, match="cache: axis batch has 3 rows, tgt_in_ids has 2"):
        model.decode(two, memory[:2], mask[:2], cache)
    with pytest.raises(InputError, match="memory_mask: axis batch has 3 rows"):
        model.decode(two, memory[:2], mask)
    with pytest.raises(InputError, match="memory: axis batch has 3 rows"):
        model.decode(two, memory, mask[:2])
    assert {layer.autoregressive.length for layer in cache.layers} == {1}, "a refused step leaves the cache as it was"


def test_ids_in_a_list_are_refused_in_words(small_model, unchecked) -> None:
    with pytest.raises(InputError, match="src_ids: found list, expected a tensor"):
        small_model().encode([[4, 5, 2]])


def test_an_empty_batch_gives_an_empty_result(small_model) -> None:
    nothing = torch.zeros(0, 3, dtype=torch.int64)
    model = small_model()
    assert model(nothing, nothing).shape == (0, 3, model.config.tgt_vocab)


def test_gradients_of_cached_steps_are_those_of_one_pass(small_model) -> None:
    model = small_model()
    src, tgt = torch.tensor([[4, 5, 2]]), torch.tensor([[1, 6, 7, 8]])
    model(src, tgt).square().sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    memory, mask = model.encode(src)
    cache = model.new_cache()
    sum(model.decode(tgt[:, step : step + 1], memory, mask, cache).square().sum() for step in range(4)).backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5)
