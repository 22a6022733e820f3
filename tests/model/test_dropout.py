"""Four elements share one draw of random bits: they must be dropped as independently as if they did not."""

import pytest
import torch

from glassformer.model.dropout import Dropout

N = 400_000


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_as_many_are_dropped_as_asked_and_the_mean_stays(p: float) -> None:
    torch.manual_seed(3)
    output = Dropout(p)(torch.ones(N))
    dropped = (output == 0).float().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / N) ** 0.5)
    assert output[output != 0].unique().numel() == 1
    assert output.max().item() == pytest.approx(1 / (1 - p), rel=2e-4)


def test_the_sixteen_patterns_of_four_that_share_a_draw_are_as_frequent_as_they_should_be() -> None:
    torch.manual_seed(7)
    dropped = (Dropout(0.5)(torch.ones(N)) == 0).view(-1, 4)
    patterns = (dropped * torch.tensor([8, 4, 2, 1])).sum(1).bincount(minlength=16).double()
    expected = N / 4 / 16
    assert ((patterns - expected) ** 2 / expected).sum().item() < 45  # chi-square, 15 degrees: p about 1e-4


def test_the_gradient_goes_where_the_value_went() -> None:
    torch.manual_seed(11)
    x = torch.randn(7, 5, 3, requires_grad=True)
    output = Dropout(0.3)(x)
    output.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), output.detach())


def test_it_is_seeded_and_rests_outside_training() -> None:
    dropout, x = Dropout(0.3), torch.randn(13)
    results = []
    for _ in range(2):
        torch.manual_seed(17)
        results.append(dropout(x))
    assert torch.equal(*results)
    assert dropout.eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert not Dropout(1.0)(x).any()
