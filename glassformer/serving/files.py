"""Files that clients send and fetch: for a while, under names that cannot be guessed."""

import shutil
import tempfile
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from glassformer.serving.refusal import Refusal, bad_request
from glassformer.text.formats import endings, find_format

_SECONDS, _MAX_FILES = 900.0, 200
_GZIP_MAGIC = b"\x1f\x8b"


class Upload(NamedTuple):
    """A file that a client sends; the door limits its size."""

    name: str
    content: bytes


def file_endings() -> list[str]:
    """Those of the formats that are translated in their own form."""
    return endings(lambda each: each.segments)


@dataclass(frozen=True)
class KeptFile:
    """A translated file and its name for the client."""

    path: Path
    name: str
    until: float


class Files:
    """Translated files by their ids; each is deleted after a quarter of an hour, or when there are too many."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="glassformer-"))
        self._kept = OrderedDict[str, KeptFile]()

    def receive(self, upload: Upload) -> Path:
        """Write what a client sends to a directory of its own; ``Refusal`` for an unknown kind and an empty file."""
        name = Path(upload.name).name
        if find_format(Path(name)).segments is None:
            raise bad_request("file format not supported")
        if not upload.content:
            raise bad_request("empty file")
        if upload.content.startswith(_GZIP_MAGIC):
            raise bad_request("the file is packed, expected it as it is")
        directory = self._directory / token_hex(16)
        directory.mkdir()
        path = directory / f"file{Path(name).suffix.lower()}"
        path.write_bytes(upload.content)
        return path

    def keep(self, path: Path, name: str) -> str:
        """The id by which a file can be fetched from now on."""
        number = token_hex(16)
        self._kept[number] = KeptFile(path, name, time.monotonic() + _SECONDS)
        self._forget()
        return number

    def find(self, number: str) -> KeptFile:
        """A file that is kept; ``Refusal`` for any other."""
        self._forget()
        if number not in self._kept:
            raise Refusal(404, "there is no such file: a translated file is kept for 15 minutes. Send it again")
        return self._kept[number]

    def remove(self, number: str) -> None:
        """Forget a file."""
        shutil.rmtree(self._kept.pop(number).path.parent, ignore_errors=True)

    def _forget(self) -> None:
        while self._kept:
            number, oldest = next(iter(self._kept.items()))
            if len(self._kept) <= _MAX_FILES and oldest.until > time.monotonic():
                return
            self.remove(number)

    def close(self) -> None:
        """Delete all."""
        shutil.rmtree(self._directory, ignore_errors=True)
