import pytest
import torch

from glassformer.model import Transformer
from glassformer.settings import ModelConfig
from glassformer.trace import tracing
from glassformer.training.objective import fused_loss
from glassformer.training.objective.loss import smoothed_loss
from glassformer.training.objective.objective import Objective

SRC = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0], [9, 10, 2, 0]])
TGT_IN = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 0, 0, 0], [1, 9, 10, 0, 0]])
TGT_OUT = torch.tensor([[4, 5, 6, 7, 2], [8, 2, 0, 0, 0], [9, 10, 2, 0, 0]])


def new_model(**changes: object) -> Transformer:
    torch.manual_seed(3)
    sizes = {"d_model": 14, "n_heads": 2, "d_ff": 11, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return Transformer(ModelConfig(src_vocab=13, tgt_vocab=13, max_length=17, dropout=0.0, **{**sizes, **changes}))


def gradients(model: Transformer, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("part", [1, 3, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("changes", [{}, {"output_bias": True, "tie_embeddings": "none"}, {"norm": "pre"}])
def test_in_chunks_the_loss_and_its_gradients_are_those_of_all_logits_at_once(part, smoothing, changes, monkeypatch):
    monkeypatch.setattr(fused_loss, "CPU_CHUNK", part)
    model = new_model(**changes)
    plain, plain_nll, tokens = smoothed_loss(model(SRC, TGT_IN), TGT_OUT, 0, smoothing)
    expected = gradients(model, plain / tokens)
    loss, nll = Objective(model, smoothing)(SRC, TGT_IN, TGT_OUT)
    found = gradients(model, loss / tokens)
    torch.testing.assert_close((loss, nll), (plain, plain_nll))
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)


@pytest.mark.parametrize("changes", [{}, {"output_bias": True, "tie_embeddings": "none"}])
def test_what_a_compiler_is_given_is_the_same_loss(changes: dict[str, object]) -> None:
    model, real = new_model(**changes), (TGT_OUT != 0).flatten()
    plain, plain_nll, _ = smoothed_loss(model(SRC, TGT_IN), TGT_OUT, 0, 0.1)
    linear, x = model.output_projection.linear, model.hidden(SRC, TGT_IN).flatten(0, 1)
    found = fused_loss.plain_projected_loss(
        x, linear.weight, linear.bias, TGT_OUT.flatten(), real=real, smoothing=0.1
    )
    torch.testing.assert_close(found, (plain, plain_nll))


def test_without_gradients_the_losses_are_the_same_and_nothing_is_saved() -> None:
    objective = Objective(new_model(), 0.1)
    expected, _ = objective(SRC, TGT_IN, TGT_OUT)
    with torch.no_grad():
        loss, _ = objective(SRC, TGT_IN, TGT_OUT)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, expected.detach())


def test_bf16_products_give_close_losses_and_gradients_in_float32() -> None:
    model = new_model()
    objective = Objective(model, 0.1)
    expected, _ = objective(SRC, TGT_IN, TGT_OUT)
    exact = gradients(model, expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = objective(SRC, TGT_IN, TGT_OUT)
    rounded = gradients(model, loss)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.0)
    weight = "src_embedding.tokens.weight"  # tied to the output projection
    assert rounded[weight].dtype == torch.float32
    torch.testing.assert_close(rounded[weight], exact[weight], rtol=0.1, atol=0.05)


def test_an_almost_impossible_target_has_a_finite_loss() -> None:
    model = new_model(tie_embeddings="none")
    with torch.no_grad():
        model.output_projection.linear.weight.mul_(1e4)
    plain, _, _ = smoothed_loss(model(SRC, TGT_IN), TGT_OUT, 0, 0.0)
    loss, _ = Objective(model, 0.0)(SRC, TGT_IN, TGT_OUT)
    assert torch.isfinite(loss)
    assert loss > 1e4
    torch.testing.assert_close(loss, plain)


def test_while_a_trace_records_all_logits_are_seen() -> None:
    model = new_model()
    objective = Objective(model, 0.1)
    expected, _ = objective(SRC, TGT_IN, TGT_OUT)
    with tracing(model) as trace:
        loss, _ = objective(SRC, TGT_IN, TGT_OUT)
    assert trace["output_projection.logits"].shape == (3, 5, 13)
    torch.testing.assert_close(loss, expected)


def test_a_gap_in_a_target_and_a_batch_without_source_are_computed_with_padding() -> None:
    """The plain lines let later positions attend to the gap: so they must here."""
    model, gap = new_model(), TGT_OUT.clone()
    gap[0, 1] = 0
    for src, tgt_out in ((SRC, gap), (torch.zeros_like(SRC), TGT_OUT)):
        expected, expected_nll, _ = smoothed_loss(model(src, TGT_IN), tgt_out, 0, 0.1)
        loss, nll = Objective(model, 0.1)(src, TGT_IN, tgt_out)
        torch.testing.assert_close((loss, nll), (expected, expected_nll))
