"""Options of a command applied to those of a run."""

import re
from dataclasses import fields

import pytest

from glassformer.errors import ConfigError
from glassformer.settings import IMPLY_SAMPLING, DecodeConfig, ModelConfig, RunConfig, TextConfig, TrainConfig
from glassformer.settings.section import apply_overrides

SAMPLING = DecodeConfig(sample=True, top_k=5)


def test_options_of_search_turn_the_sampling_of_a_run_off_and_those_of_sampling_on():
    assert SAMPLING.with_changes({"beam": 5}).sample is False
    assert SAMPLING.with_changes({"beam": 1}).sample is False
    assert SAMPLING.with_changes({"top_k": 3}).sample is True
    for name in IMPLY_SAMPLING:
        assert DecodeConfig().with_changes({name: getattr(DecodeConfig(), name)}).sample is True
    assert DecodeConfig().with_changes({"sample": False, "top_k": 3}).sample is False
    with pytest.raises(ConfigError, match="found with sampling"):
        DecodeConfig().with_changes({"beam": 5, "top_p": 0.9})


@pytest.mark.parametrize("idle", [{"beam": 5}, {"coverage_penalty": 1.0}, {"beam": 4}])
def test_search_and_sampling_at_once_are_refused(idle):
    with pytest.raises(ConfigError, match="found with sampling, on which it has no effect"):
        DecodeConfig().with_changes({"sample": True, **idle})


@pytest.mark.parametrize(
    ("name", "neutral", "other"),
    [("beam_groups", 1, 2), ("diversity", 0.5, 0.7), ("diversity", 0, -1.0), ("cuda_graphs", "off", "on")],
)
def test_a_retired_setting_is_left_out_where_it_changed_nothing_and_refused_elsewhere(name, neutral, other):
    assert DecodeConfig.from_mapping({"beam": 3, name: neutral}) == DecodeConfig(beam=3)
    assert DecodeConfig().with_changes({name: neutral}) == DecodeConfig()
    values = {"decode": {}}
    apply_overrides(values, [f"decode.{name}={neutral}"])
    assert RunConfig.from_mapping(values) == RunConfig()
    (commit,) = {last for key, (_, last) in DecodeConfig.retired.items() if key == name}
    message = rf"^decode\.{name}: found {other!r}, expected .*, or use commit {commit}, the last that has it\.$"
    with pytest.raises(ConfigError, match=message):
        RunConfig.from_mapping({"decode": {name: other}})


def test_each_retired_setting_is_gone_and_has_a_commit_and_a_value_without_effect():
    for section in (ModelConfig, TextConfig, TrainConfig, DecodeConfig):
        for name, (neutral, last_commit) in section.retired.items():
            assert name not in {field.name for field in fields(section)}
            assert neutral
            assert re.fullmatch("[0-9a-f]{7,40}", last_commit)
