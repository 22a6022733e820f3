"""Translates a file: finds its segments, translates them, puts the translations in, and checks the result.

Only the characters of the segments change; all others are written as they were read. A translation that may have lost
something is filled in and reported.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from glassformer.decoding.confidence.confidence import Confidence
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
from glassformer.documents.menu_marks import MenuMark, put_mark, take_mark
from glassformer.documents.parts_writer import keep_spaces
from glassformer.documents.placeholders import find_codes, mark_messages, split_parts
from glassformer.documents.report import DocumentReport, Remark
from glassformer.documents.restore import Result, is_better, needs_attention, restore
from glassformer.errors import StorageError, TextError, check_path, check_type
from glassformer.files import write_output
from glassformer.settings import DecodeConfig
from glassformer.text.formats import FormatOptions, endings, find_format
from glassformer.text.formats.encodings import read_text
from glassformer.text.formats.segment import Code, FileSegment, Part, join_parts
from glassformer.text.lines import is_blank
from glassformer.text.scripts import gap_between
from glassformer.text.sentence_splitter import split_lines, split_sentences

Parts = tuple[Part, ...]
ATTEMPTS = 2  # with stand-ins for codes
_MOST_CODES, _LONGEST_WITH_CODES = 300, 30_000  # of one text, in characters; far beyond any sentence
_CROWDED = "left as it was: it has too many placeholders, or is too long for them"
Progress = Callable[[int, int], None]
"""Called with how many segments are done, and of how many."""


@runtime_checkable
class _Translates(Protocol):
    translate_stream: Any
    languages: Any


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
        progress: Progress | None = None,
        key: str | None = None,
    ) -> None:
        """``split``: each sentence of a text is translated separately, else each of its lines.

        ``key`` changes with the translator and its options. With it a call of ``translate`` that was stopped is
        continued by the next one to the same output: what it had done is kept in a hidden file beside that.
        """
        check_type("glossary", glossary, Glossary | None, "a Glossary; Glossary.read gives one")
        check_type("memory", memory, Memory | None, "a Memory; Memory.read gives one")
        check_type("progress", progress, Callable | None, "a function of how many texts are done, and of how many")
        check_type("split", split, bool, "True or False")
        check_type("key", key, str | None, "a str")
        self.translator, self.options = translator, options
        self.glossary, self.memory, self.progress = glossary, memory, progress
        self.key = key
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
        check_type("translator", self.translator, _Translates, "a Translator; Translator.load gives one")
        columns, file_format = complete_options(columns, path, self.translator.languages), find_format(path)
        find = find_segments(path, columns)
        text, encoding = read_text(path, file_format.charset)
        body = text.removeprefix("\ufeff")
        segments = [segment for segment in find(body) if not is_blank(segment.text)]
        report = DocumentReport(segments=len(segments))
        results = self._translate_segments(segments, report, journal)
        filling = Filling(body, find, segments, results, is_bilingual=file_format.is_bilingual)
        filled, unfit = filling.fill()
        for number in unfit:
            remark = "left as it was: with its translation the file would have another form"
            report.flagged.append(Remark(segments[number].line, segments[number].text, results[number].text, remark))
        try:
            with write_output(out) as stream:
                stream.buffer.write(file_format.encode(text[: len(text) - len(body)] + filled, encoding))
        except OSError as error:
            raise StorageError(f"{out}: cannot be written: {error.strerror or error}. Name another --out.") from error
        return report

    def _translate_segments(
        self, segments: Sequence[FileSegment], report: DocumentReport, journal: Journal
    ) -> list[Result]:
        """The translation of each segment. The memory comes first; the same text is translated once."""
        exact, sentences = dict[Parts, Result](), dict[Parts, list[tuple[Parts, str]]]()
        marks = dict[Parts, MenuMark | None]()
        for segment in segments:
            is_looked_up = self.memory is not None and not _is_crowded(segment.parts)
            known = self.memory.exact(segment.text) if self.memory is not None and is_looked_up else None
            if self.memory is None or known is None:
                parts, marks[segment.parts] = take_mark(segment.parts)
                whole = mark_messages(parts)
                sentences[segment.parts] = split_parts(find_codes(whole), self._split)
                known_parts = set(parts)
                messages = [part for part in whole if isinstance(part, Code) and part not in known_parts]
                sentences |= {
                    (message,): split_parts(find_codes((message.raw,)), self._split) for message in messages
                }
            else:
                exact[segment.parts] = _from_memory(segment, known, self.memory.others(segment.text))
        texts = list(dict.fromkeys(parts for each in sentences.values() for parts, _ in each))
        translated = self._translate_chunks(texts, report, journal)
        joined = {source: _join(each, translated, marks.get(source)) for source, each in sentences.items()}
        results = exact | {source: _put_messages(result, joined) for source, result in joined.items()}
        for segment in segments:
            source, result = segment.text, results[segment.parts]
            text = result.text
            report.from_memory += segment.parts in exact
            flags = *result.flags, *segment.doubts(result.parts)
            report.flagged += [Remark(segment.line, source, text, flag) for flag in flags]
            report.notes += [Remark(segment.line, source, text, note) for note in result.notes]
            near = self.memory.near(source) if self.memory is not None and segment.parts not in exact else None
            if near is not None:
                note = f"the memory has, {near.similarity:.0%} alike: {near.src[:500]!r} -> {near.tgt[:500]!r}"
                report.notes.append(Remark(segment.line, source, text, note))
        return [results[segment.parts] for segment in segments]

    def _translate_chunks(self, texts: list[Parts], report: DocumentReport, journal: Journal) -> dict[Parts, Result]:
        """The translation of each text; those that the journal has are not translated again."""
        terms = [[each.src, each.forms] for each in self.glossary.terms] if self.glossary is not None else []
        kept, results = iter(journal.begin([texts, terms])), dict[Parts, Result]()
        size = journal.texts_per_chunk or max(1, len(texts))
        for start in range(0, len(texts), size):
            chunk, done = texts[start : start + size], next(kept, None)
            if done is None:
                translated = self._translate_texts(chunk)
                done = [translated[parts] for parts in chunk]
                journal.append(done)
            else:
                report.resumed += len(chunk)
            results.update(zip(chunk, done, strict=True))
            if self.progress is not None:
                self.progress(len(results), len(texts))
        return results

    def _translate_texts(self, waiting: Collection[Parts]) -> dict[Parts, Result]:
        """Translate texts with codes: without these, and with stand-ins for those that carry grammar.

        What lost a number or a sign is tried again with these as codes.
        """
        results = {parts: Result(parts) for parts in waiting if not _has_words(parts)}
        results |= {
            parts: Result(parts, (_CROWDED,)) for parts in waiting if parts not in results and _is_crowded(parts)
        }
        marked = {source: source for source in waiting if source not in results}  # which may get better
        references, chosen, again = dict[Parts, Translation](), dict[Parts, tuple[Draft, Translation]](), marked
        for attempt in range(ATTEMPTS):
            drafts = [(source, make_draft(parts)) for source, parts in again.items()]
            drafts += [(source, make_draft(parts, attempt)) for source, parts in marked.items()]
            for source, draft, translation in self._translate_drafts(drafts):
                result = restore(draft, translation, self._token_ends)
                if not draft.words:
                    references[source] = translation
                elif (
                    result is None or changes(source, result.parts) or not is_better(references[source], translation)
                ):
                    continue
                else:
                    del marked[source]
                assert result is not None, "a text without stand-ins is always restored"
                results[source], chosen[source] = self._finish(source, result, translation), (draft, translation)
            again = {
                source: numbered
                for source in marked
                if changes(source, results[source].parts)
                and (numbered := mark_numbers(source)) != source
                and not _is_crowded(numbered)
            }
            marked |= again
        self._place_pairs(results, chosen)
        self._check_content(results, {source: translation for source, (_, translation) in chosen.items()})
        if self.glossary is not None:
            self.glossary.apply(self.translator, results, self._check_translation, self.options)
        return results

    def _place_pairs(self, results: dict[Parts, Result], chosen: Mapping[Parts, tuple[Draft, Translation]]) -> None:
        """Look again for the places of pairs without words in the translation: their own text is translated alone."""
        waiting = [source for source in chosen if results[source].unplaced]
        texts = list(dict.fromkeys(text for source in waiting for text in results[source].unplaced))
        alone = self.translator.translate_stream(list(map(Request, texts)), self.options) if texts else ()
        own = dict(zip(texts, (one.text for one in alone), strict=True))
        for source in waiting:
            draft, translation = chosen[source]
            result = restore(draft, translation, self._token_ends, own)
            assert result is not None, "it was restored before"
            results[source] = self._finish(source, result, translation)

    def _check_content(self, results: dict[Parts, Result], translations: dict[Parts, Translation]) -> None:
        """Flag what seems to lack a word of its source; short translations are made again, to see their attention."""
        confidence = self.translator.confidence
        short = [
            source
            for source, one in translations.items()
            if not results[source].flags and one.hypotheses[0].attention is None and is_short(one, confidence)
        ]
        requests = [Request(translations[source].source) for source in short]
        again = self.translator.translate_stream(requests, self.options, attention=True) if requests else ()
        for source, translation in zip(short, again, strict=True):
            doubts = content_doubts(translation, confidence, self._token_ends)
            results[source] = replace(results[source], flags=tuple(doubts))

    def _finish(self, source: Parts, result: Result, translation: Translation) -> Result:
        """The result with the white space of its source, and with flags."""
        confidence = self.translator.confidence
        doubts = _flags(translation, confidence) or content_doubts(translation, confidence, self._token_ends)
        flags = (*result.flags, *changes(source, result.parts), *doubts)
        return replace(result, parts=keep_spaces(source, result.parts), flags=flags)

    @staticmethod
    def _check_translation(source: Parts, translation: Translation) -> Result:
        """A translation with required terms; what these cost says more than the confidence."""
        lost = changes(source, (translation.text,))
        return Result(keep_spaces(source, (translation.text,)), (*lost, *_flags(translation, None)))

    def _translate_drafts(
        self, drafts: Sequence[tuple[Parts, Draft | None]]
    ) -> list[tuple[Parts, Draft, Translation]]:
        """The translation of each draft that there is, those without stand-ins first.

        It has attention, which takes memory and time, if the codes need it.
        """
        found = []
        for attention in (False, True):
            group = [(source, draft) for source, draft in drafts if draft and needs_attention(draft) == attention]
            requests = [Request(draft.text) for _, draft in group]
            translations = self.translator.translate_stream(requests, self.options, attention=attention)
            found += [(*one, translation) for one, translation in zip(group, translations, strict=True)]
        return sorted(found, key=lambda one: bool(one[1].words))

    def _token_ends(self, translation: Translation) -> tuple[list[int], list[int]]:
        """Where each token ends, in the characters of a source and of its translation."""
        translator = self.translator
        src = [end for _, end in translator.src_tokenizer.offsets(translation.source)]
        ids = translation.hypotheses[0].ids
        return src, [len(translator.tgt_tokenizer.to_text(ids[: count + 1])) for count in range(len(ids))]


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


def _is_crowded(parts: Sequence[Part]) -> bool:
    """Whether the places of the codes would take time without end: each is looked for among all words."""
    codes = sum(isinstance(part, Code) for part in parts)
    return codes > _MOST_CODES or (codes > 1 and len(join_parts(parts)) > _LONGEST_WITH_CODES)


def _has_words(parts: Sequence[Part]) -> bool:
    """Whether there is a letter outside the codes, and so something to translate."""
    return any(isinstance(part, str) and any(map(str.isalpha, part)) for part in parts)


def _from_memory(segment: FileSegment, known: str, others: Sequence[str]) -> Result:
    """What a memory has, with the file's own codes in it; flagged like any translation, and if ``others`` differ."""
    codes = defaultdict[str, list[Code]](list)
    for code in reversed([part for part in segment.parts if isinstance(part, Code)]):
        codes[code.raw].append(code)
    pieces = re.split(f"({'|'.join(map(re.escape, codes))})", known) if codes else [known]
    parts = tuple(codes[piece].pop() if codes.get(piece) else piece for piece in pieces if piece)
    flags = [f"the memory: {flag}" for flag in changes(find_codes(segment.parts), find_codes(parts))]
    flags = flags or [f"the memory: {part} was added" for part in parts if isinstance(part, str) and part in codes]
    flags += [f"the memory has another translation, too: {other!r}" for other in others]
    return Result(keep_spaces(segment.parts, parts), tuple(flags))


