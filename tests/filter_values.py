"""A value with an effect for each filter of the register, so that a new one enters every grid of the tests."""

from typing import Any

from glassformer.decoding.search.filters import PROCESSORS, SAMPLING_FILTERS
from glassformer.settings import DecodeConfig


def value_with_effect(setting: str) -> Any:
    """The other value of a switch; between the default and the limit, or above a default that is the least value."""
    field = DecodeConfig.__dataclass_fields__[setting]
    default, low = field.default, field.metadata["low"]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 2
    return (default + low) / 2 if default > low else default + 0.4


PROCESSOR_VALUES = {one.setting: value_with_effect(one.setting) for one in PROCESSORS}
FILTER_VALUES = {one.setting: value_with_effect(one.setting) for one in SAMPLING_FILTERS}
