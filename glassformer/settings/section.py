"""How settings work: documented fields with limits, from TOML and ``--set``."""

import math
import tomllib
import types
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError, nearest
from glassformer.files import read_bounded

_LARGEST_TOML = 2**20  # bytes of settings
_MAX_DOTS = 100  # of a line: the reader's time grows with the square of the names in a.b.c


def knob(
    default: Any,
    doc: str,
    *,
    symbol: str = "",
    low: float | None = None,
    high: float | None = None,
    acts_in: str = "",
    equal_in: Collection[str] = (),
    differs_in: Mapping[str, str] | None = None,
    missing_in: Mapping[str, str] | None = None,
) -> Any:
    """A field of a section: its meaning, the paper's symbol, inclusive limits (0 or more), where in decoding it acts.

    Engines other than PyTorch do the same if in ``equal_in``, nearly so if in ``differs_in``, else have the default.
    """
    if low is None and type(default) in {int, float}:
        low = type(default)(0)
    metadata = {
        "doc": doc, "symbol": symbol, "low": low, "high": high, "acts_in": acts_in,
        "equal_in": equal_in, "differs_in": differs_in or {}, "missing_in": missing_in or {},
    }  # fmt: skip
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A frozen group of settings that checks types and limits."""

    # Settings of earlier versions: the values that changed nothing, and the last commit with the setting.
    retired: ClassVar[Mapping[str, tuple[tuple[Any, ...], str]]] = {}

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for one in fields(self):
            where = f"{_section_name(type(self))}.{one.name}"
            value = _convert(where, getattr(self, one.name), hints[one.name])
            object.__setattr__(self, one.name, value)
            low, high = one.metadata["low"], one.metadata["high"]
            if isinstance(value, str):
                continue
            if (low is not None and value < low) or (high is not None and value > high):
                span = f"at least {low}" if high is None else f"from {low} to {high}"
                raise ConfigError(f"{where}: found {value!r}, expected a value {span}.")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build from plain values; ``ConfigError`` for an unknown key."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{_section_name(cls)}: found {values!r:.60}, expected a section with settings.")
        for key, (neutral, last_commit) in cls.retired.items():
            if key in values and values[key] not in neutral:
                raise ConfigError(
                    f"{_section_name(cls)}.{key}: found {values[key]!r}, expected {' or '.join(map(repr, neutral))}, "
                    f"because it is retired: leave it out, or use commit {last_commit}, the last that has it."
                )
        values = {key: value for key, value in values.items() if key not in cls.retired}
        check_known(_section_name(cls), values, [one.name for one in fields(cls)])
        return cls(**values)

    @classmethod
    def choices(cls, name: str) -> tuple[Any, ...]:
        """The values of the setting ``name``, a choice among a few."""
        return get_args(get_type_hints(cls)[name])

    def to_mapping(self) -> dict[str, Any]:
        """The effective values, ready for JSON."""
        return asdict(self)


def check_known(section: str, keys: Iterable[str], known: Sequence[str]) -> None:
    """Raise ``ConfigError`` for a key that is not ``known``."""
    for key in keys:
        if key not in known:
            hint = f"{nearest(key, known)} Known: {', '.join(known)}."
            raise ConfigError(f"{section}.{key}: there is no such setting.{hint}")


def _section_name(cls: type) -> str:
    return cls.__name__.removesuffix("Config").lower()


def _convert(where: str, value: Any, hint: Any) -> Any:
    is_word = isinstance(value, Hashable)  # arrays compare by element
    if get_origin(hint) is Literal:
        if not is_word or value not in get_args(hint):
            raise ConfigError(f"{where}: found {value!r}, expected one of {', '.join(map(repr, get_args(hint)))}.")
        return value
    words: tuple[str, ...] = ()
    if get_origin(hint) in (Union, types.UnionType):
        choice, hint = get_args(hint)
        words = get_args(choice)
        if is_word and value in words:
            return value
    if hint in (int, float) and isinstance(value, int) and abs(value) >= 2**63:
        raise ConfigError(f"{where}: found a whole number beyond 2^63, expected a smaller one.")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        expected = " or ".join([*map(repr, words), hint.__name__])
        raise ConfigError(f"{where}: found {value!r} ({type(value).__name__}), expected {expected}.")
    if hint is float and not math.isfinite(value):
        raise ConfigError(f"{where}: found {value}, expected a finite number.")
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """The nested values of a TOML file."""
    try:
        text = read_bounded(path, _LARGEST_TOML).decode()
        for number, line in enumerate(text.split("\n"), 1):
            if line.count(".") > _MAX_DOTS:
                raise ValueError(f"line {number} has {line.count('.'):,} full stops, expected section.key = value")
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}. Name a file of TOML.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}.") from error


def apply_overrides(values: dict[str, Any], overrides: Iterable[str]) -> None:
    """Apply ``section.key=value`` strings; what is not TOML is a string."""
    for override in overrides:
        path, equals, text = override.partition("=")
        section, dot, key = path.strip().partition(".")
        if not (equals and dot and section and key):
            raise ConfigError(f"--set {override}: expected section.key=value, for example train.warmup=2000.")
        settings = values.setdefault(section, {})
        if not isinstance(settings, dict):
            raise ConfigError(f"{section}: found {settings!r}, expected a section [{section}] of settings.")
        try:
            settings[key] = tomllib.loads(f"value = {text.strip()}")["value"]
        except (ValueError, RecursionError):
            settings[key] = text.strip()
