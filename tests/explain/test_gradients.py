"""The gradients of a training step are proven twice: backward, step by step, and along a direction from the loss."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from three_sentences import SOURCES, TARGETS

from glassformer.decoding import Translator
from glassformer.explain.entries import derivatives
from glassformer.explain.gradients import SLOPE_TOLERANCE, TOLERANCE, check_slopes
from glassformer.explain.verify import verify_walk
from glassformer.explain.walks import walk_training
from glassformer.model import attention, layers, norm
from glassformer.settings import DecodeConfig, TrainConfig
from glassformer.text import Tokenizer
from glassformer.training.objective import loss


@pytest.fixture
def build(small_model) -> Callable[..., Translator]:
    """A translator of words with a small model of some options."""

    def make(**changes: Any) -> Translator:
        tokenizer = Tokenizer.train("words", [*SOURCES, *TARGETS], 60)
        sizes = {"src_vocab": tokenizer.size, "tgt_vocab": tokenizer.size, "max_length": 200}
        options = DecodeConfig(beam=2, max_length_a=0, max_length_b=3)
        return Translator(small_model(**changes, **sizes), tokenizer, tokenizer, options)

    return make


def scale_gradient(value, factor):
    if value.requires_grad:
        value.register_hook(lambda gradient: factor * gradient)
    return value


def one_per_cent_in_the_loss(monkeypatch):
    original = loss.p_minus_q
    monkeypatch.setattr(loss, "p_minus_q", lambda *args: original(*args).mul_(1.01))


def doubled_in_attention(monkeypatch):
    original = attention.merge_heads
    monkeypatch.setattr(attention, "merge_heads", lambda x: scale_gradient(original(x), 2.0))


def zero_in_attention(monkeypatch):
    original = attention.softmax
    monkeypatch.setattr(attention, "softmax", lambda scores, mask: original(scores.detach(), mask))


def without_smoothing(monkeypatch):
    original = loss.p_minus_q
    monkeypatch.setattr(loss, "p_minus_q", lambda p, targets, _: original(p, targets, 0.0))


def one_per_cent_in_the_network(monkeypatch):
    forward = layers.FeedForward.forward
    monkeypatch.setattr(layers.FeedForward, "forward", lambda self, x: scale_gradient(forward(self, x), 1.01))


def none_for_the_gain(monkeypatch):
    forward = norm.LayerNorm.forward

    def without(self, x):
        gain = self._parameters["gain"]
        gain.requires_grad_(False)
        try:
            return forward(self, x)
        finally:
            gain.requires_grad_(True)

    monkeypatch.setattr(norm.LayerNorm, "forward", without)


def split(found):
    """The checks of steps, and those of slopes."""
    slopes = [check for check in found.gradients if check.tolerance == SLOPE_TOLERANCE]
    return [check for check in found.gradients if check not in slopes], slopes


FAULTS = [
    one_per_cent_in_the_loss, doubled_in_attention, zero_in_attention, without_smoothing, one_per_cent_in_the_network,
    none_for_the_gain,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_false_gradient_is_found_in_both_ways(fault, build, monkeypatch):
    fault(monkeypatch)
    translator = build(n_encoder_layers=1, n_decoder_layers=1)
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=4))
    found = verify_walk(walked, translator.model)
    assert not found.holds
    steps, slopes = split(found)
    assert not all(check.holds for check in steps) or any(step.address.endswith(".gradient") for step in found.off)
    assert not all(check.holds for check in slopes)
    lines = list(found.gradient_lines())
    assert any(line.startswith("does not follow: gradient") for line in lines)


def test_true_gradients_follow_with_a_slope_of_each_group_and_the_report_says_so(trained, translator):
    found = verify_walk(trained, translator.model)
    assert found.holds, list(found.gradient_lines())
    steps, slopes = split(found)
    with_gradient = [step.address for step in trained.trace if step.key in trained.trace.gradients]
    assert [check.where for check in steps] == [f"gradient of {address}" for address in with_gradient[:-1]]
    assert with_gradient[-1] == "loss.mean"
    assert max(check.error for check in steps) < TOLERANCE / 5
    assert max(check.error for check in slopes) < SLOPE_TOLERANCE / 5
    assert not [step for step in found.steps if step.address.endswith(".gradient") and step.result == "given"]
    (line,) = found.gradient_lines()
    assert line.startswith(f"{len(steps):,} gradients of steps recomputed")
    assert f"slopes in {len(slopes)} groups of weights" in line
    groups = [check.where.removeprefix("gradients of ") for check in check_slopes(trained, translator.model)]
    sublayers = {"encoder": ("self_attention", "feed_forward"),
                 "decoder": ("self_attention", "cross_attention", "feed_forward")}  # fmt: skip
    expected = {
        f"{stack}.layers.*.{sublayer}{norm}"
        for stack, names in sublayers.items() for sublayer in names for norm in ("", "_add_norm")
    }  # fmt: skip
    assert set(groups) == expected | {"src_embedding.tokens", "tgt_embedding.tokens", "output_projection.linear"}
    assert len(groups) == len(set(groups))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (derivatives.linear, [(2, 3, 5), (4, 5), (4,)]),
        (lambda x, weight: derivatives.linear(x, weight, None), [(2, 3, 5), (4, 5)]),
        (lambda x: derivatives.softmax(x, -1), [(2, 3, 5)]),
        (lambda x: derivatives.log_softmax(x, -1), [(2, 3, 5)]),
        (lambda x, gain, bias: derivatives.layer_norm(x, gain, bias, 1e-5), [(2, 3, 5), (5,), (5,)]),
        (derivatives.relu, [(2, 3, 5)]),
    ],
)
def test_each_stated_derivative_is_the_slope_of_its_function(function, shapes):
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(function, inputs)
