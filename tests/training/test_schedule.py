from dataclasses import replace
from itertools import pairwise

import pytest

from glassformer.config import RunConfig, TrainConfig
from glassformer.errors import ConfigError
from glassformer.training.schedule import learning_rate


def test_noam_is_the_papers_equation_3() -> None:
    config = TrainConfig(schedule="noam", warmup=4000)
    for update in (1, 100, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(update**-0.5, update * 4000**-1.5)
        assert learning_rate(update, config, 512) == pytest.approx(expected)
    assert learning_rate(4000, config, 512) == pytest.approx(6.9877e-4, rel=1e-4)


def test_inverse_square_root_peaks_at_the_end_of_warm_up() -> None:
    config = TrainConfig(schedule="inverse_sqrt", peak_rate=5e-3, warmup=2000)
    rates = [learning_rate(update, config, 128) for update in range(1, 8001)]
    assert max(rates) == rates[1999] == pytest.approx(5e-3)
    assert rates[999] == pytest.approx(2.5e-3)
    assert rates[7999] == pytest.approx(2.5e-3)


def test_a_cooldown_ends_the_same_curve_in_a_straight_line_to_nothing() -> None:
    config = TrainConfig(schedule="inverse_sqrt", peak_rate=5e-3, warmup=2000, max_updates=8000)
    cooled = replace(config, cooldown=999)
    ratios = [learning_rate(u, cooled, 128) / learning_rate(u, config, 128) for u in range(1, 8001)]
    assert ratios[:7001] == [1.0] * 7001
    steps = [before - after for before, after in pairwise(ratios[7000:])]
    assert steps == pytest.approx([1 / 1000] * 999)
    assert ratios[-1] == pytest.approx(1 / 1000)
    assert learning_rate(8001, cooled, 128) > 0  # one step more, as in a walk through a finished run


def test_a_cooldown_must_fit_between_warm_up_and_the_end() -> None:
    RunConfig.from_mapping({"train": {"warmup": 100, "cooldown": 900, "max_updates": 1000}})
    with pytest.raises(ConfigError, match=r"train\.cooldown: found 901 .*warmup takes 100; expected at most 900"):
        RunConfig.from_mapping({"train": {"warmup": 100, "cooldown": 901, "max_updates": 1000}})
