"""What the translation of a file has done so far, in a hidden file next to the output: who stops it loses little.

The texts are translated in chunks of one size, so that the batches, and with them the translations, are those of a
process that was never stopped. The first line of the file is a key of the texts and of all that translates them; each
further line has the results of a chunk, with a sum of the key and of these. Once the output is written it is deleted.
"""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TextIO

from glassformer.decoding.codes.restore import Result
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
from glassformer.text.formats.segment import Code

TEXTS_PER_CHUNK = 500
logger = logging.getLogger(__name__)
_ADVICE = "Free some space; the same command continues."


class Journal:
    """The results of chunk after chunk for the output ``out``.

    Without a ``key``, which changes with all that translates, and for an output that is written in place, none are
    kept. As a context manager it deletes its file at the end, unless there is an error.
    """

    def __init__(self, out: Path, key: str | None) -> None:
        self._out, place = out, real_path(out)
        self.path = place.with_name(hidden_names(place.name)[1])
        self._key = None if is_written_in_place(out) else key
        self._file: TextIO | None = None
        self._sizes = [0]  # of the file with so many whole lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self._file is None:
            return
        self._file.close()
        if error is None or len(self._sizes) <= 2:  # nothing but the key
            self.path.unlink(missing_ok=True)
        else:
            logger.warning("%s: what was translated is kept: the same command continues.", self._out)

    @property
    def texts_per_chunk(self) -> int | None:
        """None for all texts at once, which is faster where nothing is kept."""
        return None if self._file is None else TEXTS_PER_CHUNK

    def begin(self, texts: Sequence[Any]) -> list[list[Result]]:
        """The results that are kept of these very texts, chunk by chunk; ``StorageError`` if another process writes.

        ``texts`` is all that the translations depend on, apart from the key.
        """
        if self._key is None:
            return []
        self._key = json_sha256([self._key, texts])
        try:
            self._file = open_to_append(self.path)
        except OSError as error:
            logger.warning(
                "%s: cannot be written (%s), so that a stop loses what is done.", self.path, error.strerror or error
            )
            return []
        try:
            lock_file(self._file)
        except OSError as error:
            self._file.close()
            self._file = None
            raise StorageError(
                f"{self._out}: another process translates to the same file. Wait for it, or name another file."
            ) from error
        done = self._read()
        with storage_errors(self.path, _ADVICE):
            self._file.truncate(self._sizes[-1])
            if len(self._sizes) == 1:
                self._write(self._key)
        return done

    def append(self, results: Sequence[Result]) -> None:
        """Keep the results of the next chunk; they are on disk when it returns."""
        if self._file is not None:
            with storage_errors(self.path, _ADVICE):
                values = [[one.parts, one.flags, one.notes] for one in results]
                self._write([self._sum(values), values])

    def _write(self, values: Any) -> None:
        assert self._file is not None
        line = f"{json.dumps(values)}\n"
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._sizes.append(self._sizes[-1] + len(line))

    def _sum(self, values: Any) -> str:
        return json_sha256([self._key, len(self._sizes), values])[:16]

    def _read(self) -> list[list[Result]]:
        """The results up to the first line that is cut short, damaged or of something else."""
        done = []
        for raw in read_json_lines(self.path):
            try:
                values = json.loads(raw)
                if len(self._sizes) > 1:
                    done.append(self._results(values))
                elif values != self._key:
                    raise ValueError
            except (ValueError, TypeError, RecursionError):
                if raw.endswith(b"\n"):  # else its writer was killed
                    again = "the texts from there on are" if done else "all is"
                    found = (
                        "is damaged" if len(self._sizes) > 1 else "is of another text, model or option, or damaged"
                    )
                    logger.warning("%s:%d: %s; %s translated anew.", self.path, len(self._sizes), found, again)
                break
            self._sizes.append(self._sizes[-1] + len(raw))
        return done

    def _results(self, line: Any) -> list[Result]:
        found, values = line
        if found != self._sum(values):
            raise ValueError
        return [
            Result(
                tuple(part if isinstance(part, str) else Code(*part) for part in parts), tuple(flags), tuple(notes)
            )
            for parts, flags, notes in values
        ]
