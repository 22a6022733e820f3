"""Options of a command applied to those of a run."""

import pytest

from glassformer.config import DecodeConfig
from glassformer.errors import ConfigError

SAMPLING = DecodeConfig(sample=True, top_k=5)


def test_an_option_of_search_turns_the_sampling_of_a_run_off():
    assert SAMPLING.updated({"beam": 5}).sample is False
    assert SAMPLING.updated({"beam": 1}).sample is False
    assert SAMPLING.updated({"top_k": 3}).sample is True


@pytest.mark.parametrize("idle", [{"beam": 5}, {"coverage_penalty": 1.0}, {"beam": 4, "beam_groups": 2}])
def test_search_and_sampling_at_once_are_refused(idle):
    with pytest.raises(ConfigError, match="found with sampling, on which it has no effect"):
        DecodeConfig().updated({"sample": True, **idle})


def test_diversity_needs_groups():
    with pytest.raises(ConfigError, match="--diversity: found without --beam-groups"):
        DecodeConfig().updated({"diversity": 0.5})
    assert DecodeConfig(beam_groups=2).updated({"diversity": 0.7}).diversity == 0.7
