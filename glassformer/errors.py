"""Errors that a user can fix. A message says found, expected, what to do, where."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any


class GlassformerError(Exception):
    """Something that a user can fix; the command line exits with ``exit_code``."""

    exit_code = 2


class ConfigError(GlassformerError):
    """A setting that is unknown, of the wrong type or out of range."""


class InputError(GlassformerError):
    """Tensors that do not fit the model they were given to."""


class TraceError(GlassformerError):
    """A tap, an address or an edit that does not fit the traced model."""


class TextError(GlassformerError):
    """Text that cannot be read: encoding, format, alignment."""


class TokenizerError(GlassformerError):
    """A tokenizer that cannot be trained, or that does not belong to its model."""


class RunError(GlassformerError):
    """A run directory that is missing, belongs to another run or is in use."""


class DivergedError(GlassformerError):
    """Training produced a loss or a gradient that is not finite."""

    exit_code = 3


class CheckpointError(GlassformerError):
    """A checkpoint that is damaged or does not fit its configuration."""

    exit_code = 4


class StorageError(GlassformerError):
    """The disk is full or a file cannot be written."""

    exit_code = 5


class WorkerError(GlassformerError):
    """A worker process that ended before its work was done."""

    exit_code = 5


class PeerError(WorkerError):
    """One of several processes, which ended because another one failed."""


def check_type(
    name: str, value: object, kind: Any, expected: str, error: type[GlassformerError] = InputError
) -> None:
    """Raise ``error`` if a value is not of a type; ``expected`` says what to give."""
    if not isinstance(value, kind):
        raise error(f"{name}: found {type(value).__name__}, expected {expected}.")


def check_path(name: str, value: object) -> Path:
    """The path that a program gives as ``str`` or ``Path``."""
    if not isinstance(value, str | Path):
        raise InputError(f"{name}: found {type(value).__name__}, expected the path of a file, a str or a Path.")
    try:
        is_name = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise InputError(f"{name}: found {value!r:.100}, which no file can have as its name. Name another.")
    return Path(value)


def torchrun_number(name: str, default: str = "") -> int:
    """The number in a variable of torchrun; ``ConfigError`` if it is none."""
    found = os.environ.get(name, default)
    if found.isascii() and found.isdecimal():
        return int(found)
    raise ConfigError(
        f"{name}: found {found!r} with TORCHELASTIC_RUN_ID, expected a number, as torchrun sets it. Unset "
        "TORCHELASTIC_RUN_ID, or start the command by torchrun."
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean ...?`` with the nearest known word, if one is near."""
    matches = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean {matches[0]!r}?" if matches else ""
