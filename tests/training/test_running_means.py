import math

import pytest

from glassformer.training.trainer import RunningMeans, UpdateMetrics


def test_the_loss_of_a_window_is_that_of_its_tokens() -> None:
    window = RunningMeans()
    window.add(UpdateMetrics(loss=2.0, nll=1.0, tokens=300, rate=0.1, gradient_norm=1.0))
    window.add(UpdateMetrics(loss=4.0, nll=5.0, tokens=100, rate=0.1, gradient_norm=1.0))
    assert window.loss == pytest.approx(2.5)
    assert window.perplexity == pytest.approx(math.exp(2.0))
