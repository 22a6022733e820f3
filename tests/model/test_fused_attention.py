"""The fused kernel may stand in for equation 1: the same outputs and gradients, and traces that still see weights."""

import pytest
import torch

from glassformer.decoding.teacher_forcing import forced_attention
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.masks import Mask
from glassformer.model.positions import Positions
from glassformer.settings import ModelConfig
from glassformer.trace import tracing

POSITIONS = ModelConfig.choices("positions")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def a_source_of_padding_alone(src_ids) -> torch.Tensor:
    """The last row holds no token, so that its queries, and those of cross-attention, may attend to nothing."""
    return torch.where(torch.tensor([[False], [False], [True]]), 0, src_ids)


def outputs_and_gradients(model, src, tgt):
    logits = model(src, tgt)
    return logits, torch.autograd.grad(logits.square().mean(), list(model.parameters()), materialize_grads=True)


@pytest.mark.parametrize("positions", POSITIONS)
def test_outputs_and_gradients_are_those_of_the_plain_lines(
    positions, small_model, a_source_of_padding_alone, tgt_ids
):
    model = small_model(positions=positions, d_v=7)
    expected = outputs_and_gradients(model, a_source_of_padding_alone, tgt_ids)
    model.use_fused_attention()
    found = outputs_and_gradients(model, a_source_of_padding_alone, tgt_ids)
    torch.testing.assert_close(found, expected, **CLOSE)
    assert any(not torch.equal(new, old) for new, old in zip(found[1], expected[1], strict=True)), "nothing was fused"


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_cached_decoding_is_that_of_the_plain_lines(positions, small_model, a_source_of_padding_alone, tgt_ids):
    model = small_model(positions=positions)
    with torch.no_grad():
        expected = model(a_source_of_padding_alone, tgt_ids)
        model.use_fused_attention()
        memory, mask = model.encode(a_source_of_padding_alone)
        cache = model.new_cache()
        found = torch.cat([model.decode(ids[:, None], memory, mask, cache) for ids in tgt_ids.unbind(1)], dim=1)
    torch.testing.assert_close(found, expected, **CLOSE)


def test_a_trace_sees_the_plain_lines_unless_it_asks_for_the_kernel(small_model, src_ids, tgt_ids):
    model = small_model()
    plain = {name.rpartition(".")[2] for name in _addresses(model, src_ids, tgt_ids)}
    model.use_fused_attention()
    assert {name.rpartition(".")[2] for name in _addresses(model, src_ids, tgt_ids)} == plain
    model.use_fused_attention(in_traces=True)
    fused = {name.rpartition(".")[2] for name in _addresses(model, src_ids, tgt_ids)}
    assert plain - fused == {"products", "scores", "masked_scores", "weights"}
    model.use_fused_attention(False)
    assert {name.rpartition(".")[2] for name in _addresses(model, src_ids, tgt_ids)} == plain


def _addresses(model, src_ids, tgt_ids):
    with torch.no_grad(), tracing(model) as trace:
        model(src_ids, tgt_ids)
    return [step.address for step in trace]


def test_a_fused_model_gives_its_attention_and_recording_changes_no_bit(small_model, src_ids, tgt_ids):
    model = small_model()
    model.use_fused_attention(in_traces=True)
    with torch.no_grad():
        expected = model(src_ids, tgt_ids)
        with tracing(model):
            assert torch.equal(model(src_ids, tgt_ids), expected)
    model = small_model()
    outputs = [[5, 6, 2], [7, 2], [8, 9, 10, 2]]
    with torch.no_grad():
        expected = forced_attention(model, src_ids, outputs)
        model.use_fused_attention()
        assert all(map(torch.equal, forced_attention(model, src_ids, outputs), expected))


def test_relative_positions_stay_with_the_plain_lines(small_config):
    attention = MultiHeadAttention(small_config(positions="relative"), uses_positions=True)
    x, mask = torch.randn(2, 5, 26), torch.ones(1, 1, 1, 5, dtype=torch.bool)
    positions = Positions.from_length(5, x.device)
    expected = attention(x, x, Mask.from_visible(mask), positions)
    attention.fused = True
    assert torch.equal(attention(x, x, Mask.from_visible(mask), positions), expected)


@pytest.mark.slow
def test_a_fused_model_compiles_to_one_graph(small_model, src_ids, tgt_ids, unchecked):
    model = small_model()
    with torch.no_grad():
        expected = model(src_ids, tgt_ids)
        model.use_fused_attention()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(src_ids, tgt_ids), expected, **CLOSE)
