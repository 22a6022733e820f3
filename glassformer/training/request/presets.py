"""Presets: settings that belong together, under one name for ``--preset``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.errors import ConfigError, nearest


@dataclass(frozen=True)
class Preset:
    """Settings by section, and in one line what they are for."""

    summary: str
    settings: Mapping[str, Mapping[str, Any]]


PRESETS = {
    "paper": Preset(
        "the paper's training: Adam, the rate of equation 3 with 4,000 updates of warm-up, no cooldown, no clipping",
        {"train": {"schedule": "noam", "peak_rate": 0.0, "warmup": 4000, "cooldown": 0.0, "clip_norm": 0.0}},
    ),
}


def preset_settings(name: str | None) -> Mapping[str, Mapping[str, Any]]:
    """The settings of a preset; none without a name. Raises ``ConfigError`` for an unknown one."""
    if name is None:
        return {}
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(
            f"--preset: there is no preset {name!r}.{nearest(str(name), PRESETS)} Known: {', '.join(PRESETS)}."
        )
    return PRESETS[name].settings
