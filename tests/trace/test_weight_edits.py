"""Edits of weights: they hold inside the block, in its thread, and never touch the model."""

import threading

import pytest
import torch

from glassformer.errors import TraceError
from glassformer.trace import tracing


def zero(value):
    return torch.zeros_like(value)


def test_a_forgotten_word_is_a_row_of_zeros_where_the_embedding_is_read(small_model, src_ids, tgt_ids):
    model = small_model()

    def forget(weight):
        weight[6] = 0.0
        return weight

    before = model.src_embedding.tokens.weight.detach().clone()
    with torch.no_grad(), tracing(model, {"src_embedding.tokens.weight": forget}) as trace:
        edited = model(src_ids, tgt_ids)
    embedded = trace["src_embedding.embedded"]
    assert not embedded[src_ids == 6].any()
    assert torch.equal(embedded[src_ids != 6], before[src_ids[src_ids != 6]])
    assert torch.equal(model.src_embedding.tokens.weight, before), "the model itself is as it was"
    with torch.no_grad():
        model.src_embedding.tokens.weight[6] = 0.0
        assert torch.equal(edited, model(src_ids, tgt_ids)), "an edit does what a change of the weight would do"


def test_tied_weights_are_edited_wherever_they_are_read(small_model, src_ids, tgt_ids):
    model = small_model(tie_embeddings="all", tgt_vocab=23)
    with torch.no_grad(), tracing(model, {"tgt_embedding.tokens.weight": zero}) as trace:
        model(src_ids, tgt_ids)
    assert not trace["src_embedding.embedded"].any()
    assert not trace["output_projection.logits"].any()


@pytest.mark.parametrize(
    ("positions", "table", "shown"),
    [
        ("sinusoidal", "src_embedding.positions.table", "src_embedding.position_vectors"),
        ("learned", "src_embedding.positions.table", "src_embedding.position_vectors"),
        ("relative", "*.relative.key_table", "encoder.layers.0.self_attention.relative.relative_keys"),
        ("rotary", "encoder.*.rotary.sin", None),
    ],
)
def test_position_tables_are_edited_like_weights(small_model, src_ids, tgt_ids, positions, table, shown):
    model = small_model(positions=positions)
    with torch.no_grad():
        plain = model(src_ids, tgt_ids)
        with tracing(model, {table: zero}) as trace:
            edited = model(src_ids, tgt_ids)
    assert not torch.equal(plain, edited)
    assert shown is None or not trace[shown].any()


@pytest.mark.parametrize("name", ["gain", "bias"])
def test_the_norms_weights_can_be_edited_too(small_model, src_ids, tgt_ids, name):
    model = small_model(norm="pre")
    with torch.no_grad(), tracing(model, {f"decoder.final_norm.{name}": zero}) as trace:
        model(src_ids, tgt_ids)
    expected = trace["decoder.final_norm.normalised"] * model.decoder.final_norm.gain if name == "bias" else None
    if expected is None:
        expected = model.decoder.final_norm.bias.expand(3, 7, -1)
    torch.testing.assert_close(trace["decoder.final_norm.output"], expected)


def test_another_thread_sees_the_model_as_it_is(small_model, src_ids, tgt_ids):
    model, outputs = small_model(), []
    with torch.no_grad():
        plain = model(src_ids, tgt_ids)

    def run():
        with torch.no_grad():
            outputs.append(model(src_ids, tgt_ids))

    with tracing(model, {"*.w_1.weight": zero}):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        with torch.no_grad():
            outputs.append(model(src_ids, tgt_ids))
    assert torch.equal(outputs[0], plain)
    assert not torch.equal(outputs[1], plain)


def test_what_fits_neither_tap_nor_weight_is_an_error(small_model, src_ids, tgt_ids):
    model = small_model()
    with (
        pytest.raises(TraceError, match=r"w_9.weight matched no tap that was passed and no weight"),
        tracing(model, {"encoder.layers.0.feed_forward.w_9.weight": zero}),
    ):
        model(src_ids, tgt_ids)
    with (
        pytest.raises(TraceError, match=r"w_1.bias: the edit returned \(30,\)"),
        tracing(model, {"encoder.layers.0.feed_forward.w_1.bias": lambda bias: bias[1:]}),
    ):
        pass
