"""Texts kept in a run directory, a line each: for a look at them, for other scorers, and to go on with."""

from collections.abc import Iterable
from pathlib import Path

from glassformer.errors import StorageError


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """All of them or, when it is stopped, none: the file is there when it is whole. A line break becomes a space."""
    aside = path.with_name(f"{path.name}.writing")
    try:
        aside.write_text("".join(text.replace("\n", " ") + "\n" for text in texts), encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}. Name another --run.") from error