def _join(sentences: Sequence[tuple[Parts, str]], translated: dict[Parts, Result], mark: MenuMark | None) -> Result:
    """The translation of a text from those of its sentences."""
    results = [translated[parts] for parts, _ in sentences]
    gaps = [gap for _, gap in sentences]
    for number in range(len(gaps) - 1):
        texts = ["".join(part for part in one.parts if isinstance(part, str)) for one in results[number : number + 2]]
        if all(text.strip() for text in texts):  # neither is a break
            source = "".join(part for part in sentences[number][0] if isinstance(part, str))
            gaps[number] = gap_between(source, texts[0], gaps[number])
    parts = tuple(
        part for result, gap in zip(results, gaps, strict=True) for part in (*result.parts, gap) if part != ""
    )
    flags = tuple(dict.fromkeys(flag for result in results for flag in result.flags))
    if mark is not None:
        marked = put_mark(parts, mark)
        flags = (*flags, f"the sign {mark.sign} is missing") if marked == parts else flags
        parts = marked
    return Result(parts, flags, tuple(dict.fromkeys(note for result in results for note in result.notes)))


def _put_messages(result: Result, translated: dict[Parts, Result]) -> Result:
    """The result with the translations of its ICU messages, which were one code each."""
    found = [translated[part,] if isinstance(part, Code) and (part,) in translated else part for part in result.parts]
    if not any(isinstance(part, Result) for part in found):
        return result
    parts = tuple(part for each in found for part in (each.parts if isinstance(each, Result) else (each,)))
    flags = tuple(flag for each in found if isinstance(each, Result) for flag in each.flags)
    return replace(result, parts=parts, flags=(*result.flags, *flags))


def _flags(translation: Translation, confidence: Confidence | None) -> list[str]:
    flags = []
    if confidence is not None and (doubt := confidence.warning(translation)):
        flags.append(doubt)
    if translation.source_truncated:
        flags.append("longer than the model takes; its end was not translated")
    if limited := translation.limit_warning:
        flags.append(limited)
    if is_blank(translation.text):
        flags.append("the translation is empty")
    return flags
