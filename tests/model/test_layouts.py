"""The decoder one position at a time says what the plain walk says, whoever descends from whom."""

import pytest
import torch
from glassformer.model.incremental import IncrementalDecoder

from glassformer.config import ModelConfig
from glassformer.errors import InputError
from glassformer.model import Transformer

POSITIONS = ModelConfig.choices("positions")


@pytest.fixture(params=POSITIONS)
def model(request) -> Transformer:
    torch.manual_seed(3)
    config = ModelConfig(
        src_vocab=23, tgt_vocab=23, output_bias=True, d_model=22, n_heads=3, d_k=4, d_v=5, d_ff=31, n_encoder_layers=1,
        n_decoder_layers=2, max_length=17, positions=request.param, relative_clip=2,
    )  # fmt: skip
    return Transformer(config).eval().requires_grad_(False)


SOURCES = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0], [11, 2, 0, 0, 0]])
BOS = torch.ones(3, dtype=torch.int64)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_hypotheses_abreast_are_what_they_are_as_rows_of_their_own(model):
    memory, mask = model.encode(SOURCES)
    abreast, in_rows = IncrementalDecoder(model, memory, mask), model.new_cache()
    close(abreast(BOS), model.decode(BOS[:, None], memory, mask, in_rows)[:, 0])
    hypotheses = torch.arange(3).repeat_interleave(4)
    in_rows.reorder(hypotheses)
    abreast.follow(torch.zeros(3, 4, dtype=torch.int64))
    generator = torch.Generator().manual_seed(1)
    for _ in range(6):
        ids = torch.randint(3, 23, (12,), generator=generator)
        expected = model.decode(ids[:, None], memory[hypotheses], mask[hypotheses], in_rows)
        close(abreast(ids), expected[:, 0])
        parents = torch.randint(0, 4, (3, 4), generator=generator)
        abreast.follow(parents)
        in_rows.reorder((torch.arange(3)[:, None] * 4 + parents).flatten())


@pytest.mark.parametrize(
    "rows", [[0, 1], [0, 2], [2], [2, 1], [1, 0, 2], [2, 2, 0, 1, 1]], ids=lambda rows: f"{rows}"
)
@pytest.mark.parametrize("width", [1, 2])
def test_sources_can_be_dropped_repeated_and_exchanged(model, rows, width):
    sources = torch.tensor(rows, dtype=torch.int64)
    memory, mask = model.encode(SOURCES)
    decoder = IncrementalDecoder(model, memory, mask)
    ids = torch.arange(4, 16).view(3, 4)
    of_all = ids.repeat_interleave(width, dim=0)
    decoder(ids[:, 0])
    decoder.follow(torch.zeros(3, width, dtype=torch.int64))
    decoder(of_all[:, 1])
    decoder.reorder(sources)
    chosen = ids[sources].repeat_interleave(width, dim=0)
    decoder(chosen[:, 2])
    plain = model.decode(ids[sources], memory[sources], mask[sources])[:, -1]
    close(decoder(chosen[:, 3]), plain.repeat_interleave(width, dim=0))
    assert decoder.looked.shape == (len(rows) * width, 3, 5)
    close(decoder.looked.sum(dim=-1), torch.ones(len(rows) * width, 3))


def test_a_source_of_which_nothing_is_seen_is_refused(model):
    memory, mask = model.encode(SOURCES)
    mask[1] = False
    with pytest.raises(InputError, match="memory_mask: hides all of a source"):
        IncrementalDecoder(model, memory, mask)


def test_all_stand_at_one_position_so_that_a_limit_is_not_reached_early(model):
    memory, mask = model.encode(torch.tensor([[5, 2]]))
    decoder = IncrementalDecoder(model, memory, mask)
    decoder(torch.tensor([1]))
    for _ in range(16):
        decoder.follow(torch.zeros(1, 3, dtype=torch.int64))
        assert decoder(torch.tensor([4, 5, 6])).isfinite().all()


def test_under_autocast_and_in_double_precision_it_stays_the_model(model):
    memory, mask = model.encode(SOURCES)
    plain = model.decode(BOS[:, None], memory, mask)[:, 0]
    with torch.autocast("cpu", torch.bfloat16):
        narrowed = IncrementalDecoder(model, *model.encode(SOURCES))(BOS)
    assert torch.nn.functional.cosine_similarity(narrowed.float(), plain).min() > 0.999
    doubled = model.double()
    memory, mask = doubled.encode(SOURCES)
    found = IncrementalDecoder(doubled, memory, mask)(BOS)
    torch.testing.assert_close(found, doubled.decode(BOS[:, None], memory, mask)[:, 0], rtol=0, atol=1e-12)
