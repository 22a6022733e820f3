"""Hypotheses abreast in one row are what they are as rows of their own."""

import pytest
import torch

from glassformer.config import ModelConfig
from glassformer.model import Transformer
from glassformer.model.beams import BeamCache

POSITIONS = ["sinusoidal", "learned", "relative", "rotary"]


@pytest.fixture(params=POSITIONS)
def model(request) -> Transformer:
    torch.manual_seed(3)
    config = ModelConfig(
        src_vocab=23, tgt_vocab=23, d_model=22, n_heads=3, d_k=4, d_v=5, d_ff=31, n_encoder_layers=1,
        n_decoder_layers=2, max_length=17, positions=request.param, relative_clip=2,
    )  # fmt: skip
    return Transformer(config).eval()


@torch.no_grad()
def test_every_step_says_the_same_whoever_descends_from_whom(model):
    src_ids = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0], [11, 2, 0, 0, 0]])
    memory, mask = model.encode(src_ids)
    abreast, in_rows = BeamCache(2), model.new_cache()
    first = torch.ones(3, 1, dtype=torch.int64)
    torch.testing.assert_close(
        model.decode(first, memory, mask, abreast), model.decode(first, memory, mask, in_rows), rtol=0, atol=1e-5
    )
    hypotheses = torch.arange(3).repeat_interleave(4)
    in_rows.reorder(hypotheses)
    abreast.follow(torch.zeros(3, 4, dtype=torch.int64))
    generator = torch.Generator().manual_seed(1)
    for _ in range(6):
        ids = torch.randint(3, 23, (3, 4), generator=generator)
        found = model.decode(ids, memory, mask, abreast)
        expected = model.decode(ids.view(-1, 1), memory[hypotheses], mask[hypotheses], in_rows)
        torch.testing.assert_close(found.view(12, -1), expected[:, 0], rtol=0, atol=1e-5)
        parents = torch.randint(0, 4, (3, 4), generator=generator)
        abreast.follow(parents)
        in_rows.reorder((torch.arange(3)[:, None] * 4 + parents).flatten())


@torch.no_grad()
def test_a_source_that_is_done_can_be_dropped(model):
    memory, mask = model.encode(torch.tensor([[5, 6, 2], [7, 8, 2]]))
    ids = torch.tensor([[4, 5], [6, 7]])

    def second(rows: slice) -> torch.Tensor:
        cache = BeamCache(2)
        model.decode(torch.ones(2, 1, dtype=torch.int64)[rows], memory[rows], mask[rows], cache)
        cache.follow(torch.zeros(2, 2, dtype=torch.int64)[rows])
        if rows == slice(0, 2):
            cache.reorder(torch.tensor([1]))
        return model.decode(ids[1:], memory[1:], mask[1:], cache)

    torch.testing.assert_close(second(slice(0, 2)), second(slice(1, 2)), rtol=0, atol=1e-5)


def test_all_stand_at_one_position_so_that_a_limit_is_not_reached_early(model):
    cache = BeamCache(2)
    memory, mask = model.encode(torch.tensor([[5, 2]]))
    with torch.no_grad():
        model.decode(torch.tensor([[1]]), memory, mask, cache)
        for _ in range(16):
            cache.follow(torch.zeros(1, 3, dtype=torch.int64))
            model.decode(torch.tensor([[4, 5, 6]]), memory, mask, cache)
    assert cache.span(3) == (17, 18)
