"""Options of a command applied to those of a run."""

import pytest

from glassformer.config import DecodeConfig
from glassformer.errors import ConfigError

SAMPLING = DecodeConfig(sample=True, top_k=5)


def test_an_option_of_search_turns_the_sampling_of_a_run_off():
    assert SAMPLING.with_changes({"beam": 5}).sample is False
    assert SAMPLING.with_changes({"beam": 1}).sample is False
    assert SAMPLING.with_changes({"top_k": 3}).sample is True


@pytest.mark.parametrize("idle", [{"beam": 5}, {"coverage_penalty": 1.0}, {"beam": 4, "beam_groups": 2}])
def test_search_and_sampling_at_once_are_refused(idle):
    with pytest.raises(ConfigError, match="found with sampling, on which it has no effect"):
        DecodeConfig().with_changes({"sample": True, **idle})


def test_diversity_needs_groups():
    with pytest.raises(ConfigError, match="--diversity: found without --beam-groups"):
        DecodeConfig().with_changes({"diversity": 0.5})
    assert DecodeConfig(beam_groups=2).with_changes({"diversity": 0.7}).diversity == 0.7
