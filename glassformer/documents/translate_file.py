"""Translates a file: finds its segments, translates them, puts the translations in, and checks the result.

Only the characters of the segments change; all others are written as they were read. A translation that may have lost
something is filled in and reported.
"""

import gc
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.documents import journal as journals
from glassformer.documents.checklist import DocumentReport, Remark
from glassformer.documents.filling import Filling
from glassformer.documents.glossary import Glossary
from glassformer.documents.journal import Journal
from glassformer.documents.memory import Memory
from glassformer.documents.menu_marks import read_menu_mark
from glassformer.errors import StorageError, TextError, check_path, check_type
from glassformer.files import write_output
from glassformer.settings import DecodeConfig
from glassformer.text.codes.code import Parts
from glassformer.text.formats import FormatOptions, endings, find_format
from glassformer.text.formats.encodings import read_text
from glassformer.text.formats.segment import FileSegment
from glassformer.text.steps.codes import read_codes
from glassformer.text.steps.passage import STEPS
from glassformer.text.steps.step import Step

Progress = Callable[[int, int], None]
"""Called with how many segments are done, and of how many."""


@runtime_checkable
class _Translates(Protocol):
    translate_requests: Any


class FileTranslator:
    """Translates files with one translator, one set of options, and a glossary and a memory if there are some."""

    def __init__(
        self,
        translator: Translator,
        options: DecodeConfig | None = None,
        *,
        glossary: Glossary | None = None,
        memory: Memory | None = None,
        split: bool = True,
        check_content: bool = True,
        progress: Progress | None = None,
        key: str | None = None,
    ) -> None:
        """``split``: each sentence of a text is translated separately, else each of its lines.

        ``check_content``: whether a short translation lacks a word is seen by its attention, which is computed.

        ``key`` changes with the translator and its options. With it a call of ``translate`` that was stopped is
        continued by the next one to the same output: what it had done is kept in a hidden file next to that.
        """
        check_type("glossary", glossary, Glossary | None, "a Glossary; Glossary.read gives one")
        check_type("memory", memory, Memory | None, "a Memory; Memory.read gives one")
        check_type("progress", progress, Callable | None, "a function of how many texts are done, and of how many")
        check_type("split", split, bool, "True or False")
        check_type("check_content", check_content, bool, "True or False")
        check_type("key", key, str | None, "a str")
        self.translator, self.options = translator, _file_options(translator, options, split)
        self.glossary, self.memory, self.progress = glossary, memory, progress
        self.key, self.check_content = key, check_content
        self.steps = file_steps(memory)

    def translate(self, path: Path, out: Path, columns: FormatOptions | None = None) -> DocumentReport:
        """Translate the segments of ``path`` and write the file with them to ``out``, whole or not at all.

        Raises ``TextError`` for an unknown kind of file and for one that is damaged, ``StorageError`` if ``out``
        cannot be written, or if another process translates to it.
        """
        path, out = check_path("path", path), check_path("out", out)
        check_type("columns", columns, FormatOptions | None, "FormatOptions")
        journal = Journal(out, self.key)
        with ExitStack() as ended, _without_garbage_collection():
            ended.push(journal.close)
            return self._translate(path, out, columns, journal)

    def _translate(self, path: Path, out: Path, columns: FormatOptions | None, journal: Journal) -> DocumentReport:
        languages = getattr(self.translator, "languages", None)  # a file all of whose texts are known needs no model
        columns, file_format = complete_options(columns, path, languages), find_format(path)
        find = find_segments(path, columns)
        text, encoding = read_text(path, file_format.charset)
        body = text.removeprefix("\ufeff")
        segments = [segment for segment in find(body) if not segment.is_blank]
        report = DocumentReport(segments=len(segments))
        self.steps = file_steps(self.memory, has_menu_marks=file_format.has_menu_marks)
        results = self._translate_segments(segments, report, journal)
        self._report(segments, results, report)
        count = count_segments(path, columns)
        filled, unfit = Filling(body, count, segments, results, is_bilingual=file_format.is_bilingual).fill()
        for number in unfit:
            remark = "left as it was: with its translation the file would have another form"
            report.flagged.append(Remark(segments[number].line, segments[number].text, results[number].text, remark))
        try:
            with write_output(out) as stream:
                stream.buffer.write(file_format.encode(text[: len(text) - len(body)] + filled, encoding))
        except OSError as error:
            raise StorageError(f"{out}: cannot be written: {error.strerror or error}. Name another file.") from error
        return report

    def _translate_segments(
        self, segments: Sequence[FileSegment], report: DocumentReport, journal: Journal
    ) -> list[Translation]:
        """The translation of each segment, in chunks; those that the journal has are not translated again."""
        texts = list(dict.fromkeys(segment.parts for segment in segments))
        terms = [[each.src, each.forms] for each in self.glossary.terms] if self.glossary is not None else []
        known, results = iter(journal.begin([texts, terms])), dict[Parts, Translation]()
        size = max(1, len(texts)) if journal.file is None else journals.TEXTS_PER_CHUNK
        for start in range(0, len(texts), size):
            chunk, done = texts[start : start + size], next(known, None)
            if done is None:
                done = self.translate_texts(chunk)
                journal.append(done)
            else:
                report.resumed += len(chunk)
            results.update(zip(chunk, done, strict=True))
            if self.progress is not None:
                self.progress(len(results), len(texts))
        return [results[segment.parts] for segment in segments]

    def translate_texts(self, texts: Sequence[Parts]) -> list[Translation]:
        """The translation of each text with its codes."""
        check_type("translator", self.translator, _Translates, "a Translator; Translator.load gives one")
        review = None
        if self.glossary is not None:
            options = self.options or self.translator.config
            review = partial(self.glossary.review, translator=self.translator, options=options)
        requests = [Request(text) for text in texts]
        return self.translator.translate_requests(
            requests, self.options, steps=self.steps, check_content=self.check_content, review=review
        )

    def _report(
        self, segments: Sequence[FileSegment], results: Sequence[Translation], report: DocumentReport
    ) -> None:
        """List what should be looked at, and what the memory has that is alike."""
        near = dict[str, str | None]()
        for segment, result in zip(segments, results, strict=True):
            source, memory, notes = segment.text, self.memory, result.notes
            is_known = memory is not None and memory.exact(source) is not None
            report.from_memory += is_known
            if memory is not None and not is_known:
                if source not in near:
                    near[source] = memory.describe_near(source)
                notes = (*notes, *filter(None, [near[source]]))
            flags = (*result.flags, *segment.doubts(result.parts))
            report.flagged += [Remark(segment.line, source, result.text, flag) for flag in flags]
            report.notes += [Remark(segment.line, source, result.text, note) for note in notes]


