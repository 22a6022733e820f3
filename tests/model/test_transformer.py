"""The whole model: its sizes against the literature, tying, starting values, dropout, one step, and compilation."""

import copy
import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from glassformer.checkpoint import load_weights, weights_of
from glassformer.model import Transformer
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.dropout import Dropout
from glassformer.model.layers import FeedForward
from glassformer.model.norm import LayerNorm
from glassformer.settings import ModelConfig
from glassformer.trace import tracing


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
def test_a_model_without_values_has_the_names_of_the_model_and_is_it_once_weights_are_copied(positions):
    """It is how every run is loaded: the tables are computed, tied matrices are one, and no random number is drawn."""
    config = ModelConfig.tiny(d_model=24, n_heads=2, d_ff=7, src_vocab=11, tgt_vocab=11, positions=positions)
    model, random_state = Transformer(config), torch.get_rng_state()
    again = Transformer.without_values(config, "cpu")
    assert torch.equal(torch.get_rng_state(), random_state)
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert all(parameter.requires_grad for parameter in again.parameters())
    load_weights(again, weights_of(model), Path("weights"))
    for (name, expected), (_, found) in zip(model.named_buffers(), again.named_buffers(), strict=True):
        assert torch.equal(found, expected), name
    src_ids, tgt_in_ids = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]), torch.tensor([[1, 8, 9], [1, 3, 4]])
    assert torch.equal(again.eval()(src_ids, tgt_in_ids), model.eval()(src_ids, tgt_in_ids))

    def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
        return {name: tuple(one.shape) for name, one in (*model.named_parameters(), *model.named_buffers())}

    empty = Transformer.without_values(config)
    assert shapes(empty) == shapes(Transformer(config))
    assert {one.device.type for one in (*empty.parameters(), *empty.buffers())} == {"meta"}
    assert {one.dtype for one in (*empty.parameters(), *empty.buffers())} == {torch.float32}


def test_parameter_counts_are_those_of_the_walkthrough_and_those_worked_by_hand(small_config):
    model = Transformer.without_values(ModelConfig.walkthrough())
    assert size(model) == 44_312_696
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    norms = [module for module in model.modules() if isinstance(module, LayerNorm)]
    feed_forwards = [module for module in model.modules() if isinstance(module, FeedForward)]
    assert [size(module) for module in attentions] == [1_050_624] * 18
    assert [size(module) for module in norms] == [1_024] * 30
    assert [size(module) for module in feed_forwards] == [2_099_712] * 12
    assert size(model.src_embedding) == 51_200
    assert size(model.tgt_embedding) == 61_440
    assert size(model.output_projection) == 61_560
    # d_model 26, 3 heads, d_k 10, d_v 7, d_ff 31, 2 + 2 layers, no biases in attention, one matrix of 19 ids.
    config = small_config(d_v=7, tie_embeddings="all", src_vocab=19)
    attention = 26 * 30 + 26 * 30 + 26 * 21 + 21 * 26
    feed_forward = 26 * 31 + 31 + 31 * 26 + 26
    norm = 2 * 26
    expected = 19 * 26 + 2 * (attention + feed_forward + 2 * norm) + 2 * (2 * attention + feed_forward + 3 * norm)
    assert size(Transformer(config)) == expected
    assert (
        size(Transformer(small_config(d_v=7, tie_embeddings="all", src_vocab=19, norm="pre"))) == expected + 2 * norm
    )


@pytest.mark.parametrize(
    ("name", "d_model", "d_ff", "heads", "layers", "dropout"),
    [("tiny", 128, 256, 4, 4, 0.3), ("small", 256, 1024, 4, 3, 0.1), ("base", 512, 2048, 8, 6, 0.1), ("big", 1024, 4096, 16, 6, 0.3)],
)  # fmt: skip
def test_named_configurations_have_the_sizes_of_their_source(*, name, d_model, d_ff, heads, layers, dropout):
    config = getattr(ModelConfig, name)()
    assert (config.d_model, config.d_ff, config.n_heads, config.dropout) == (d_model, d_ff, heads, dropout)
    assert (config.n_encoder_layers, config.n_decoder_layers) == (layers, layers)
    assert config.d_k == config.d_v == d_model // heads


