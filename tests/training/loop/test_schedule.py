import pytest

from glassformer.settings import TrainConfig
from glassformer.training.loop.schedule import learning_rate


def test_both_schedules_are_their_formulas():
    config = TrainConfig(schedule="noam", warmup=4000)
    for update in (1, 100, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(update**-0.5, update * 4000**-1.5)
        assert learning_rate(update, config, 512) == pytest.approx(expected)
    assert learning_rate(4000, config, 512) == pytest.approx(6.9877e-4, rel=1e-4)
    config = TrainConfig(schedule="inverse_sqrt", peak_rate=5e-3, warmup=2000)
    rates = [learning_rate(update, config, 128) for update in range(1, 8001)]
    assert max(rates) == rates[1999] == pytest.approx(5e-3)
    assert rates[999] == pytest.approx(2.5e-3)
    assert rates[7999] == pytest.approx(2.5e-3)
