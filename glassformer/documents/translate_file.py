"""Translates a file: finds its segments, translates them, puts the translations in, and checks the result.

Only the characters of the segments change; all others are written as they were read. A translation that may have lost
something is filled in and reported.
"""

import gc
import shlex
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from glassformer.decoding.codes.alignment import attends_to_all, content_doubts, is_short, token_ends
from glassformer.decoding.codes.coded_texts import CodedTranslation, NumberedDraft, translate_coded
from glassformer.decoding.codes.parts_writer import keep_spaces
from glassformer.decoding.codes.restore import ModelScore, Result
from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.documents.filling import Filling
from glassformer.documents.glossary import Glossary
from glassformer.documents.journal import Journal
from glassformer.documents.memory import Memory
from glassformer.documents.report import DocumentReport, Remark
from glassformer.documents.segment_texts import SegmentTexts
from glassformer.errors import StorageError, TextError, check_path, check_type
from glassformer.files import write_output
from glassformer.settings import DecodeConfig
from glassformer.text.codes.checks import changes
from glassformer.text.codes.typed import Parts, TypedSentence, has_words, is_crowded, read_typed
from glassformer.text.formats import FormatOptions, endings, find_format
from glassformer.text.formats.encodings import read_text
from glassformer.text.formats.segment import Code, FileSegment
from glassformer.text.lines import is_blank
from glassformer.text.sentence_splitter import split_lines, split_sentences
from glassformer.text.style import PLAIN

_CROWDED = "left as it was: it has too many placeholders, or is too long for them"
Progress = Callable[[int, int], None]
"""Called with how many segments are done, and of how many."""


