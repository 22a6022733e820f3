"""A model made ready to translate says what the model says: in float32 the same, rounded nearly the same."""

import pytest
import torch
from torch import nn

from glassformer.errors import ConfigError
from glassformer.model import Transformer
from glassformer.model.inference import evaluating, for_inference
from glassformer.model.linears import Bf16Linear, Float32Linear, Int8Linear, Precision, min_int8_weights
from glassformer.settings import ModelConfig

SRC = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
TGT = torch.tensor([[1, 4, 5, 6], [1, 7, 8, 0]])


@pytest.fixture(params=ModelConfig.choices("norm"))
def model(request) -> Transformer:
    torch.manual_seed(5)
    config = ModelConfig(
        src_vocab=29, tgt_vocab=29, d_model=38, n_heads=2, d_k=6, d_v=7, d_ff=67, n_encoder_layers=1,
        n_decoder_layers=2, norm=request.param, attention_bias=request.param == "pre", output_bias=True,
    )  # fmt: skip
    return Transformer(config)


def test_float32_is_the_same_and_cannot_be_trained(model):
    ready = for_inference(model, Precision.FLOAT32)
    model.eval()
    torch.testing.assert_close(ready(SRC, TGT), model(SRC, TGT), rtol=0, atol=1e-5)
    assert not ready.training
    assert not any(parameter.requires_grad for parameter in ready.parameters())
    assert any(parameter.requires_grad for parameter in model.parameters()), "the model itself stays as it was"


@pytest.mark.parametrize(("precision", "least"), [(Precision.BF16, 0.9999), (Precision.INT8, 0.999)])
def test_rounded_products_point_nearly_the_same_way(model, precision, least, monkeypatch):
    monkeypatch.setattr("glassformer.model.inference.min_int8_weights", lambda: 0)
    found, expected = for_inference(model, precision)(SRC, TGT), model.eval()(SRC, TGT)
    alike = nn.functional.cosine_similarity(found, expected, dim=-1)
    assert (alike > least).all(), alike
    assert not torch.equal(found, expected), "nothing was rounded"


def test_a_row_in_int8_depends_on_no_other_row():
    generator = torch.Generator().manual_seed(0)
    linear = Int8Linear(torch.randn(31, 53, generator=generator), torch.randn(31, generator=generator))
    x = torch.randn(7, 53, generator=generator)
    x[3] *= 1000.0
    alone = torch.cat([linear(row[None]) for row in x])
    assert torch.equal(linear(x), alone)


def test_sums_in_int8_do_not_overflow():
    linear = Int8Linear(torch.ones(5, 512), None)
    for sign in (1.0, -1.0):
        torch.testing.assert_close(linear(torch.full((3, 512), sign)), torch.full((3, 5), 512 * sign))


def test_a_row_of_zeros_stays_zero_in_int8():
    for into in (8, 37, 256):  # the kernel's vectors, and what is left of them
        linear = Int8Linear(torch.randn(5, into), torch.randn(5))
        assert torch.equal(linear(torch.zeros(2, into)), linear.bias.expand(2, -1))
        assert torch.equal(linear(torch.full((2, into), 1e-44)), linear.bias.expand(2, -1))


@pytest.mark.parametrize("kind", [Float32Linear, Bf16Linear, Int8Linear])
def test_every_kind_adds_its_bias_and_keeps_the_axes_in_front(kind):
    torch.manual_seed(0)
    linear = nn.Linear(16, 9)
    x = torch.randn(2, 3, 16)
    found = kind(linear.weight.detach(), linear.bias.detach())(x)
    torch.testing.assert_close(found, linear(x), rtol=0, atol=0.05)
    without = kind(linear.weight.detach(), None)(x)
    torch.testing.assert_close(without + linear.bias, found, rtol=0, atol=1e-6)


