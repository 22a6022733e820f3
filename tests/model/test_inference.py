"""A model made ready to translate says what the model says: in float32 the same, rounded nearly the same."""

import pytest
import torch
from torch import nn

from glassformer.errors import ConfigError
from glassformer.model import Transformer
from glassformer.model.inference import (
    Bf16Linear,
    Float32Linear,
    Precision,
    evaluating,
    for_inference,
    read_precision,
)
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


def test_float32_is_the_same_and_rounded_products_point_nearly_the_same_way(model):
    ready = for_inference(model, Precision.FLOAT32)
    model.eval()
    torch.testing.assert_close(ready(SRC, TGT), model(SRC, TGT), rtol=0, atol=1e-5)
    assert not ready.training
    assert not any(parameter.requires_grad for parameter in ready.parameters())
    assert any(parameter.requires_grad for parameter in model.parameters()), "the model itself stays as it was"
    found, expected = for_inference(model, Precision.BF16)(SRC, TGT), model.eval()(SRC, TGT)
    alike = nn.functional.cosine_similarity(found, expected, dim=-1)
    assert (alike > 0.9999).all(), alike
    assert not torch.equal(found, expected), "nothing was rounded"


@pytest.mark.parametrize("kind", [Float32Linear, Bf16Linear])
def test_every_kind_adds_its_bias_and_keeps_the_axes_in_front(kind):
    torch.manual_seed(0)
    linear = nn.Linear(16, 9)
    x = torch.randn(2, 3, 16)
    found = kind(linear.weight.detach(), linear.bias.detach())(x)
    torch.testing.assert_close(found, linear(x), rtol=0, atol=0.05)
    without = kind(linear.weight.detach(), None)(x)
    torch.testing.assert_close(without + linear.bias, found, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["int8", "float16", "x"])
def test_a_precision_that_pytorch_lacks_is_refused_in_one_sentence(name):
    with pytest.raises(
        ConfigError, match=f"^precision: found '{name}', expected one of float32, bf16, which PyTorch "
    ):
        read_precision(name)


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


def test_the_copy_runs_what_is_put_into_it_and_outlives_its_model(model):
    ready = for_inference(model, Precision.FLOAT32)
    before = ready(SRC, TGT)
    ready.decoder.layers[0].feed_forward = nn.Identity()
    assert not torch.allclose(ready(SRC, TGT), before)
    ready = for_inference(model, Precision.BF16)
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