@pytest.mark.parametrize(("name", "millions"), [("base", 65), ("big", 213)])
def test_base_and_big_come_to_the_millions_of_parameters_in_table_3(name, millions):
    assert size(Transformer.without_values(ModelConfig.from_name(name))) == pytest.approx(millions * 1e6, rel=0.04)


def test_tying_shares_one_storage_and_not_a_copy(small_model):
    def storages(model: Transformer) -> list[int]:
        modules = (model.src_embedding.tokens, model.tgt_embedding.tokens, model.output_projection.linear)
        return [module.weight.data_ptr() for module in modules]

    for tie, distinct in (("all", 1), ("target", 2), ("none", 3)):
        model = small_model(tie_embeddings=tie, tgt_vocab=23)
        for each in (model, copy.deepcopy(model)):
            assert len(set(storages(each))) == distinct, tie
    src, tgt, out = storages(small_model(tie_embeddings="target"))
    assert tgt == out != src


def test_tying_survives_saving_and_loading(small_model, src_ids, tgt_ids):
    trained, fresh = small_model(tie_embeddings="all", tgt_vocab=23), small_model(tie_embeddings="all", tgt_vocab=23)
    fresh.load_state_dict(trained.state_dict())
    assert fresh.src_embedding.tokens.weight is fresh.output_projection.linear.weight
    assert torch.equal(fresh(src_ids, tgt_ids), trained(src_ids, tgt_ids))


@pytest.mark.parametrize("scale_embedding", [True, False])
@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_a_new_model_neither_whispers_nor_shouts(scale_embedding, tie):
    """At the start the first loss is near that of the uniform distribution, whatever is tied and scaled."""
    model = Transformer(
        ModelConfig.tiny(src_vocab=211, tgt_vocab=211, tie_embeddings=tie, scale_embedding=scale_embedding)
    )
    ids = torch.randint(3, 211, (5, 13))
    loss = functional.cross_entropy(model.eval()(ids, ids).flatten(0, 1), torch.randint(3, 211, (65,)))
    assert math.log(211) - 0.5 < loss < math.log(211) + 1.5
    for embedding in (model.src_embedding, model.tgt_embedding):
        assert torch.count_nonzero(embedding.tokens.weight[0]) == 0, "the vector of padding starts at zero"


@pytest.mark.slow
def test_attention_begins_as_large_as_torchs_packed_projections_and_its_output():
    ours, theirs = Transformer(ModelConfig.base()), nn.MultiheadAttention(512, 8)
    assert theirs.in_proj_weight is not None
    attention = [module for module in ours.modules() if isinstance(module, MultiHeadAttention)]
    assert len(attention) == 18
    for module in attention:
        for projection in (module.w_q, module.w_k, module.w_v):
            largest = projection.weight.abs().max().item()
            assert largest == pytest.approx(theirs.in_proj_weight.abs().max().item(), rel=0.01)
            assert largest == pytest.approx(math.sqrt(6 / (512 + 3 * 512)), rel=0.01)
        assert module.w_o.weight.abs().max().item() == pytest.approx(math.sqrt(6 / (512 + 512)), rel=0.01)


def test_dropout_works_in_training_and_rests_in_evaluation(small_model, src_ids, tgt_ids):
    model = small_model(dropout=0.3)
    assert torch.equal(model(src_ids, tgt_ids), model(src_ids, tgt_ids))
    model.train()
    assert not torch.equal(model(src_ids, tgt_ids), model(src_ids, tgt_ids))


def test_dropout_stands_where_section_5_4_puts_it_and_nowhere_else(small_config):
    """On the sum of embeddings and positions, and on each sublayer's output before it is added."""
    model = Transformer(small_config(dropout=0.3))
    places = {name for name, module in model.named_modules() if isinstance(module, Dropout)}
    encoder = {
        f"encoder.layers.{i}.{part}_add_norm.dropout" for i in range(2) for part in ("self_attention", "feed_forward")
    }
    decoder = {
        f"decoder.layers.{i}.{part}_add_norm.dropout"
        for i in range(2)
        for part in ("self_attention", "cross_attention", "feed_forward")
    }
    assert places == encoder | decoder | {"src_embedding.dropout", "tgt_embedding.dropout"}


