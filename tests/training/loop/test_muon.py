"""Muon: its step against the published one and the singular values, what it moves, how it resumes and is refused."""

import signal
from dataclasses import replace

import pytest
import torch
from recorded import Lines, StopsAt

from glassformer.checkpoint import checkpoints, read_tensors
from glassformer.errors import ConfigError
from glassformer.model import Transformer
from glassformer.settings import ModelConfig, TrainConfig
from glassformer.training.loop import muon
from glassformer.training.loop.optimizer import adam_step, freeze, new_optimizer, optimizer_tensors
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

SIZES = {"src_vocab": 23, "tgt_vocab": 23, "d_model": 12, "n_heads": 3, "d_ff": 20, "dropout": 0.0}
CONFIG = TrainConfig(optimizer="muon", warmup=5)
BFLOAT16_ERROR = 0.05  # of an entry of a matrix whose singular values are near one


def make_model(**changes) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(ModelConfig.tiny(**SIZES, **changes))
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    return model


@pytest.mark.parametrize("shape", [(3, 40, 40), (2, 40, 80), (2, 80, 40), (1, 7, 1)])
def test_a_step_has_the_singular_vectors_of_the_gradient_and_singular_values_near_one(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    found = u.mT @ muon.orthogonalise(matrices) @ v.mT
    values = found.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(found, torch.diag_embed(values))
    assert ((values > 0.6) & (values < 1.25))[s > 0.02 * s.norm(dim=-1, keepdim=True)].all()
    assert not muon.orthogonalise(torch.zeros(shape)).any()


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch has it since 2.9")
def test_it_moves_matrices_as_pytorchs_own_does(monkeypatch):
    """Its momentum and its step in bfloat16 are the same; the sum of its five iterations may differ in the last bits."""
    model, theirs = make_model(), make_model()
    ours = new_optimizer(model, replace(CONFIG, precision="bf16"))
    names = muon.layer_matrices(theirs)
    other = torch.optim.Muon(names.values(), lr=1e-2, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    for number in range(3):
        for one, two in zip(model.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn(one.shape, generator=torch.Generator().manual_seed(number))
            two.grad = one.grad.clone()
        adam_step(model, ours, 1e-2)
        other.step()
    for name, weight in names.items():
        longest = 1e-2 * muon.ADAM_STEP * max(weight.shape) ** 0.5
        found = model.get_parameter(name)
        torch.testing.assert_close(found, weight, atol=3 * longest * BFLOAT16_ERROR, rtol=0)
        torch.testing.assert_close(ours.state[found]["exp_avg"], other.state[weight]["momentum_buffer"])


def test_it_moves_the_matrices_of_the_layers_and_adam_all_else():
    model = make_model(positions="relative", attention_bias=True)
    freeze(model, "encoder.layers.0,*.w_k.weight", lambda _: None)
    optimizer = new_optimizer(model, CONFIG)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    adam_step(model, optimizer, 1e-3)
    kept = optimizer_tensors(model, optimizer)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]) != weight.requires_grad, name
        is_matrix = ".layers." in name and name.endswith(".weight")
        assert (f"exp_avg/{name}" in kept) == weight.requires_grad
        assert (f"exp_avg_sq/{name}" in kept) == (weight.requires_grad and not is_matrix)
        assert weight.grad is None or not weight.requires_grad
    only = make_model()
    freeze(only, "*embedding,*norm*,*bias,output_projection", lambda _: None)
    adam_step(only, new_optimizer(only, CONFIG), 1e-3)  # nothing is left for Adam


def test_a_training_with_it_that_is_cut_ends_with_the_same_bits(corpus, small_config, tmp_path):
    config, source = (
        small_config(max_updates=8, validate_every=4, optimizer="muon", precision="bf16"),
        FileSource(*corpus),
    )
    train(TrainRequest(tmp_path / "whole", source, config), Lines())
    assert train(TrainRequest(tmp_path / "cut", source, config), StopsAt(5, signal.SIGTERM)).updates == 5
    train(TrainRequest(tmp_path / "cut", source, config), Lines())
    whole, cut = (read_tensors(checkpoints(tmp_path / run / "latest")[-1], "model") for run in ("whole", "cut"))
    assert all(torch.equal(whole[name], cut[name]) for name in whole)


def test_it_refuses_matrices_in_shards():
    with pytest.raises(ConfigError, match=r"train.optimizer: found 'muon' with train.sharding = full"):
        new_optimizer(make_model(), replace(CONFIG, sharding="full"))
