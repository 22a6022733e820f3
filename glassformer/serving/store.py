"""What a server keeps for its clients for a while, under ids that cannot be guessed."""

import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Generic, NamedTuple, TypeVar

from glassformer.serving.http_errors import bad_request
from glassformer.text.formats import endings, find_format

T = TypeVar("T")
_SECONDS, _MAX_FILES = 900.0, 200
_GZIP_MAGIC = b"\x1f\x8b"


def new_id() -> str:
    """128 random bits."""
    return token_hex(16)


class Store(Generic[T]):
    """Items in memory by id, at most ``most`` for at most ``seconds``; ``forget`` is called with each that goes."""

    def __init__(
        self, most: int, seconds: float = float("inf"), forget: Callable[[T], None] = lambda _: None
    ) -> None:
        self._most, self._seconds, self._forget = most, seconds, forget
        self._kept = OrderedDict[str, tuple[T, str, float]]()

    def keep(self, number: str, item: T, owner: str = "") -> None:
        """Keep an item for one client, or for anybody who knows its id."""
        self._kept[number] = (item, owner, time.monotonic() + self._seconds)
        self._remove_old()

    def find(self, number: str, owner: str = "") -> T | None:
        """An item of this client; None if it is not kept."""
        self._remove_old()
        item, item_owner, _ = self._kept.get(number, (None, "", 0.0))
        return item if item_owner == owner else None

    def of(self, owner: str) -> list[T]:
        """All items of a client."""
        return [item for item, item_owner, _ in self._kept.values() if item_owner == owner]

    def take(self, number: str) -> T:
        """Remove an item without forgetting it."""
        return self._kept.pop(number)[0]

    def _remove_old(self) -> None:
        while self._kept:
            number, (_, _, until) = next(iter(self._kept.items()))
            if len(self._kept) <= self._most and until > time.monotonic():
                return
            self._forget(self.take(number))


class Upload(NamedTuple):
    """A file that a client sends."""

    name: str
    content: bytes


def file_endings() -> list[str]:
    """Of all formats that can be translated."""
    return endings(lambda each: each.segments)


class Files:
    """Files of clients, each in its own directory; ``kept`` has translated ones with their names."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="glassformer-"))
        self.kept = Store[tuple[Path, str]](_MAX_FILES, _SECONDS, lambda kept: delete(kept[0]))

    def receive(self, upload: Upload) -> Path:
        """Write a file to a directory of its own; ``HTTPError`` for an unknown kind and an empty file."""
        name = Path(Path(upload.name).name)
        if find_format(name).segments is None:
            raise bad_request("file format not supported")
        if not upload.content:
            raise bad_request("empty file")
        if upload.content.startswith(_GZIP_MAGIC):
            raise bad_request("the file is packed, expected it as it is")
        path = self.directory / new_id() / f"file{name.suffix.lower()}"
        path.parent.mkdir()
        path.write_bytes(upload.content)
        return path

    def close(self) -> None:
        """Delete all."""
        shutil.rmtree(self.directory, ignore_errors=True)


def delete(path: Path) -> None:
    """Delete a file with its directory."""
    shutil.rmtree(path.parent, ignore_errors=True)
