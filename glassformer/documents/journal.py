"""The part of a file that is translated, kept next to the output: a killed command goes on.

A line is a chunk and a sum of it, of all before it, of all texts and of what translates them.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from glassformer import files
from glassformer.decoding.translation import EMPTY, Translation
from glassformer.errors import StorageError
from glassformer.text.codes.code import Code, join_parts

TEXTS_PER_CHUNK = 500


class Journal:
    """The translations for the output ``out``; none without a ``key``, and for an output that is written in place."""

    def __init__(self, out: Path, key: str | None) -> None:
        self._out, self._key = out, None if files.is_written_in_place(out) else key
        place = files.real_path(out)
        self.path = place.with_name(files.hidden_names(place.name)[1])
        self.file: TextIO | None = None

    def begin(self, texts: Sequence[Any]) -> list[list[Translation]]:
        """The chunks of these very texts that were kept; ``StorageError`` if another process writes them."""
        if self._key is None:
            return []
        self._key, size, done = files.json_sha256([self._key, texts]), 0, list[list[Translation]]()
        with files.storage_errors(self.path):
            file = files.open_to_append(self.path)
            try:
                files.lock_file(file)
            except BlockingIOError as error:
                file.close()
                raise StorageError(f"{self._out}: another process translates to it. Name another file.") from error
            self.file = file
            for raw in files.read_json_lines(self.path):
                total, _, chunk = raw.decode(errors="replace").partition(" ")
                if total != files.json_sha256([self._key, chunk]):  # of other texts, or its writer was killed
                    break
                done.append([_read(*each) for each in json.loads(chunk)])
                self._key, size = total, size + len(raw)
            file.truncate(size)
        return done

    def append(self, results: Sequence[Translation]) -> None:
        """Keep the translations of the next chunk; they are on disk when it returns."""
        if self.file is not None:
            chunk = json.dumps([[one.source, one.parts, one.flags, one.notes] for one in results]) + "\n"
            self._key = files.json_sha256([self._key, chunk])
            with files.storage_errors(self.path):
                self.file.write(f"{self._key} {chunk}")
                self.file.flush()
                os.fsync(self.file.fileno())

    def close(self, error: object, *_: object) -> None:
        """Delete the file, unless an error has left work to go on with."""
        if self.file is not None:
            self.file.close()
            if error is None or not self.path.stat().st_size:
                self.path.unlink(missing_ok=True)


def _read(source: str, raws: Sequence[Any], flags: Sequence[str], notes: Sequence[str]) -> Translation:
    parts = tuple(part if isinstance(part, str) else Code(*part) for part in raws)
    best = replace(EMPTY, text=join_parts(parts), parts=parts)
    return Translation(source, [], False, [best], flags=tuple(flags), notes=tuple(notes))
