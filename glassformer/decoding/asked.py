"""The options that were asked for, over those of a run. Knows no search."""

from collections.abc import Mapping
from typing import Any

from glassformer.config import DecodeConfig
from glassformer.errors import ConfigError

_ONLY_SEARCHING = {"beam": 1, "beam_groups": 1, "diversity": 0.0, "coverage_penalty": 0.0}  # with what does nothing


def changed_by(default: DecodeConfig, asked: Mapping[str, Any]) -> DecodeConfig:
    """The run's own options, changed by those that were asked for; what only a search has makes a sampler search.

    Raises ``ConfigError`` for one that would do nothing beside the others, or whose value cannot be.
    """
    if "sample" not in asked and asked.keys() & _ONLY_SEARCHING.keys():
        asked = {**asked, "sample": False}
    idle = [_option(key) for key, neutral in _ONLY_SEARCHING.items() if asked.get(key, neutral) > neutral]
    if asked.get("sample") and idle:
        raise ConfigError(
            f"{', '.join(idle)}: found with sampling, which draws and does not search. Drop one of both."
        )
    chosen = default.changed(asked)
    if "diversity" in asked and chosen.beam_groups == 1:
        raise ConfigError("--diversity: found without --beam-groups, between which it makes a difference. Add them.")
    return chosen


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"
