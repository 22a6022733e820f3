import math

import pytest

from glassformer.training.loop.trainer import RunningMeans
from glassformer.training.loop.update import UpdateMetrics


def test_running_means_are_weighted_by_tokens() -> None:
    means = RunningMeans()
    means.add(UpdateMetrics(loss=2.0, nll=1.0, tokens=300, rate=0.1, gradient_norm=1.0))
    means.add(UpdateMetrics(loss=4.0, nll=5.0, tokens=100, rate=0.1, gradient_norm=1.0))
    assert means.loss == pytest.approx(2.5)
    assert means.perplexity == pytest.approx(math.exp(2.0))