def test_rounding_to_bytes_from_0_on_is_the_relu():
    generator = torch.Generator().manual_seed(0)
    linear = Int8Linear(torch.randn(31, 53, generator=generator), torch.randn(31, generator=generator))
    x = torch.randn(7, 53, generator=generator)
    x[2] = -x[2].abs()  # nothing is left of this row
    x[3] *= 1000.0
    rectified = linear(x.relu())
    linear.applies_relu = True
    assert nn.functional.cosine_similarity(linear(x), rectified, dim=-1).min() > 0.9995
    assert torch.equal(linear(x)[2], linear.bias)
    assert torch.equal(linear(x), torch.cat([linear(row[None]) for row in x]))


def test_of_the_activations_only_relu_is_left_to_the_rounding(monkeypatch):
    monkeypatch.setattr("glassformer.model.inference.min_int8_weights", lambda: 0)
    for activation in ModelConfig.choices("activation"):
        config = ModelConfig.tiny(src_vocab=29, tgt_vocab=29, d_model=16, d_ff=24, activation=activation)
        feed_forward = for_inference(Transformer(config), Precision.INT8).encoder.layers[0].feed_forward
        assert feed_forward.w_2.applies_relu == (activation == "relu")
        assert not feed_forward.w_1.applies_relu


def test_int8_is_refused_where_there_is_no_kernel(monkeypatch):
    monkeypatch.setattr(type(torch.backends.quantized), "supported_engines", ["qnnpack"])
    with pytest.raises(ConfigError, match=r"precision: found int8.*expected one of float32, bf16"):
        Int8Linear(torch.ones(2, 2), None)


@pytest.mark.parametrize(("has_vnni", "least"), [(True, 2**16), (False, 2**18)])
def test_int8_begins_where_it_pays_on_the_processor(has_vnni, least, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: has_vnni, raising=False)
    assert min_int8_weights() == least


def test_where_pytorch_cannot_tell_the_processor_counts_as_one_without_vnni(monkeypatch):
    monkeypatch.delattr(torch.cpu, "_is_vnni_supported", raising=False)
    assert min_int8_weights() == 2**18


class Doubled(nn.Linear):
    """A linear map of somebody's own, such as one with an adapter."""

    def forward(self, x):
        return 2 * super().forward(x)


def test_what_somebody_put_in_or_watches_is_left_as_it_is(model):
    layer, calls = model.decoder.layers[0], []
    for owner, name in ((layer.self_attention, "w_q"), (layer.feed_forward, "w_1")):
        theirs = Doubled(getattr(owner, name).in_features, getattr(owner, name).out_features)
        setattr(owner, name, theirs)
    layer.cross_attention.w_o.register_forward_hook(lambda *_: calls.append("w_o"))
    layer.register_forward_hook(lambda *_: calls.append("layer"))
    expected = model.eval()(SRC, TGT)
    ready = for_inference(model, Precision.FLOAT32)
    calls.clear()
    torch.testing.assert_close(ready(SRC, TGT), expected, rtol=0, atol=1e-5)
    assert calls == ["w_o", "layer"]


def test_a_module_that_is_put_into_the_copy_runs(model):
    ready = for_inference(model, Precision.FLOAT32)
    before = ready(SRC, TGT)
    ready.decoder.layers[0].feed_forward = nn.Identity()
    assert not torch.allclose(ready(SRC, TGT), before)


def test_in_int8_small_matrices_stay_as_they_are(model):
    kinds = {type(module) for module in for_inference(model, Precision.INT8).modules()}
    assert Float32Linear in kinds
    assert Int8Linear not in kinds


def test_the_model_it_was_made_of_can_go(model):
    ready = for_inference(model, Precision.INT8)
    before = ready(SRC, TGT)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(ready(SRC, TGT), before)


@pytest.mark.parametrize("training", [True, False])
def test_evaluating_leaves_a_model_in_the_mode_that_it_was_in(model, training):
    model.train(training)
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert all(module.training == training for module in model.modules())