@runtime_checkable
class _Translates(Protocol):
    translate_stream: Any


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
        self.translator, self.options = translator, _without_codes(translator, options)
        self.glossary, self.memory, self.progress = glossary, memory, progress
        self.key, self.check_content = key, check_content
        language = options.src_language if isinstance(options, DecodeConfig) else ""
        self._split = partial(split_sentences, language=language) if split else split_lines

    def translate(self, path: Path, out: Path, columns: FormatOptions | None = None) -> DocumentReport:
        """Translate the segments of ``path`` and write the file with them to ``out``, whole or not at all.

        Raises ``TextError`` for an unknown kind of file and for one that is damaged, ``StorageError`` if ``out``
        cannot be written, or if another process translates to it.
        """
        path, out = check_path("path", path), check_path("out", out)
        check_type("columns", columns, FormatOptions | None, "FormatOptions")
        with Journal(out, self.key) as journal, _without_garbage_collection():
            return self._translate(path, out, columns, journal)

    def _translate(self, path: Path, out: Path, columns: FormatOptions | None, journal: Journal) -> DocumentReport:
        languages = getattr(self.translator, "languages", None)  # a file all of whose texts are known needs no model
        columns, file_format = complete_options(columns, path, languages), find_format(path)
        find = find_segments(path, columns)
        text, encoding = read_text(path, file_format.charset)
        body = text.removeprefix("\ufeff")
        segments = [segment for segment in find(body) if not segment.is_blank]
        report = DocumentReport(segments=len(segments))
        results = self._translate_segments(segments, report, journal)
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
    ) -> list[Result]:
        """The translation of each segment."""
        plan = SegmentTexts(segments, self.memory, self._split)
        return plan.join(self._translate_chunks(plan.texts, report, journal), report)

    def _translate_chunks(self, texts: list[Parts], report: DocumentReport, journal: Journal) -> dict[Parts, Result]:
        """The translation of each text; those that the journal has are not translated again."""
        terms = [[each.src, each.forms] for each in self.glossary.terms] if self.glossary is not None else []
        kept, results = iter(journal.begin([texts, terms])), dict[Parts, Result]()
        size = journal.texts_per_chunk or max(1, len(texts))
        for start in range(0, len(texts), size):
            chunk, done = texts[start : start + size], next(kept, None)
            if done is None:
                translated = self.translate_texts(chunk)
                done = [translated[parts] for parts in chunk]
                journal.append(done)
            else:
                report.resumed += len(chunk)
            results.update(zip(chunk, done, strict=True))
            if self.progress is not None:
                self.progress(len(results), len(texts))
        return results

    def translate_texts(self, waiting: Collection[Parts]) -> dict[Parts, Result]:
        """Translate texts with codes, and flag what should be looked at."""
        results = {parts: Result(parts) for parts in waiting if not has_words(parts)}
        results |= {
            parts: Result(parts, (_CROWDED,)) for parts in waiting if parts not in results and is_crowded(parts)
        }
        sources = [parts for parts in waiting if parts not in results]
        read = [self._read(parts) for parts in sources]
        found = translate_coded([one.parts for one in read], self._translate_drafts, self._token_ends)
        coded = dict(zip(sources, found, strict=True))
        for (source, one), typed in zip(coded.items(), read, strict=True):
            results[source] = self._finish(one, typed)
        if self.check_content:
            self._check_content(results, {source: one.translation for source, one in coded.items()})
        if self.glossary is not None:
            self.glossary.apply(self.translator, results, self._check_translation, self.options)
        return results

    def _read(self, parts: Parts) -> TypedSentence:
        """A text as the model reads it; the translator itself matches the style of one without codes."""
        matches_style = isinstance(self.options, DecodeConfig) and self.options.match_style
        if matches_style and any(isinstance(part, Code) for part in parts):
            return read_typed(parts, matches_style=True)
        return TypedSentence("", parts, "", PLAIN)

    def _check_content(self, results: dict[Parts, Result], translations: dict[Parts, Translation]) -> None:
        """Flag what seems to lack a word of its source; of short translations the attention is looked at."""
        confidence = self.translator.confidence
        short = [
            source
            for source, one in translations.items()
            if set(results[source].flags) <= {one.warning}
            and one.hypotheses[0].attention is None
            and is_short(one, confidence)
            and not attends_to_all(one, self._token_ends)
        ]
        asked = [translations[source] for source in short]
        seen = self.translator.add_attention(asked, self.options) if short else ()
        for source, translation in zip(short, seen, strict=True):
            doubts = content_doubts(translation, confidence, self._token_ends)
            results[source] = replace(results[source], flags=(*results[source].flags, *doubts))

    def _finish(self, found: CodedTranslation, typed: TypedSentence) -> Result:
        """The best result in the style of its text, with flags: what it has lost, and doubts."""
        result, translation = found.results[0], found.translation
        parts = tuple([part for part in (typed.before, *typed.restore(result.parts), typed.after) if part])
        doubts = _flags(translation, translation.warning)
        if set(doubts) <= {translation.warning}:
            doubts += content_doubts(translation, self.translator.confidence, self._token_ends)
        scores = (ModelScore.from_translation(translation),)
        return Result(parts, (*result.flags, *found.lost, *doubts), result.notes, result.unplaced, scores)

    @staticmethod
    def _check_translation(source: Parts, translation: Translation) -> Result:
        """A translation with required terms; what these cost says more than the confidence."""
        lost = changes(source, (translation.text,))
        flags, scores = (*lost, *_flags(translation, None)), (ModelScore.from_translation(translation),)
        return Result(keep_spaces(source, (translation.text,)), flags, scores=scores)

    def _translate_drafts(self, drafts: Sequence[NumberedDraft], attention: bool) -> Iterator[Translation]:
        check_type("translator", self.translator, _Translates, "a Translator; Translator.load gives one")
        requests = [Request(draft.text) for _, draft in drafts]
        return self.translator.translate_stream(requests, self.options, attention=attention)

    def _token_ends(self, translation: Translation) -> tuple[list[int], list[int]]:
        return token_ends(translation, self.translator.src_tokenizer, self.translator.tgt_tokenizer)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The block makes millions of objects, none in circles, as tests/documents/test_translate_file.py shows; to look
    for these would take a third of its time. Beside other threads, as in a server, they are looked for.
    """
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


def _without_codes(translator: Translator, options: DecodeConfig | None) -> DecodeConfig | None:
    """The options with which a translator takes a text as it is: its codes have been taken out here."""
    options = getattr(translator, "config", None) if options is None else options
    return replace(options, keep_codes=False) if isinstance(options, DecodeConfig) else options


def _flags(translation: Translation, doubt: str | None) -> list[str]:
    flags = [] if doubt is None else [doubt]
    if translation.source_truncated:
        flags.append("longer than the model takes; its end was not translated")
    if limited := translation.limit_warning:
        flags.append(limited)
    if is_blank(translation.text):
        flags.append("the translation is empty")
    return flags
