"""A teacher: a trained run that translates a text for another model to learn from, resumably.

Translations are kept one a line, with a sum each. Whole chunks are reused, so that batches and outputs are the same.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.checkpoint import tensors_sha256
from glassformer.decoding.loading import choose_engine
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.errors import RunError
from glassformer.files import json_sha256, lock_file, open_to_append, read_json_lines, storage_errors
from glassformer.run_directory import WEIGHTS, RunDirectory
from glassformer.settings import DecodeConfig
from glassformer.text.corpus.prepare import SECONDS_BETWEEN_LINES, PrepareProgress
from glassformer.training.reporting.run_log import Display

_TEXTS_PER_CHUNK = 1000


@dataclass(frozen=True)
class Teacher:
    """A trained run, and how it translates."""

    run: Path
    options: DecodeConfig
    device: str = "auto"
    engine: str = "auto"
    precision: str | None = None

    def key(self, *texts: str) -> str:
        """Changes with ``to_mapping`` and with ``texts``."""
        made_by = self.to_mapping()
        engine, precision = made_by["engine"], made_by["precision"]
        other = [] if (engine, precision) == ("torch", None) else [engine, precision]
        return json_sha256([made_by["weights"], made_by["search"], *other, *texts])[:12]

    def to_mapping(self) -> dict[str, Any]:
        """What determines the translations."""
        checkpoint = RunDirectory(self.run).usable_checkpoint(lambda _: None)  # loading the model says it too
        engine = choose_engine(self.engine, self.precision)
        return {
            "weights": tensors_sha256(checkpoint, WEIGHTS), "search": self.options.to_mapping(),
            "engine": "torch" if engine == "auto" else engine, "precision": self.precision,
        }  # fmt: skip

    def translate(self, texts: Sequence[str], file: Path, display: Display) -> list[str]:
        """A translation of each text, kept in ``file``; empty if cut."""
        done = _read_translations(file, texts, display)
        if len(done) == len(texts):
            return done
        done = done[: len(done) // _TEXTS_PER_CHUNK * _TEXTS_PER_CHUNK]
        left = texts[len(done) :]
        display.log(f"{self.run} translates {len(left):,} texts into {file}.")
        with Translator.load(
            self.run, device=self.device, engine=self.engine, precision=self.precision
        ) as translator:
            stream = translator.translate_stream(left, self.options, chunk=_TEXTS_PER_CHUNK, start=len(done))
            more = map(_complete_text, _report_progress(stream, len(left), display))
            kept = sum(len(_to_line(*both)) for both in zip(texts, done, strict=False))
            _append(file, kept, map(_to_line, left, more))
        return _read_translations(file, texts, display)


def _report_progress(translations: Iterator[Translation], total: int, display: Display) -> Iterator[Translation]:
    """Pass the translations on, and show the progress."""
    began = shown = time.monotonic()
    for done, translation in enumerate(translations, 1):
        if done % _TEXTS_PER_CHUNK == 0:
            now = time.monotonic()
            due = now - shown >= SECONDS_BETWEEN_LINES
            display.on_prepare(PrepareProgress("translated", done, total, now - began), due=due)
            shown = now if due else shown
        yield translation


def _to_line(text: str, translation: str) -> str:
    """The line of the file: the sum of both, and the translation."""
    return json.dumps([json_sha256([text, translation])[:16], translation]) + "\n"


def _read_translations(path: Path, texts: Sequence[str], display: Display) -> list[str]:
    """Those of the first texts, up to the first that is missing or damaged."""
    if not path.is_file():
        return []
    found: list[str] = []
    for text, raw in zip(texts, read_json_lines(path), strict=False):
        if not raw.endswith(b"\n"):  # its writer was killed
            break
        line = raw[:-1].decode("ascii", "replace")
        try:
            translation = json.loads(line)[1]
        except (ValueError, RecursionError, LookupError, TypeError):
            translation = None
        if not isinstance(translation, str) or _to_line(text, translation) != f"{line}\n":
            display.warn(f"{path}:{len(found) + 1}: is damaged; this text and those after it are translated again.")
            break
        found.append(translation)
    return found


def _append(path: Path, kept: int, lines: Iterator[str]) -> None:
    """Write ``lines`` behind the first ``kept`` bytes; drop the rest."""
    with (
        storage_errors(path, "Free some space; the same command resumes."),
        open_to_append(path) as stream,
    ):
        try:
            lock_file(stream)
        except OSError as error:
            raise RunError(f"{path}: is being written by another process. Wait for it, or stop it.") from error
        stream.truncate(kept)
        stream.writelines(lines)


def _complete_text(translation: Translation) -> str:
    """Its text; empty if a limit cut the source or the output."""
    is_cut = translation.source_truncated or translation.limit_warning is not None
    return "" if is_cut or "\0" in translation.text else translation.text
