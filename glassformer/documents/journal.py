"""What the translation of a file has done so far, in a hidden file next to the output: who stops it loses little.

The texts are translated in chunks of one size, so that the batches are those of a process that was never stopped. The
first line is a key of the texts and of all that translates them, each further line a chunk with its sum.
"""

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TextIO

from glassformer.decoding.translation import EMPTY, Translation
from glassformer.errors import StorageError
from glassformer.files import (
    hidden_names,
    is_written_in_place,
    json_sha256,
    lock_file,
    open_to_append,
    read_json_lines,
    real_path,
    storage_errors,
)
from glassformer.text.codes.code import Code, join_parts

TEXTS_PER_CHUNK = 500
logger = logging.getLogger(__name__)


class Journal:
    """The translations, chunk after chunk, for the output ``out``; ``key`` changes with all that translates.

    Without a key, and for an output that is written in place, none are kept. Its file is deleted at the end, unless
    there is an error.
    """

    def __init__(self, out: Path, key: str | None) -> None:
        self._out, place = out, real_path(out)
        self.path = place.with_name(hidden_names(place.name)[1])
        self._key = None if is_written_in_place(out) else key
        self.file: TextIO | None = None
        self._lines = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self.file is None:
            return
        self.file.close()
        if error is None or self._lines < 2:  # nothing but the key
            self.path.unlink(missing_ok=True)
        else:
            logger.warning("%s: what was translated is kept: the same command continues.", self._out)

    def begin(self, texts: Sequence[Any]) -> list[list[Translation]]:
        """The chunks that are kept of these very texts; ``StorageError`` if another process writes them."""
        if self._key is None:
            return []
        self._key, size, done = json_sha256([self._key, texts]), 0, list[list[Translation]]()
        try:
            self.file = open_to_append(self.path)
        except OSError as error:
            logger.warning(
                "%s: cannot be written (%s), so that a stop loses what is done.", self.path, error.strerror
            )
            return []
        try:
            lock_file(self.file)
        except OSError as error:
            self.file.close()
            self.file = None
            raise StorageError(
                f"{self._out}: another process translates to the same file. Wait for it, or name another file."
            ) from error
        for raw in read_json_lines(self.path):
            try:
                done += [self._read_line(json.loads(raw))] if self._lines else self._check_key(json.loads(raw))
            except (ValueError, TypeError, RecursionError):
                if raw.endswith(b"\n"):  # else its writer was killed
                    logger.warning("%s: is of other texts, or damaged; the rest is translated anew.", self.path)
                break
            self._lines, size = self._lines + 1, size + len(raw)
        with storage_errors(self.path, "Free some space; the same command continues."):
            self.file.truncate(size)
            if not self._lines:
                self._write(self._key)
        return done

    def append(self, chunk: Sequence[Translation]) -> None:
        """Keep the translations of the next chunk; they are on disk when it returns."""
        if self.file is not None:
            with storage_errors(self.path, "Free some space; the same command continues."):
                values = [[one.source, one.parts, one.flags, one.notes] for one in chunk]
                self._write([self._sum(values), values])

    def _write(self, values: Any) -> None:
        assert self.file is not None
        self.file.write(f"{json.dumps(values)}\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self._lines += 1

    def _sum(self, values: Any) -> str:
        return json_sha256([self._key, self._lines, values])[:16]

    def _check_key(self, key: Any) -> list[Any]:
        if key != self._key:
            raise ValueError
        return []

    def _read_line(self, line: Any) -> list[Translation]:
        total, values = line
        if total != self._sum(values):
            raise ValueError
        found = []
        for source, raws, flags, notes in values:
            parts = tuple(part if isinstance(part, str) else Code(*part) for part in raws)
            best = replace(EMPTY, text=join_parts(parts), parts=parts)
            found.append(Translation(source, [], False, [best], flags=tuple(flags), notes=tuple(notes)))
        return found