def file_steps(memory: Memory | None, *, has_menu_marks: bool = False) -> tuple[Step, ...]:
    """The steps that a text of a file passes: what a memory has comes first, menu marks once codes are found."""
    codes = STEPS.index(read_codes) + 1
    known = () if memory is None else (memory.read_known,)
    marks = (read_menu_mark,) if has_menu_marks else ()
    return (*known, *STEPS[:codes], *marks, *STEPS[codes:])


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The block makes millions of objects, none in circles: to look for these would take a third of its time."""
    is_on = gc.isenabled()
    if threading.active_count() == 1:
        gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def complete_options(options: FormatOptions | None, path: Path, languages: tuple[str, str] | None) -> FormatOptions:
    """The options with the target language of a model, where neither they nor the file names one."""
    options, file_format = options or FormatOptions(), find_format(path)
    if options.language is not None or languages is None or "language" not in file_format.options:
        return options
    named = [] if file_format.languages is None else file_format.languages(path)
    return options if len(named) == 2 else replace(options, language=languages[1])


def find_segments(path: Path, options: FormatOptions) -> Callable[[str], list[FileSegment]]:
    """What finds the segments in the text of such a file; ``TextError`` for a format that is not translated."""
    file_format = find_format(path)
    if file_format.segments is None:
        forms = ", ".join(endings(lambda each: each.segments))
        advice = "Save the text in one of these forms; only text itself can be read from standard input."
        if path.suffix == ".gz":
            advice = f"Unpack it: gunzip -k {shlex.quote(str(path))}"
        raise TextError(f"{path}: expected a file ending in {forms}. {advice}")
    return partial(file_format.segments, path=path, **file_format.select(options))


def count_segments(path: Path, options: FormatOptions) -> Callable[[str], int]:
    """What counts the segments in the text of such a file that are not blank."""
    find, file_format = find_segments(path, options), find_format(path)
    if file_format.count is not None:
        return partial(file_format.count, path=path, **file_format.select(options))
    return lambda text: sum(not segment.is_blank for segment in find(text))


def _file_options(translator: Translator, options: DecodeConfig | None, split: bool) -> DecodeConfig | None:
    """The options of texts in a file: their codes are kept, and what has no word is copied."""
    options = getattr(translator, "config", None) if options is None else options
    if not isinstance(options, DecodeConfig):
        return options
    return replace(options, keep_codes=True, copy_wordless=True, split_sentences=split)
