"""Translates a file: finds its segments, translates them, puts the translations in, and checks the result.

Only the characters of the segments change; all others are written as they were read. A translation that may have lost
something is filled in and reported.
"""

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.documents.alignment import content_doubts, is_short
from glassformer.documents.checks import changes
from glassformer.documents.draft import Draft, make_draft, mark_numbers
from glassformer.documents.filling import Filling
from glassformer.documents.glossary import Glossary
from glassformer.documents.journal import Journal
from glassformer.documents.memory import Memory
from glassformer.documents.parts_writer import keep_spaces
from glassformer.documents.report import DocumentReport, Remark
from glassformer.documents.restore import ModelScore, Result, is_better, needs_attention, restore
from glassformer.documents.segment_texts import Parts, SegmentTexts, is_crowded
from glassformer.errors import StorageError, TextError, check_path, check_type
from glassformer.files import write_output
from glassformer.settings import DecodeConfig
from glassformer.text.formats import FormatOptions, endings, find_format
from glassformer.text.formats.encodings import read_text
from glassformer.text.formats.segment import FileSegment, Part
from glassformer.text.lines import is_blank
from glassformer.text.sentence_splitter import split_lines, split_sentences

ATTEMPTS = 2  # with stand-ins for codes
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
        continued by the next one to the same output: what it had done is kept in a hidden file beside that.
        """
        check_type("glossary", glossary, Glossary | None, "a Glossary; Glossary.read gives one")
        check_type("memory", memory, Memory | None, "a Memory; Memory.read gives one")
        check_type("progress", progress, Callable | None, "a function of how many texts are done, and of how many")
        check_type("split", split, bool, "True or False")
        check_type("check_content", check_content, bool, "True or False")
        check_type("key", key, str | None, "a str")
        self.translator, self.options = translator, options
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
        with Journal(out, self.key) as journal:
            return self._translate(path, out, columns, journal)

    def _translate(self, path: Path, out: Path, columns: FormatOptions | None, journal: Journal) -> DocumentReport:
        languages = getattr(self.translator, "languages", None)  # a file all of whose texts are known needs no model
        columns, file_format = complete_options(columns, path, languages), find_format(path)
        find = find_segments(path, columns)
        text, encoding = read_text(path, file_format.charset)
        body = text.removeprefix("\ufeff")
        with _without_garbage_collection():
            segments = [segment for segment in find(body) if not is_blank(segment.text)]
        report = DocumentReport(segments=len(segments))
        results = self._translate_segments(segments, report, journal)
        with _without_garbage_collection():
            filled, unfit = Filling(body, find, segments, results, is_bilingual=file_format.is_bilingual).fill()
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
        """Translate texts with codes: without these, and with stand-ins for those that carry grammar.

        What lost a number or a sign is tried again with these as codes.
        """
        results = {parts: Result(parts) for parts in waiting if not _has_words(parts)}
        results |= {
            parts: Result(parts, (_CROWDED,)) for parts in waiting if parts not in results and is_crowded(parts)
        }
        again = marked = {source: source for source in waiting if source not in results}
        chosen = dict[Parts, tuple[Draft, Translation]]()
        for attempt in range(ATTEMPTS):
            drafts = [(source, make_draft(parts)) for source, parts in again.items()]
            drafts += [(source, make_draft(parts, attempt)) for source, parts in marked.items()]
            with_words, failed = list[tuple[Parts, Draft, Translation]](), dict[Parts, Parts]()
            for source, draft, translation in self._translate_drafts(drafts):
                if draft.words:
                    with_words.append((source, draft, translation))
                else:
                    chosen[source] = draft, translation
            for source, draft, translation in with_words:
                result = self._restore(source, draft, translation)
                if result is None or changes(source, result.parts) or not is_better(chosen[source][1], translation):
                    failed[source] = marked[source]
                    continue
                chosen[source] = draft, translation
                results[source] = self._finish(result, [], translation)
            plain = {source: chosen[source] for source in again if not chosen[source][0].words}
            again = self._finish_plain(results, plain)
            marked = failed | again
        self._place_pairs(results, chosen)
        if self.check_content:
            self._check_content(results, {source: translation for source, (_, translation) in chosen.items()})
        if self.glossary is not None:
            self.glossary.apply(self.translator, results, self._check_translation, self.options)
        return results

    def _finish_plain(
        self, results: dict[Parts, Result], plain: Mapping[Parts, tuple[Draft, Translation]]
    ) -> dict[Parts, Parts]:
        """Add the results of drafts without stand-ins; return what lost a number or a sign, with these as codes."""
        marked = dict[Parts, Parts]()
        for source, (draft, translation) in plain.items():
            result = self._restore(source, draft, translation)
            assert result is not None, "a text without stand-ins is always restored"
            results[source] = self._finish(result, lost := changes(source, result.parts), translation)
            if lost and (numbered := mark_numbers(source)) != source and not is_crowded(numbered):
                marked[source] = numbered
        return marked

    def _place_pairs(self, results: dict[Parts, Result], chosen: Mapping[Parts, tuple[Draft, Translation]]) -> None:
        """Look again for the places of pairs without words in the translation: their own text is translated alone."""
        waiting = [source for source in chosen if results[source].unplaced]
        texts = list(dict.fromkeys(text for source in waiting for text in results[source].unplaced))
        alone = self.translator.translate_stream(list(map(Request, texts)), self.options) if texts else ()
        own = dict(zip(texts, (one.text for one in alone), strict=True))
        for source in waiting:
            draft, translation = chosen[source]
            result = self._restore(source, draft, translation, own)
            assert result is not None, "it was restored before"
            results[source] = self._finish(result, changes(source, result.parts), translation)

    def _restore(
        self, source: Parts, draft: Draft, translation: Translation, own: Mapping[str, str] | None = None
    ) -> Result | None:
        """The translation with its codes, as ``restore`` has it, and with the white space of its source."""
        result = restore(draft, translation, self._token_ends, own or {})
        return None if result is None else replace(result, parts=keep_spaces(source, result.parts))

    def _check_content(self, results: dict[Parts, Result], translations: dict[Parts, Translation]) -> None:
        """Flag what seems to lack a word of its source; of short translations the attention is looked at."""
        confidence = self.translator.confidence
        short = [
            source
            for source, one in translations.items()
            if set(results[source].flags) <= {one.warning}
            and one.hypotheses[0].attention is None
            and is_short(one, confidence)
        ]
        asked = [translations[source] for source in short]
        seen = self.translator.add_attention(asked, self.options) if short else ()
        for source, translation in zip(short, seen, strict=True):
            doubts = content_doubts(translation, confidence, self._token_ends)
            results[source] = replace(results[source], flags=(*results[source].flags, *doubts))

    def _finish(self, result: Result, lost: Sequence[str], translation: Translation) -> Result:
        """The result with flags: what it has ``lost``, and doubts."""
        doubts = _flags(translation, translation.warning)
        if set(doubts) <= {translation.warning}:
            doubts += content_doubts(translation, self.translator.confidence, self._token_ends)
        scores = (ModelScore.from_translation(translation),)
        return replace(result, flags=(*result.flags, *lost, *doubts), scores=scores)

    @staticmethod
    def _check_translation(source: Parts, translation: Translation) -> Result:
        """A translation with required terms; what these cost says more than the confidence."""
        lost = changes(source, (translation.text,))
        flags, scores = (*lost, *_flags(translation, None)), (ModelScore.from_translation(translation),)
        return Result(keep_spaces(source, (translation.text,)), flags, scores=scores)

    def _translate_drafts(
        self, drafts: Sequence[tuple[Parts, Draft | None]]
    ) -> list[tuple[Parts, Draft, Translation]]:
        """The translation of each draft that there is, those without stand-ins first.

        It has attention, which takes memory and time, if the codes need it.
        """
        check_type("translator", self.translator, _Translates, "a Translator; Translator.load gives one")
        groups: dict[bool, list[tuple[Parts, Draft]]] = {False: [], True: []}
        for source, draft in drafts:
            if draft is not None:
                groups[needs_attention(draft)].append((source, draft))
        found = []
        for attention, group in groups.items():
            requests = [Request(draft.text) for _, draft in group]
            translations = self.translator.translate_stream(requests, self.options, attention=attention)
            found += [(*one, translation) for one, translation in zip(group, translations, strict=True)]
        return sorted(found, key=lambda one: bool(one[1].words))

    def _token_ends(self, translation: Translation) -> tuple[list[int], list[int]]:
        """Where each token ends, in the characters of a source and of its translation."""
        translator = self.translator
        src = [end for _, end in translator.src_tokenizer.offsets(translation.source)]
        return src, translator.tgt_tokenizer.ends(translation.hypotheses[0].ids)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The block makes millions of objects, none of them in circles; to look for these would take half of its time."""
    is_on = gc.isenabled()
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
        raise TextError(
            f"{path}: expected a file ending in {', '.join(endings(lambda each: each.segments))}. Save the text in "
            "one of these forms; only text itself can be read from standard input."
        )
    return partial(file_format.segments, path=path, **file_format.select(options))


def _has_words(parts: Sequence[Part]) -> bool:
    """Whether there is a letter outside the codes, and so something to translate."""
    return any(isinstance(part, str) and any(map(str.isalpha, part)) for part in parts)


def _flags(translation: Translation, doubt: str | None) -> list[str]:
    flags = [] if doubt is None else [doubt]
    if translation.source_truncated:
        flags.append("longer than the model takes; its end was not translated")
    if limited := translation.limit_warning:
        flags.append(limited)
    if is_blank(translation.text):
        flags.append("the translation is empty")
    return flags
