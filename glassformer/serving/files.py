"""Files that clients send and fetch: for a while, under names that cannot be guessed."""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from glassformer.serving.refusal import Refusal, bad_request
from glassformer.serving.store import Store, new_id
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


class KeptFile(NamedTuple):
    """A translated file and its name for the client."""

    path: Path
    name: str


class Files:
    """Files of clients, each in a directory of its own; a translated one is kept for a quarter of an hour."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="glassformer-"))
        self._kept = Store[KeptFile](_MAX_FILES, _SECONDS, lambda kept: delete(kept.path))

    def receive(self, upload: Upload) -> Path:
        """Write what a client sends to a directory of its own; ``Refusal`` for an unknown kind and an empty file."""
        name = Path(upload.name).name
        if find_format(Path(name)).segments is None:
            raise bad_request("file format not supported")
        if not upload.content:
            raise bad_request("empty file")
        if upload.content.startswith(_GZIP_MAGIC):
            raise bad_request("the file is packed, expected it as it is")
        directory = self.directory / new_id()
        directory.mkdir()
        path = directory / f"file{Path(name).suffix.lower()}"
        path.write_bytes(upload.content)
        return path

    def keep(self, path: Path, name: str) -> str:
        """The id by which a file can be fetched from now on."""
        number = new_id()
        self._kept.keep(number, KeptFile(path, name))
        return number

    def find(self, number: str) -> KeptFile:
        """A file that is kept; ``Refusal`` for any other."""
        if (found := self._kept.find(number)) is None:
            raise Refusal(404, "there is no such file: a translated file is kept for 15 minutes. Send it again")
        return found

    def close(self) -> None:
        """Delete all."""
        shutil.rmtree(self.directory, ignore_errors=True)


def delete(path: Path) -> None:
    """Delete a file of a client with its directory."""
    shutil.rmtree(path.parent, ignore_errors=True)
