"""Parts of a logit, the lens, hidden tokens, patches and integrated gradients state what is so."""

import importlib

import pytest
import torch

from glassformer.errors import TraceError
from glassformer.explain.attribution import (
    attribution_patching,
    direct_logit_attribution,
    integrated_gradients,
    logit_lens,
    occlusion,
    patch_sweep,
    path_patching,
)
from glassformer.explain.recording.recording import record_pass
from glassformer.model.norm import LayerNorm
from glassformer.trace import tracing

SRC_IDS, TGT_IDS, POSITION, TOKEN = torch.tensor([[5, 6, 7, 8, 2]]), torch.tensor([[1, 9, 4, 5, 8]]), 3, 11
ENCODER_STREAM = [f"encoder.layers.{layer}.output" for layer in range(2)]


def test_the_lens_and_the_parts_end_in_the_models_own_logits_in_every_configuration(
    small_model, options, every_option
):
    for choices in options:
        model = small_model(**choices)
        trace = record_pass(model, SRC_IDS, TGT_IDS)
        (*_, last) = logit_lens(model, trace).values()
        torch.testing.assert_close(last, trace["output_projection.logits"], rtol=1e-5, atol=1e-5)
    for choices in every_option:
        model = small_model(**choices)
        trace = record_pass(model, SRC_IDS, TGT_IDS)
        parts = direct_logit_attribution(model, trace, POSITION, TOKEN)
        logit = float(trace["output_projection.logits"][0, POSITION, TOKEN])
        assert sum(part.value for part in parts) == pytest.approx(logit, abs=1e-4), choices
        assert len({(part.address, part.head) for part in parts}) == len(parts)


def test_a_hidden_source_token_is_one_that_the_mask_hides(small_model) -> None:
    model = small_model()
    falls = occlusion(model, SRC_IDS, TGT_IDS, TOKEN)
    with torch.no_grad():
        plain = model(SRC_IDS, TGT_IDS)[0, -1].log_softmax(-1)
        with tracing(model, {"src_mask": lambda mask: mask & (torch.arange(5) != 2)}, only=""):
            hidden = model(SRC_IDS, TGT_IDS)[0, -1].log_softmax(-1)
    assert float(falls[2]) == pytest.approx(float((plain - hidden)[TOKEN]), abs=1e-5)
    assert falls.shape == (5,)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_heads_part_is_what_the_logit_loses_without_it_where_all_else_is_held(small_model, monkeypatch, norm):
    model = small_model(norm=norm, attention_bias=True, output_bias=True)
    trace = record_pass(model, SRC_IDS, TGT_IDS)

    def forward(self: LayerNorm, x: torch.Tensor) -> torch.Tensor:
        path = next(name for name, module in model.named_modules() if module is self)
        deviation = (trace[f"{path}.variance"] + self.eps).sqrt()[..., None]
        return self.gain * (x - x.mean(-1, keepdim=True)) / deviation + self.bias

    chosen = "decoder.layers.0.cross_attention"
    held = {
        step.address: lambda _, value=step.value: value.clone()
        for step in trace.select("decoder.layers.*.output")
        if step.address.endswith(("_attention.output", "feed_forward.output")) and not step.address.startswith(chosen)
    }

    def silence(heads: torch.Tensor) -> torch.Tensor:
        heads[:, 1] = 0.0
        return heads

    monkeypatch.setattr(LayerNorm, "forward", forward)
    without = record_pass(model, SRC_IDS, TGT_IDS, edits={**held, f"{chosen}.heads": silence})
    lost = (trace["output_projection.logits"] - without["output_projection.logits"])[0, POSITION, TOKEN]
    parts = direct_logit_attribution(model, trace, POSITION, TOKEN)
    (part,) = [one for one in parts if (one.address, one.head) == (chosen, 1)]
    assert part.value == pytest.approx(float(lost), abs=1e-5)
    assert abs(part.value) > 1e-3


