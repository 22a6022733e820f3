"""R-Drop by the paper's formula, in chunks and on all logits at once, and where it has no effect."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div

from glassformer.errors import ConfigError
from glassformer.model import Transformer
from glassformer.settings import ModelConfig, RunConfig, TrainConfig
from glassformer.text.corpus.batches import Batch
from glassformer.trace import tracing
from glassformer.training.loop.update import accumulate_gradients
from glassformer.training.objective import fused_loss
from glassformer.training.objective.loss import symmetric_kl, symmetric_kl_sum
from glassformer.training.objective.objective import Objective

SRC = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0], [9, 10, 2, 0]])
TGT_IN = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 0, 0, 0], [1, 9, 10, 0, 0]])
TGT_OUT = torch.tensor([[4, 5, 6, 7, 2], [8, 2, 0, 0, 0], [9, 10, 2, 0, 0]])
ALPHA, SMOOTHING = 5.0, 0.1


def new_model(**changes: object) -> Transformer:
    torch.manual_seed(3)
    sizes = {"d_model": 14, "n_heads": 2, "d_ff": 11, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.3}
    return Transformer(ModelConfig(src_vocab=13, tgt_vocab=13, max_length=17, **{**sizes, **changes}))


def gradients(model: Transformer, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def paper(model: Transformer, *, padded: bool = False) -> Tensor:
    """Half of equation 4, by functions that are not ours, with the dropout of seed 5, over rows or over padding too."""
    torch.manual_seed(5)
    src, tgt_in, real = (torch.cat([half, half]) for half in (SRC, TGT_IN, TGT_OUT != 0))
    hidden = model.hidden(src, tgt_in)[real] if padded else model.hidden_rows(src, tgt_in, real)[0]
    p1, p2 = model.output_projection.linear(hidden).log_softmax(-1).chunk(2)
    real = TGT_OUT != 0
    entropies = sum(cross_entropy(p, TGT_OUT[real], label_smoothing=SMOOTHING, reduction="sum") for p in (p1, p2))
    apart = [kl_div(p, q, log_target=True, reduction="sum") for p, q in ((p1, p2), (p2, p1))]
    return (entropies + ALPHA * sum(apart) / 2) / 2


@pytest.mark.parametrize("part", [1, 3, 512])
@pytest.mark.parametrize("changes", [{}, {"output_bias": True, "tie_embeddings": "none"}])
def test_loss_and_gradients_are_those_of_the_papers_formula(part, changes, monkeypatch):
    monkeypatch.setattr(fused_loss, "CPU_CHUNK", part)
    model = new_model(**changes)
    expected = paper(model)
    wanted = gradients(model, expected)
    torch.manual_seed(5)
    loss, nll = Objective(model, SMOOTHING, ALPHA)(SRC, TGT_IN, TGT_OUT)
    found = gradients(model, loss)
    torch.testing.assert_close(loss, expected)
    assert 0 < nll < loss
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, msg=name, atol=1e-5, rtol=1e-4)


def test_while_a_trace_records_the_loss_and_its_gradients_are_the_same() -> None:
    model = new_model()
    objective = Objective(model, SMOOTHING, ALPHA)
    expected = paper(model, padded=True)
    wanted = gradients(model, expected)
    torch.manual_seed(5)
    with tracing(model) as trace:
        loss, _ = objective(SRC, TGT_IN, TGT_OUT)
    found = gradients(model, loss)
    assert trace["output_projection.logits"].shape == (6, 5, 13)
    torch.testing.assert_close(loss, expected)
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, msg=name, atol=1e-5, rtol=1e-4)


def test_the_symmetric_kl_by_hand() -> None:
    """p = (1/2, 1/2) and q = (1/4, 3/4): KL(p ‖ q) = ½ log 2 + ½ log ⅔, KL(q ‖ p) = ¼ log ½ + ¾ log 3/2."""
    p = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    apart, _ = symmetric_kl(p.log() + 7.0, p)
    first = 0.5 * torch.tensor(2.0).log() + 0.5 * torch.tensor(2 / 3).log()
    second = 0.25 * torch.tensor(0.5).log() + 0.75 * torch.tensor(1.5).log()
    torch.testing.assert_close(apart, (first + second)[None] / 2)
    logits = p.log()[:, None]
    torch.testing.assert_close(symmetric_kl_sum(logits, torch.tensor([[True]])), (first + second) / 2)
    assert symmetric_kl_sum(logits, torch.tensor([[False]])) == 0


def test_without_dropout_the_passes_agree_and_only_their_mean_is_left():
    model = new_model(dropout=0.0)
    once, once_nll = Objective(model, SMOOTHING)(SRC, TGT_IN, TGT_OUT)
    twice, twice_nll = Objective(model, SMOOTHING, ALPHA)(SRC, TGT_IN, TGT_OUT)
    torch.testing.assert_close((twice, twice_nll), (once, once_nll))
    with pytest.raises(ConfigError, match=r"train\.r_drop: found 5\.0 with model\.dropout = 0"):
        RunConfig.from_mapping({"model": {"dropout": 0.0}, "train": {"r_drop": 5.0}})
    model = new_model(dropout=0.0).eval()  # without dropout both passes are that of no R-Drop
    with tracing(model):
        once = Objective(model, smoothing=SMOOTHING, r_drop=0.0)(SRC, TGT_IN, TGT_OUT)
        traced = Objective(model, smoothing=SMOOTHING, r_drop=ALPHA)(SRC, TGT_IN, TGT_OUT)
    chunked = Objective(model, smoothing=SMOOTHING, r_drop=ALPHA)(SRC, TGT_IN, TGT_OUT)
    torch.testing.assert_close(traced, once)
    torch.testing.assert_close(chunked, once)


def test_an_update_counts_each_target_token_once_and_learns_to_agree() -> None:
    model = new_model().train()
    batch = Batch(SRC, TGT_IN, TGT_OUT)
    plain = accumulate_gradients(model, [batch], TrainConfig())
    model.zero_grad()
    torch.manual_seed(5)
    both = accumulate_gradients(model, [batch], TrainConfig(r_drop=ALPHA))
    assert both.tokens == plain.tokens == 10
    torch.manual_seed(5)
    torch.testing.assert_close(both.loss, paper(model).item(), rtol=1e-4, atol=1e-4)
