"""A new directory for an import or an export, written whole or not at all."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from glassformer.errors import RunError, StorageError
from glassformer.files import WRITING, check_directory, make_directory, real_path, storage_errors, sync


def require_name(directory: Path, option: str) -> Path:
    """The absolute path; ``RunError`` for the current directory and the root."""
    try:
        place, is_current = directory.absolute(), directory.exists() and directory.samefile(".")
    except OSError as error:
        raise StorageError(f"{directory}: cannot be found: {error.strerror}. Name another {option}.") from error
    if is_current or not place.name:
        found = "the current directory" if is_current else "the root of the file system"
        raise RunError(f"{directory}: is {found}, expected a new directory. Name another {option}.")
    return place


def check_new_directory(directory: Path, option: str) -> Path:
    """The path without links; raises early what ``write_whole`` would raise."""
    place = real_path(require_name(directory, option))
    with storage_errors(directory, f"Name another {option}."):
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise RunError(f"{directory}: exists and is not empty, expected a new directory. Name another {option}.")
        check_directory(place.parent)
    return place


@contextmanager
def write_whole(directory: Path, option: str) -> Iterator[Path]:
    """A directory that becomes ``directory`` if the block ends without an error."""
    place = check_new_directory(directory, option)
    temporary = place.with_name(f".{secrets.token_hex(8)}{WRITING}")
    try:
        make_directory(place.parent)
        temporary.mkdir()
        yield temporary
        temporary.replace(place)
        sync(place.parent)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(
            f"{directory}: cannot be written: {reason}. Free some space, or name another {option}."
        ) from error
    except StorageError as error:
        raise StorageError(str(error).replace(str(temporary), str(directory))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