def test_patching_all_of_a_layer_position_by_position(small_model) -> None:
    model, other = small_model(), torch.tensor([[9, 4, 12, 8, 2]])
    source = record_pass(model, other, TGT_IDS)

    def metric(logits: torch.Tensor) -> torch.Tensor:
        return logits[:, -1, TOKEN]

    found = patch_sweep(model, source, SRC_IDS, TGT_IDS, metric, ENCODER_STREAM)
    assert found.shape == (2, 5)

    def patch(value: torch.Tensor) -> torch.Tensor:
        value[:, 3] = source["encoder.layers.1.output"][:, 3]
        return value

    with torch.no_grad(), tracing(model, {"encoder.layers.1.output": patch}, only=""):
        expected = metric(model(SRC_IDS, TGT_IDS))
    assert float(found[1, 3]) == pytest.approx(float(expected), abs=1e-5)
    with torch.no_grad():
        plain = metric(model(SRC_IDS, TGT_IDS))
    unchanged = patch_sweep(model, record_pass(model, SRC_IDS, TGT_IDS), SRC_IDS, TGT_IDS, metric, ENCODER_STREAM)
    torch.testing.assert_close(unchanged, plain.expand(2, 5), rtol=0, atol=1e-5)


def test_patching_refuses_another_length_and_an_address_that_is_not_there(small_model) -> None:
    model = small_model()
    source = record_pass(model, torch.tensor([[9, 4, 2]]), TGT_IDS)
    with pytest.raises(TraceError, match="two sentences with as many tokens"):
        patch_sweep(model, source, SRC_IDS, TGT_IDS, lambda logits: logits[:, -1, 0], ENCODER_STREAM)
    with pytest.raises(TraceError, match="no such step"):
        patch_sweep(model, source, SRC_IDS, TGT_IDS, lambda logits: logits[:, -1, 0], ["encoder.layers.7.output"])


def test_integrated_gradients_add_up_to_the_difference_of_both_ends(small_model) -> None:
    model = small_model()
    found = integrated_gradients(model, SRC_IDS, TGT_IDS, TOKEN, steps=400)
    with torch.no_grad():
        whole = model(SRC_IDS, TGT_IDS)[0, -1].log_softmax(-1)[TOKEN]
        with tracing(model, {"src_embedding.embedded": torch.zeros_like}, only=""):
            empty = model(SRC_IDS, TGT_IDS)[0, -1].log_softmax(-1)[TOKEN]
    assert found.shape == (5,)
    assert float(found.sum()) == pytest.approx(float(whole - empty), abs=2e-3)
    assert all(parameter.grad is None for parameter in model.parameters())


def metric(logits: torch.Tensor) -> torch.Tensor:
    return logits[:, -1, TOKEN]


OTHER_IDS, HEADS = torch.tensor([[9, 4, 12, 8, 2]]), "encoder.layers.0.self_attention.heads"


def test_patching_heads_one_by_one(small_model) -> None:
    model = small_model()
    source = record_pass(model, OTHER_IDS, TGT_IDS)
    found = patch_sweep(model, source, SRC_IDS, TGT_IDS, metric, [HEADS])

    def patch(value: torch.Tensor) -> torch.Tensor:
        value[:, 1] = source[HEADS][:, 1]
        return value

    expected = record_pass(model, SRC_IDS, TGT_IDS, edits={HEADS: patch})["output_projection.logits"]
    assert found.shape == (1, model.config.n_heads)
    assert float(found[0, 1]) == pytest.approx(float(metric(expected)), abs=1e-5)


