"""Options that were asked for, over those of a run."""

import pytest

from glassformer.config import DecodeConfig
from glassformer.decoding.request import changed_by
from glassformer.errors import ConfigError

SAMPLING = DecodeConfig(sample=True, top_k=5)


def test_what_only_a_search_has_makes_a_run_search_that_samples_by_itself():
    assert changed_by(SAMPLING, {"beam": 5}).sample is False
    assert changed_by(SAMPLING, {"beam": 1}).sample is False
    assert changed_by(SAMPLING, {"top_k": 3}).sample is True


@pytest.mark.parametrize("idle", [{"beam": 5}, {"coverage_penalty": 1.0}, {"beam": 4, "beam_groups": 2}])
def test_a_search_and_a_draw_at_once_are_refused(idle):
    with pytest.raises(ConfigError, match="found with sampling, which draws and does not search"):
        changed_by(DecodeConfig(), {"sample": True, **idle})


def test_diversity_needs_groups():
    with pytest.raises(ConfigError, match="--diversity: found without --beam-groups"):
        changed_by(DecodeConfig(), {"diversity": 0.5})
    assert changed_by(DecodeConfig(beam_groups=2), {"diversity": 0.7}).diversity == 0.7
