"""Files that end: a pipe or a device in the place of one would be read for ever. Knows no contents."""

import errno
from pathlib import Path


def refuse_endless(path: Path) -> None:
    """Raise ``OSError`` where ``path`` is there and is no regular file."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no regular file")
