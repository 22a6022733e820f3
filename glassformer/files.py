"""Regular files and durable writes.

A reader refuses a pipe or a device in the place of a file, because it might never end. A writer writes beside the
file, forces the data to disk and renames, so that a reader finds either the old contents or the new ones.
"""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

WRITING = ".writing"  # what the name of a file that is being written ends with


def require_regular_file(path: Path) -> None:
    """Raise ``OSError`` if ``path`` exists but is not a regular file."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is not a regular file")


def sha256(path: Path) -> str:
    """The SHA-256 sum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Force a file, or the entries of a directory, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replace_file(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text stream whose contents replace the file ``path`` if the block ends without an error.

    Raises ``OSError`` if it cannot be written; the file then keeps its old contents.
    """
    temporary = path.with_name(path.name + WRITING)
    with temporary.open("w", encoding="utf-8", newline="\n") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
