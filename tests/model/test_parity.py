"""The model against independent formulations: PyTorch's own, the formulas in plain loops, and complex numbers."""

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.model import Transformer
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.masks import Mask
from glassformer.model.norm import LayerNorm
from glassformer.model.positions import (
    LearnedPositions,
    Positions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)
from glassformer.settings import ModelConfig

FLOATS = (torch.float32, torch.float64, torch.bfloat16)


def torch_transformer(config: ModelConfig) -> nn.Transformer:
    """PyTorch's Transformer of the same shape, with last norms in pre-norm only, as here."""
    common = {
        "d_model": config.d_model, "nhead": config.n_heads, "dim_feedforward": config.d_ff, "dropout": 0.0,
        "activation": config.activation, "batch_first": True, "norm_first": config.norm == "pre",
    }  # fmt: skip
    last = [nn.LayerNorm(config.d_model) if config.norm == "pre" else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**common), config.n_encoder_layers, last[0], enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**common), config.n_decoder_layers, last[1])
    return nn.Transformer(**common, custom_encoder=encoder, custom_decoder=decoder)


def affine(ours: nn.Module, theirs: nn.Module) -> Iterator[tuple[Tensor, Tensor, slice]]:
    weight = ours.gain if isinstance(ours, LayerNorm) else ours.weight
    yield weight, theirs.weight, slice(None)
    yield ours.bias, theirs.bias, slice(None)


def attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Iterator[tuple[Tensor, Tensor, slice]]:
    width = theirs.embed_dim
    for index, linear in enumerate((ours.w_q, ours.w_k, ours.w_v)):
        rows = slice(index * width, (index + 1) * width)
        yield linear.weight, theirs.in_proj_weight, rows
        yield linear.bias, theirs.in_proj_bias, rows
    yield from affine(ours.w_o, theirs.out_proj)


def layer(ours: nn.Module, theirs: nn.Module) -> Iterator[tuple[Tensor, Tensor, slice]]:
    norms = [ours.self_attention_add_norm, ours.feed_forward_add_norm]
    yield from attention(ours.self_attention, theirs.self_attn)
    if hasattr(ours, "cross_attention"):
        yield from attention(ours.cross_attention, theirs.multihead_attn)
        norms.insert(1, ours.cross_attention_add_norm)
    yield from affine(ours.feed_forward.w_1, theirs.linear1)
    yield from affine(ours.feed_forward.w_2, theirs.linear2)
    for add_norm, norm in zip(norms, (theirs.norm1, theirs.norm2, getattr(theirs, "norm3", None)), strict=False):
        yield from affine(add_norm.norm, norm)


def pairs(ours: Transformer, theirs: nn.Transformer) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """Each of our parameters inside the stacks, theirs that holds it, and the rows it has there."""
    for our_stack, their_stack in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for our_layer, their_layer in zip(our_stack.layers, their_stack.layers, strict=True):
            yield from layer(our_layer, their_layer)
        if our_stack.final_norm is not None:
            yield from affine(our_stack.final_norm, their_stack.norm)


