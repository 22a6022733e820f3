import pytest
import torch

from glassformer.errors import InputError
from glassformer.training.objective.loss import smoothed_loss

PAD = 0


def logits_and_targets(
    seed: int, rows: int = 3, width: int = 5, vocab: int = 11
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, width, vocab, generator=generator, requires_grad=True)
    targets = torch.randint(1, vocab, (rows, width), generator=generator)
    targets[0, 3:] = PAD
    return logits, targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_loss_and_gradient_are_those_of_torch_with_padding_ignored(smoothing: float) -> None:
    logits, targets = logits_and_targets(seed=3)
    loss, nll, tokens = smoothed_loss(logits, targets, PAD, smoothing)
    (gradient,) = torch.autograd.grad(loss, logits)
    flat = (logits.flatten(0, 1), targets.flatten())
    expected = torch.nn.functional.cross_entropy(*flat, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    assert tokens == 13
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, torch.nn.functional.cross_entropy(*flat, ignore_index=PAD, reduction="sum"))
    torch.testing.assert_close(gradient, expected_gradient)


def test_the_smoothed_target_distribution_is_the_papers_by_hand() -> None:
    logits = torch.log(torch.tensor([[[0.1, 0.2, 0.3, 0.4]]]))
    loss, _, _ = smoothed_loss(logits, torch.tensor([[2]]), PAD, 0.2)
    q = torch.tensor([0.05, 0.05, 0.85, 0.05])
    assert loss.item() == pytest.approx(-(q * logits[0, 0]).sum().item())


def test_padding_changes_nothing_and_alone_gives_zero_and_not_nan():
    logits, targets = logits_and_targets(seed=5)
    loss, nll, tokens = smoothed_loss(logits, torch.full_like(targets, PAD), PAD, 0.1)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (loss.item(), nll.item(), tokens) == (0.0, 0.0, 0)
    assert not gradient.any()
    logits, targets = logits_and_targets(seed=7)
    wide_logits = torch.cat([logits, torch.full((3, 4, 11), 9.0)], dim=1)
    wide_targets = torch.cat([targets, torch.full((3, 4), PAD)], dim=1)
    loss, _, _ = smoothed_loss(logits, targets, PAD, 0.1)
    wide_loss, _, _ = smoothed_loss(wide_logits, wide_targets, PAD, 0.1)
    torch.testing.assert_close(loss, wide_loss)


@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 1, 7), (2, 6, 4)])
def test_probabilities_in_place_of_logits_are_refused_and_positive_logits_are_not(shape):
    logits, targets = torch.randn(shape), torch.full(shape[:2], 3)
    with pytest.raises(InputError, match="found probabilities"):
        smoothed_loss(logits.softmax(-1), targets, 0, 0.1)
    for positive in (logits.softmax(-1) * 3, logits.abs() + 1, logits.softmax(1)):
        smoothed_loss(positive, targets, 0, 0.1)
