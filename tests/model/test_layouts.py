"""However a batch is laid out, it passes the same modules and comes to the same: plain rows, beam slots, packed rows."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from glassformer.model import Transformer
from glassformer.model.attention import split_heads
from glassformer.model.cache import RowOrder
from glassformer.model.inference import Precision, for_inference
from glassformer.model.masks import Mask
from glassformer.model.norm import AddAndNorm
from glassformer.model.packing import PackedRows
from glassformer.settings import ModelConfig
from glassformer.trace import tracing

CHOICES = ("positions", "norm", "activation", "autoregressive_sublayer")
GRID = [dict(zip(CHOICES, choices, strict=True)) for choices in product(*map(ModelConfig.choices, CHOICES))]
SOURCES = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0], [11, 2, 0, 0, 0]])
TARGETS = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 9, 0, 0], [1, 10, 11, 12, 0]])
BOS = torch.ones(3, 1, dtype=torch.int64)


@pytest.fixture(params=GRID, ids=lambda choices: "-".join(choices.values()))
def model(request, small_model) -> Transformer:
    return small_model(**request.param, d_v=7, max_length=17)


@pytest.fixture
def one_model(small_model) -> Transformer:
    return small_model(max_length=17)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def in_steps(model: Transformer, cache) -> Tensor:
    """The logits of the targets, one position at a time."""
    memory, mask = model.encode(SOURCES)
    return torch.cat([model.decode(ids[:, None], memory, mask, cache) for ids in TARGETS.unbind(1)], dim=1)


@torch.no_grad()
def test_every_layout_says_the_same(model):
    plain = model(SOURCES, TARGETS)
    close(in_steps(model, model.new_cache()), plain)
    close(in_steps(model, model.new_beam_cache()), plain)
    close(in_steps(for_inference(model, Precision.FLOAT32), model.new_beam_cache()), plain)
    kept = TARGETS != 0
    close(model.output_projection(model.hidden_rows(SOURCES, TARGETS, kept))[0], plain[kept])


@torch.no_grad()
def test_slots_of_one_row_are_what_they_are_as_rows_of_their_own(model):
    memory, mask = model.encode(SOURCES)
    slots, rows = model.new_beam_cache(), model.new_cache()
    close(model.decode(BOS, memory, mask, slots), model.decode(BOS, memory, mask, rows))
    source = torch.arange(3).repeat_interleave(4)
    rows.reorder(source)
    slots.reorder(torch.zeros(3, 4, dtype=torch.int64))
    generator = torch.Generator().manual_seed(1)
    for _ in range(6):
        ids = torch.randint(3, 19, (3, 4), generator=generator)
        expected = model.decode(ids.view(12, 1), memory[source], mask[source], rows)
        close(model.decode(ids, memory, mask, slots), expected.view(3, 4, -1))
        parents = torch.randint(0, 4, (3, 4), generator=generator)
        slots.reorder(parents)
        rows.reorder((torch.arange(3)[:, None] * 4 + parents).flatten())


@pytest.mark.parametrize(
    "rows", [[0, 1], [0, 2], [2], [2, 1], [1, 0, 2], [2, 2, 0, 1, 1]], ids=lambda rows: f"{rows}"
)
@pytest.mark.parametrize("width", [1, 2])
@torch.no_grad()
def test_sources_can_be_dropped_repeated_and_exchanged(one_model, rows, width):
    model, sources = one_model, torch.tensor(rows, dtype=torch.int64)
    memory, mask = model.encode(SOURCES)
    cache, ids = model.new_beam_cache(), torch.arange(4, 16).view(3, 4)

    def step(column: Tensor) -> Tensor:
        return model.decode(column[:, None].expand(-1, cache.slots), memory, mask, cache)

    step(ids[:, 0])
    cache.reorder(torch.zeros(3, width, dtype=torch.int64))
    step(ids[:, 1])
    cache.reorder_sources(RowOrder(sources, 3))
    ids, memory, mask = ids[sources], memory[sources], mask[sources]
    step(ids[:, 2])
    plain = model.decode(ids, memory, mask)[:, -1]
    close(step(ids[:, 3]), plain[:, None].expand(-1, width, -1))


@torch.no_grad()
def test_all_slots_stand_at_one_position_so_that_a_limit_is_not_reached_early(one_model):
    memory, mask = one_model.encode(torch.tensor([[5, 2]]))
    cache = one_model.new_beam_cache()
    one_model.decode(BOS[:1], memory, mask, cache)
    for _ in range(16):
        cache.reorder(torch.zeros(1, 3, dtype=torch.int64))
        assert one_model.decode(torch.tensor([[4, 5, 6]]), memory, mask, cache).isfinite().all()


@torch.no_grad()
def test_a_source_of_which_nothing_is_visible_is_weighed_as_in_the_plain_layout(model):
    memory, mask = model.encode(SOURCES)
    mask[1] = False
    expected = model.decode(BOS, memory, mask)
    assert expected.isfinite().all()
    close(model.decode(BOS, memory, mask, model.new_beam_cache()), expected)


@torch.no_grad()
def test_under_autocast_and_in_double_precision_it_stays_the_model(one_model):
    plain = one_model(SOURCES, BOS)
    with torch.autocast("cpu", torch.bfloat16):
        narrowed = one_model.decode(BOS, *one_model.encode(SOURCES), one_model.new_beam_cache())
    assert nn.functional.cosine_similarity(narrowed.float(), plain, dim=-1).min() > 0.999
    doubled = one_model.double()
    found = doubled.decode(BOS, *doubled.encode(SOURCES), doubled.new_beam_cache())
    torch.testing.assert_close(found, doubled(SOURCES, BOS), rtol=0, atol=1e-12)


def test_a_mask_knows_whether_it_hides_and_whether_a_row_is_empty():
    visible = torch.ones(2, 1, 1, 3, dtype=torch.bool)
    assert Mask.from_visible(visible)[1:3] == (False, False)
    visible[0, ..., 2] = False
    assert Mask.from_visible(visible)[1:3] == (True, False)
    visible[1] = False
    assert Mask.from_visible(visible)[1:3] == (True, True)


@pytest.mark.parametrize("layout", ["plain", "slots", "packed"])
def test_taps_edits_and_hooks_act_in_every_layout(one_model, layout):
    """One pass, one set of modules: nothing that a reader edits or watches is bypassed."""

    def run() -> Tensor:
        if layout == "plain":
            return one_model.hidden(SOURCES, TARGETS)
        if layout == "packed":
            return one_model.hidden_rows(SOURCES, TARGETS, TARGETS != 0)
        return in_steps(one_model, one_model.new_beam_cache())

    before, calls = run(), []
    with tracing(one_model) as trace:
        traced = run()
    assert torch.equal(traced, before)
    names = {step.address.removeprefix("decoder.layers.0.") for step in trace}
    assert {"self_attention.weights", "cross_attention.scores", "feed_forward.inner", "output"} <= names
    with tracing(one_model, {"decoder.layers.0.self_attention.output": torch.zeros_like}):
        assert not torch.allclose(run(), before)
    for module in one_model.decoder.layers[0].modules():
        module.register_forward_hook(lambda module, given, output: calls.append(type(module)))
    assert torch.equal(run(), before)
    watched = {type(module) for module in one_model.decoder.layers[0].modules()}
    assert set(calls) == watched - {AddAndNorm}, "which has two halves and no forward"


SRC_LENGTHS, TGT_LENGTHS = (9, 3, 1, 6, 0), (7, 2, 5, 1, 4)  # one source is empty: its queries attend to nothing


def ids(lengths: tuple[int, ...], vocab: int) -> torch.Tensor:
    places = torch.arange(max(lengths))
    drawn = torch.randint(3, vocab, (len(lengths), max(lengths)))
    return drawn.masked_fill(places >= torch.tensor(lengths)[:, None], 0)


def outputs_and_gradients(model: Transformer, hidden: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    torch.manual_seed(1)
    (hidden * torch.randn_like(hidden)).sum().backward()
    weights = model.named_parameters()
    return hidden.detach(), {name: weight.grad for name, weight in weights if weight.grad is not None}


@pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
@pytest.mark.parametrize(
    "changes",
    [{"norm": "pre"}, {"norm": "post", "attention_bias": True}, {"d_v": 7}, {"d_v": 7, "attention_bias": True}],
)
@pytest.mark.parametrize("fused", [False, True])
def test_outputs_and_gradients_are_those_of_the_padded_form(positions, changes, fused):
    torch.manual_seed(2)
    sizes = {"src_vocab": 23, "tgt_vocab": 19, "d_model": 24, "n_heads": 3, "d_ff": 31, "max_length": 40}
    config = ModelConfig(**sizes, **changes, positions=positions, tie_embeddings="target", dropout=0.0,
                         n_encoder_layers=2, n_decoder_layers=2)  # fmt: skip
    model = Transformer(config).double()
    model.use_fused_attention(fused)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    src_ids, tgt_in_ids = ids(SRC_LENGTHS, 23), ids(TGT_LENGTHS, 19)
    kept = tgt_in_ids != 0
    expected = outputs_and_gradients(model, model.hidden(src_ids, tgt_in_ids)[kept])
    found = outputs_and_gradients(model, model.hidden_rows(src_ids, tgt_in_ids, kept)[0])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_packed_heads_stand_where_those_of_the_padded_form_do() -> None:
    kept = torch.arange(5) < torch.tensor([[5], [0], [2]])
    rows, x = PackedRows(kept), torch.randn(3, 5, 4 * 6)
    packed = rows.pack(x)
    heads = rows.pad_heads(split_heads(packed, 4))
    expected = split_heads(x, 4).transpose(1, 2)
    shown = kept[:, None, :, None].expand(3, 4, 5, 6)
    assert torch.equal(heads[shown], expected[shown])
    assert torch.equal(rows.pack_heads(heads).flatten(2), packed)
