"""A teacher: a trained run that translates a text for another model to learn from, resumably.

Its translations are kept in a file of JSON strings, one a line, in the order of the texts. What an interrupted
process wrote is reused, in whole chunks, so that the batches, and with them the outputs, are those of one that was
never interrupted.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.checkpoint import MANIFEST, read_json
from glassformer.config import DecodeConfig
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.errors import RunError, StorageError
from glassformer.files import lock_file, open_to_append
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.text.prepare import SECONDS_BETWEEN_LINES, PrepareProgress
from glassformer.training.run_log import Display

_TEXTS_PER_CHUNK = 1000


@dataclass(frozen=True)
class Teacher:
    """A trained run, and how it translates: the search, the device, the engine and its precision."""

    run: Path
    options: DecodeConfig
    device: str = "auto"
    engine: str = "torch"
    precision: str | None = None

    def key(self, *texts: str) -> str:
        """Changes with the weights and the search, on which the translations depend, and with ``texts``."""
        manifest = read_json(RunDirectory(self.run).usable_checkpoint(_ignore_warning) / MANIFEST)
        weights = manifest["files"][f"{WEIGHTS}.safetensors"]["sha256"]
        other = [] if (self.engine, self.precision) == ("torch", None) else [self.engine, self.precision]
        key = json.dumps([weights, self.options.to_mapping(), *other, *texts], sort_keys=True)
        return hashlib.sha256(key.encode()).hexdigest()[:12]

    def translate(self, texts: Sequence[str], file: Path, display: Display) -> list[str]:
        """A translation of each text, kept in ``file``; empty where source or output were truncated.

        What ``file`` holds already is not translated again. Raises ``RunError`` if another process writes it, and
        ``StorageError``.
        """
        done = _read_texts(file)[: len(texts)]
        if len(done) == len(texts):
            return done
        done = done[: len(done) // _TEXTS_PER_CHUNK * _TEXTS_PER_CHUNK]
        left = texts[len(done) :]
        display.log(f"{self.run} translates {len(left):,} texts into {file}.")
        with Translator.load(
            self.run, device=self.device, engine=self.engine, precision=self.precision
        ) as translator:
            stream = translator.translate_stream(left, self.options, chunk=_TEXTS_PER_CHUNK, start=len(done))
            _append_texts(file, done, map(_complete_text, _report_progress(stream, len(left), display)))
        return _read_texts(file)


def _ignore_warning(line: str) -> None:
    """Loading the model says it too."""


def _report_progress(translations: Iterator[Translation], total: int, display: Display) -> Iterator[Translation]:
    """Pass the translations on, and show the progress after each chunk, in which they arrive together."""
    began = shown = time.monotonic()
    for done, translation in enumerate(translations, 1):
        if done % _TEXTS_PER_CHUNK == 0:
            now = time.monotonic()
            due = now - shown >= SECONDS_BETWEEN_LINES
            display.on_prepare(PrepareProgress("translated", done, total, now - began), due=due)
            shown = now if due else shown
        yield translation


def _read_texts(path: Path) -> list[str]:
    """The complete lines of a file that may have been cut short; none of a missing or damaged one."""
    try:
        lines = path.read_text(encoding="ascii").split("\n")[:-1]
        texts = [str(json.loads(line)) for line in lines]
    except (OSError, ValueError, RecursionError):
        return []
    return texts if list(map(json.dumps, texts)) == lines else []


def _append_texts(path: Path, done: Sequence[str], more: Iterator[str]) -> None:
    """Write ``more`` behind the lines of ``done``, which stay; what follows them was cut short and is dropped."""
    try:
        with open_to_append(path) as stream:
            try:
                lock_file(stream)
            except OSError as error:
                raise RunError(f"{path}: is being written by another process. Wait for it, or stop it.") from error
            stream.truncate(sum(len(json.dumps(text)) + 1 for text in done))
            stream.writelines(f"{json.dumps(text)}\n" for text in more)
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror or error}. Free some space; the same command resumes."
        ) from error


def _complete_text(translation: Translation) -> str:
    """Its text; empty if the source or the output was truncated, or if the output is not text."""
    truncated = translation.source_truncated or translation.hypotheses[0].truncated
    return "" if truncated or "\0" in translation.text else translation.text