@pytest.mark.parametrize("norm", ModelConfig.choices("norm"))
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_outputs_and_all_gradients_equal_those_of_torch_nn_transformer(
    norm, activation, small_model, src_ids, tgt_ids
):
    ours = small_model(
        norm=norm, activation=activation, d_model=26, n_heads=2, d_k=0, attention_bias=True, output_bias=True,
        tie_embeddings="none", n_decoder_layers=3,
    )  # fmt: skip
    theirs = torch_transformer(ours.config)
    with torch.no_grad():
        for our_parameter, their_parameter, rows in pairs(ours, theirs):
            their_parameter[rows] = our_parameter
    outer = [ours.src_embedding.tokens, ours.tgt_embedding.tokens, ours.output_projection.linear]
    src_table, tgt_table, out_weight = (module.weight.detach().clone().requires_grad_() for module in outer)
    out_bias = outer[2].bias.detach().clone().requires_grad_()

    def embedded(ids: Tensor, table: Tensor) -> Tensor:
        positions = [[position_value(p, i, 26) for i in range(26)] for p in range(ids.shape[1])]
        return functional.embedding(ids, table, padding_idx=0) * math.sqrt(26) + torch.tensor(positions)

    padding = src_ids == 0
    states = theirs(
        embedded(src_ids, src_table), embedded(tgt_ids, tgt_table), src_key_padding_mask=padding,
        memory_key_padding_mask=padding, tgt_mask=torch.ones(7, 7, dtype=torch.bool).triu(1),
    )  # fmt: skip
    expected = states @ out_weight.T + out_bias
    found = ours(src_ids, tgt_ids)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

    labels = tgt_ids.roll(-1, 1)
    for logits in (found, expected):
        functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0).backward()
    compared = {id(p) for p in (outer[0].weight, outer[1].weight, outer[2].weight, outer[2].bias)}
    for mine, reference in zip(
        [*(m.weight for m in outer), outer[2].bias], [src_table, tgt_table, out_weight, out_bias], strict=True
    ):
        torch.testing.assert_close(mine.grad, reference.grad, rtol=1e-5, atol=1e-5)
    for our_parameter, their_parameter, rows in pairs(ours, theirs):
        torch.testing.assert_close(our_parameter.grad, their_parameter.grad[rows], rtol=1e-5, atol=1e-5)
        compared.add(id(our_parameter))
    assert compared == {id(parameter) for parameter in ours.parameters()}, (
        "a parameter was left out of the comparison"
    )