@pytest.mark.parametrize("addresses", [ENCODER_STREAM, [HEADS]])
def test_attribution_patching_is_the_slope_of_a_small_patch(small_model, addresses) -> None:
    model = small_model().double()
    source, plain = record_pass(model, OTHER_IDS, TGT_IDS), record_pass(model, SRC_IDS, TGT_IDS)
    found = attribution_patching(model, source, SRC_IDS, TGT_IDS, metric, addresses)
    for row, address in enumerate(addresses):
        for position in range(found.shape[1]):
            ends = []
            for share in (1e-5, -1e-5):

                def patch(value: torch.Tensor) -> torch.Tensor:
                    value[:, position] += share * (source[address] - plain[address])[:, position]  # noqa: B023
                    return value

                moved = record_pass(model, SRC_IDS, TGT_IDS, edits={address: patch})
                ends.append(float(metric(moved["output_projection.logits"])))
            assert float(found[row, position]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_path_patching_is_what_the_receiver_computes_from_the_other_head(small_model) -> None:
    model = small_model(norm="pre")
    source, plain = record_pass(model, OTHER_IDS, TGT_IDS), record_pass(model, SRC_IDS, TGT_IDS)
    receiver, layer = "encoder.layers.1.self_attention.q", model.encoder.layers[1]
    found = path_patching(model, source, SRC_IDS, TGT_IDS, metric, HEADS, receiver, head=1)
    with torch.no_grad():  # by hand: the stream before layer 1 changes by what head 1 writes
        changed = plain[HEADS].clone()
        changed[:, 1] = source[HEADS][:, 1]
        written = (changed - plain[HEADS]).transpose(1, 2).flatten(2) @ model.encoder.layers[
            0
        ].self_attention.w_o.weight.T
        stream = plain["encoder.layers.0.output"] + written
        q = layer.self_attention.w_q(layer.self_attention_add_norm.norm(stream))
        q = q.unflatten(-1, (model.config.n_heads, -1)).transpose(1, 2)
    expected = record_pass(model, SRC_IDS, TGT_IDS, edits={receiver: lambda _: q.clone()})["output_projection.logits"]
    assert float(found) == pytest.approx(float(metric(expected)), abs=1e-5)
    assert float(found) != pytest.approx(float(metric(plain["output_projection.logits"])), abs=1e-6)


def test_all_paths_from_the_last_head_to_the_logits_are_the_patch_itself(small_model) -> None:
    model, last = small_model(norm="post"), "decoder.layers.1.feed_forward.output"
    source = record_pass(model, OTHER_IDS, TGT_IDS)
    found = path_patching(model, source, SRC_IDS, TGT_IDS, metric, last, "output_projection.logits")
    patched = record_pass(model, SRC_IDS, TGT_IDS, edits={last: lambda _: source[last].clone()})
    assert float(found) == pytest.approx(float(metric(patched["output_projection.logits"])), abs=1e-5)


@pytest.mark.parametrize("explain", [occlusion, integrated_gradients])
def test_a_batch_with_padding_is_its_sentences_one_by_one(small_model, explain) -> None:
    model, pad = small_model(), small_model().config.pad_id
    src_ids = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, pad, pad]])
    tgt_ids = torch.tensor([[1, 9, pad], [1, 4, 5]])
    found = explain(model, src_ids, tgt_ids, [TOKEN, 7])
    torch.testing.assert_close(found[0], explain(model, src_ids[:1], tgt_ids[:1, :2], TOKEN))
    torch.testing.assert_close(found[1, :3], explain(model, src_ids[1:, :3], tgt_ids[1:], 7))
    assert found[1, 3:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("explain", [occlusion, integrated_gradients])
def test_one_id_for_a_batch_is_refused(small_model, explain) -> None:
    src_ids, tgt_ids = SRC_IDS.expand(2, -1), TGT_IDS.expand(2, -1)
    for wrong in (TOKEN, [TOKEN], [TOKEN] * 3):
        with pytest.raises(TraceError, match="expected one id for one sentence, or a list with an id for each"):
            explain(small_model(), src_ids, tgt_ids, wrong)


@pytest.mark.parametrize("wrong", [{"position": 99}, {"position": -1}, {"token_id": 99_999}, {"row": 1}])
def test_parts_of_a_logit_that_is_not_there(small_model, wrong) -> None:
    model = small_model()
    trace = record_pass(model, SRC_IDS, TGT_IDS)
    name, value = next(iter(wrong.items()))
    with pytest.raises(TraceError, match=f"{name}: found {value}, expected 0 to"):
        direct_logit_attribution(model, trace, **{"position": POSITION, "token_id": TOKEN} | wrong)


def test_the_module_is_imported_as_the_docs_say() -> None:
    attribution = importlib.import_module("glassformer.explain.attribution")
    assert all(callable(getattr(attribution, name)) for name in attribution.__all__ if name != "Metric")
