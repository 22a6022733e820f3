"""Regular files and durable writes.

A writer writes next to the file, forces the data to disk and renames. No writer follows a symbolic link.
"""

import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, TextIO

from glassformer.errors import StorageError

logger = logging.getLogger(__name__)
FREE_SPACE = "Free some space or correct the permissions, then run the same command again to continue."
LARGEST_JSON = 32 * 2**20  # bytes; in memory 25 times as many
LARGEST_HEADER = 2**24  # bytes of a safetensors file; a large model has 100 kB
WRITING = ".writing"  # ends the name of a file that is being written


def refuse_link(path: Path) -> None:
    """Raise ``OSError`` for a symbolic link."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "is a symbolic link, which may lead out of the run")


def sha256(path: Path) -> str:
    """The SHA-256 sum of a file, in hexadecimal."""
    with open_to_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_sha256(values: Any) -> str:
    """The SHA-256 sum of values as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def sync(path: Path) -> None:
    """Force a file, or the entries of a directory, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, on disk."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync(place.parent)


def remove(path: Path) -> None:
    """Delete a file, a link, or a directory with its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def open_to_read(path: Path) -> BufferedReader:
    """The bytes of a regular file; ``OSError`` at once for a pipe or a device."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "is a pipe or a device, not a regular file")


def check_safetensors(path: Path) -> None:
    """Raise ``OSError`` for no regular file, or an enormous header."""
    with open_to_read(path) as file:
        size = int.from_bytes(file.read(8), "little")
    if size > LARGEST_HEADER:
        raise OSError(f"its header has {size:,} bytes, expected at most {LARGEST_HEADER:,}")


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file; ``ValueError`` for more than ``max_bytes``."""
    with open_to_read(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"has more than {max_bytes:,} bytes")
    return data


def read_json_file(path: Path, max_bytes: int = LARGEST_JSON) -> Any:
    """The value in a file of JSON."""
    return json.loads(read_bounded(path, max_bytes).decode())


def read_json_lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file; those above ``LARGEST_JSON`` bytes in pieces."""
    with open_to_read(path) as file:
        yield from iter(partial(file.readline, LARGEST_JSON), b"")


def open_to_append(path: Path) -> TextIO:
    """A regular file of UTF-8 to append to, made if missing."""
    refuse_link(path)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file")
    return os.fdopen(handle, "a+", encoding="utf-8")


def lock_file(file: TextIO) -> None:
    """Lock an open file; ``OSError`` if another process has."""
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def storage_errors(place: Path | str, advice: str = FREE_SPACE) -> Iterator[None]:
    """Raise ``StorageError`` with ``advice`` for an ``OSError`` in the block."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{place}: cannot be written: {error.strerror or error}. {advice}") from error


@contextmanager
def write_durably(path: Path) -> Iterator[TextIO]:
    """A stream that replaces ``path``, on disk, if the block ends without an error."""
    # Random, so that nobody can plant a link there; short, since the file's own name may be long.
    temporary = path.with_name(f".{secrets.token_hex(8)}{WRITING}")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as stream:
            if path.is_file() and not path.is_symlink():
                shutil.copymode(path, temporary)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_sealed_json(path: Path, form: int, values: Mapping[str, Any], *, indent: int | None = None) -> None:
    """Save values as JSON with a format number and a SHA-256 sum."""
    sealed = {"format": form, **values}
    sealed["sha256"] = json_sha256(sealed)
    refuse_link(path)
    with write_durably(path) as stream:
        json.dump(sealed, stream, indent=indent)


def read_sealed_json(path: Path, form: int, max_bytes: int) -> dict[str, Any]:
    """What ``write_sealed_json`` saved."""
    values = read_json_file(path, max_bytes)
    if not isinstance(values, dict) or not {"format", "sha256"} <= values.keys():
        raise ValueError("expected an object with format and sha256")
    if values["format"] != form:
        raise ValueError(f"found format {values['format']!r:.40}, but this version reads {form}")
    if values.pop("sha256") != json_sha256(values):
        raise ValueError("it does not match its SHA-256 sum")
    del values["format"]
    return values


def check_output(path: Path) -> None:
    """Raise the ``OSError`` of ``write_output`` in advance; also for a pipe."""
    place = real_path(path)
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a directory")
    if place.is_fifo() and not _is_stream(path):
        raise OSError(errno.EINVAL, "is a pipe, expected a file")
    if not is_written_in_place(path):
        _try_to_write(place.parent)
    elif not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def check_directory(path: Path) -> None:
    """Raise in advance the ``OSError`` of writing to a directory."""
    place = real_path(path)
    _try_to_write(next(each for each in (place, *place.parents) if each.exists()))


def _try_to_write(directory: Path) -> None:
    trial = directory / f".{secrets.token_hex(8)}{WRITING}"
    trial.touch(exist_ok=False)
    trial.unlink()


def _is_stream(path: Path) -> bool:
    return str(path.absolute().parent) in {"/dev", "/dev/fd", "/proc/self/fd"}


def is_written_in_place(path: Path) -> bool:
    """Whether it is a device, or a file whose directory takes no new files."""
    place = real_path(path)
    return _is_stream(path) or (place.exists() and not (place.is_file() and os.access(place.parent, os.W_OK)))


@contextmanager
def write_output(path: Path) -> Iterator[TextIO]:
    """``write_durably`` for a file that a person names: a link, a device."""
    in_place = is_written_in_place(path)
    if in_place and path.is_file():
        logger.warning("%s: its directory takes no new files, so it is written over: a stop leaves half of it.", path)
    opened = path.open("w", encoding="utf-8", newline="\n") if in_place else write_durably(real_path(path))
    with opened as stream:
        yield stream


def real_path(path: Path) -> Path:
    """The path without links; no error for a loop."""
    return Path(os.path.realpath(path))


def hidden_names(name: str) -> tuple[str, str]:
    """Names for the lock of a file and for what is unfinished of it."""
    key = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return f".{key}.lock", f".{key}{WRITING}"


def is_unfinished(name: str) -> bool:
    """Whether ``write_durably`` has not finished the file of that name."""
    return re.fullmatch(rf"\.[0-9a-f]{{16}}{re.escape(WRITING)}", name) is not None


def remove_unfinished(directory: Path) -> None:
    """Delete what killed processes left; for the one process that writes there."""
    for path in directory.glob(f".*{WRITING}"):
        if is_unfinished(path.name):
            remove(path)