def test_head_i_reads_its_own_columns_of_the_projections(small_config):
    """Figure 2, right, one head at a time with the paper's W_i, and W_O on their concatenation."""
    config = small_config(d_k=4, d_v=7, attention_bias=False)
    attention = MultiHeadAttention(config, uses_positions=False)
    query, memory = torch.randn(2, 3, 26), torch.randn(2, 5, 26)
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    heads = []
    for head in range(config.n_heads):
        w_q, w_k = (w.weight[4 * head : 4 * head + 4].T for w in (attention.w_q, attention.w_k))
        w_v = attention.w_v.weight[7 * head : 7 * head + 7].T
        heads.append(((query @ w_q) @ (memory @ w_k).mT / math.sqrt(4)).softmax(-1) @ (memory @ w_v))
    expected = torch.cat(heads, dim=-1) @ attention.w_o.weight.T
    torch.testing.assert_close(attention(query, memory, Mask.from_visible(mask)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("start", [0, 5])
def test_rotary_turns_each_pair_as_a_complex_number(start, small_config):
    config = small_config(positions="rotary", d_k=6)
    x = torch.randn(2, 3, 7, 6)
    as_complex = torch.view_as_complex(x.double().unflatten(-1, (3, 2)))
    turns = [[complex(0, (start + p) / 10_000 ** (2 * i / 6)) for i in range(3)] for p in range(7)]
    expected = torch.view_as_real(as_complex * torch.tensor(turns, dtype=torch.complex128).exp()).flatten(-2)
    torch.testing.assert_close(
        RotaryPositions(config)(x, torch.arange(start, start + 7)), expected.float(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(("x_type", "table_type"), list(itertools.product(FLOATS, FLOATS)))
def test_rotary_written_out_for_a_compiler_is_the_same_product(x_type, table_type, small_config, monkeypatch):
    """Values and gradients, of queries that lie in memory as a projection leaves them."""
    rotary = RotaryPositions(small_config(positions="rotary", d_k=6)).to(table_type)
    x = torch.randn(2, 7, 3 * 6 + 5, dtype=x_type, requires_grad=True)
    heads = x[..., :18].unflatten(-1, (3, 6)).transpose(1, 2)
    turned = []
    for is_compiling in (True, False):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda answer=is_compiling: answer)
        found = rotary(heads, torch.arange(2, 9))
        turned.append((found, *torch.autograd.grad(found.square().sum(), x, retain_graph=True)))
    assert turned[0][0].dtype == turned[1][0].dtype
    tolerance = 2e-2 if torch.bfloat16 in {x_type, table_type} else 1e-5
    torch.testing.assert_close(turned[1], turned[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n_queries", [7, 2])
def test_relative_positions_equal_the_loops_of_shaw_et_al(n_queries, small_config):
    """Equations 3 and 4 of Shaw et al. 2018, one query, one key, one head at a time; the queries stand last."""
    n_heads, n_keys, d_k, d_v, clip = 3, 7, 10, 5, 2
    attention = MultiHeadAttention(
        small_config(positions="relative", d_v=d_v, relative_clip=clip), uses_positions=True
    )
    q, k, v = (torch.randn(2, n_heads, n, d) for n, d in ((n_queries, d_k), (n_keys, d_k), (n_keys, d_v)))
    keys = torch.arange(n_keys)
    visible = torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool)
    found = attention.attend(q, k, v, Mask.from_visible(visible), Positions(keys[n_keys - n_queries :], keys))
    w_K, w_V = attention.relative.key_table, attention.relative.value_table
    expected = torch.empty(2, n_heads, n_queries, d_v)
    for b in range(2):
        for h in range(n_heads):
            for row in range(n_queries):
                i = n_keys - n_queries + row
                at = [max(-clip, min(clip, j - i)) + clip for j in range(n_keys)]
                e = [q[b, h, row] @ (k[b, h, j] + w_K[at[j]]) / math.sqrt(d_k) for j in range(n_keys)]
                alpha = torch.stack(e).softmax(0)
                expected[b, h, row] = sum(alpha[j] * (v[b, h, j] + w_V[at[j]]) for j in range(n_keys))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_relative_tables_reach_exactly_to_the_clip(small_config):
    relative = RelativePositions(small_config(positions="relative", relative_clip=3))
    assert relative.key_table.shape == (7, 10)
    keys = torch.arange(5)
    assert relative._between(Positions(keys, keys))[0].tolist() == [3, 4, 5, 6, 6]
    assert relative._between(Positions(keys[4:], keys)).tolist() == [[0, 0, 1, 2, 3]]


def position_value(position: int, index: int, width: int) -> float:
    """PE(pos, 2i) = sin, PE(pos, 2i + 1) = cos of pos / 10000^(2i / width)."""
    angle = position / 10_000 ** ((index - index % 2) / width)
    return math.cos(angle) if index % 2 else math.sin(angle)


def test_sinusoidal_table_is_the_papers_formula_interleaved(small_config):
    table = SinusoidalPositions(small_config(d_model=22, max_length=1009))(torch.arange(1009))
    expected = torch.tensor([[position_value(p, i, 22) for i in range(22)] for p in range(1009)])
    torch.testing.assert_close(table, expected, rtol=0, atol=1e-7)
    assert table[0].tolist() == [0.0, 1.0] * 11, "sines and cosines take turns; they do not lie in two halves"


@pytest.mark.parametrize("kind", [SinusoidalPositions, LearnedPositions])
def test_positions_are_the_rows_of_the_whole_table(kind, small_config):
    positions = kind(small_config())
    assert torch.equal(positions(torch.tensor([5, 11, 5])), positions(torch.arange(37))[[5, 11, 5]])


def test_layer_norm_is_its_formula_with_the_biased_variance(small_config):
    norm, x = LayerNorm(small_config(norm_eps=1e-3)), 3 * torch.randn(2, 5, 26) + 1
    with torch.no_grad():
        norm.gain.normal_()
        norm.bias.normal_()
    centred = x - x.mean(-1, keepdim=True)
    expected = norm.gain * centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt() + norm.bias
    torch.testing.assert_close(norm(x), expected, rtol=1e-5, atol=1e-5)