def test_dropout_of_everything_from_a_sublayer_leaves_the_way_round_it(small_model):
    model = small_model(dropout=0.3, norm="pre")
    add_norm = model.encoder.layers[0].feed_forward_add_norm.train()
    add_norm.dropout.p = 1.0
    x = torch.randn(2, 5, 26)
    assert torch.equal(add_norm.after(x, torch.randn(2, 5, 26)), x)


@pytest.mark.parametrize("norm", ModelConfig.choices("norm"))
@pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
def test_one_training_step_moves_every_parameter_by_a_finite_amount_and_lowers_the_loss(
    norm, positions, small_config, src_ids, tgt_ids
):
    model = Transformer(
        small_config(norm=norm, positions=positions, attention_bias=True, output_bias=True, dropout=0.1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    def loss() -> torch.Tensor:
        logits = model(src_ids, tgt_ids[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tgt_ids[:, 1:].flatten(), ignore_index=0)

    model.train()
    loss().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{name} takes no part"
        assert parameter.grad.isfinite().all(), name
    model.eval()
    with torch.no_grad():
        start = loss()
    optimizer.step()
    with torch.no_grad():
        assert loss() < start
    # The bias of the keys moves every score of a row alike, so softmax takes it out again.
    still = {name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])}
    assert {name for name in still if not name.endswith("w_k.bias")} == set()


def test_bfloat16_autocast_keeps_norms_in_float32_and_stays_near(small_model, src_ids, tgt_ids):
    model = small_model()
    with torch.no_grad():
        exact = model(src_ids, tgt_ids)
        with torch.autocast("cpu", dtype=torch.bfloat16), tracing(model) as trace:
            near = model(src_ids, tgt_ids)
    assert {step.value.dtype for step in trace.select("*norm.output")} == {torch.float32}
    torch.testing.assert_close(near.float(), exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    ("norm", "positions"),
    [
        ("post", "sinusoidal"),
        pytest.param("post", "learned", marks=pytest.mark.slow),
        pytest.param("pre", "relative", marks=pytest.mark.slow),
        pytest.param("pre", "rotary", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("unchecked")
@pytest.mark.slow
def test_a_compiled_model_is_one_graph_and_equals_the_eager_one(norm, positions, small_model, src_ids, tgt_ids):
    model = small_model(norm=norm, positions=positions, n_encoder_layers=1, n_decoder_layers=1)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(src_ids, tgt_ids), model(src_ids, tgt_ids), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_compiled_model_has_the_gradients_of_the_eager_one(small_model, src_ids, tgt_ids):
    model = small_model(n_encoder_layers=1, n_decoder_layers=1)
    parameters = list(model.parameters())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(src_ids, tgt_ids).square().mean(), parameters)
    expected = torch.autograd.grad(model(src_ids, tgt_ids).square().mean(), parameters)
    for mine, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("batch", "n_src", "n_tgt"), [(1, 1, 1), (3, 5, 1), (3, 1, 5), (2, 37, 37)])
def test_the_smallest_and_the_longest_inputs_are_taken(batch, n_src, n_tgt, small_model):
    logits = small_model()(torch.full((batch, n_src), 3), torch.full((batch, n_tgt), 3, dtype=torch.int32))
    assert logits.shape == (batch, n_tgt, 19)
    assert logits.isfinite().all()


@pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
def test_a_checkpoint_holds_the_weights_and_nothing_that_follows_from_the_config(small_config, positions):
    model = Transformer(small_config(positions=positions))
    assert set(model.state_dict()) == dict(model.named_parameters(remove_duplicate=False)).keys()


def test_learned_positions_start_as_large_as_embeddings(small_config):
    model = Transformer(small_config(positions="learned", d_model=64, max_length=300))
    assert model.src_embedding.positions.table.std().item() == pytest.approx(64**-0.5, rel=0.05)
