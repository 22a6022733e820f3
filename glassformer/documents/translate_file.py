"""Translates a file: finds its segments, translates them, puts the translations in, and checks the result.

Only the characters of the segments change; all others are written as they were read. A translation that may have lost
something is filled in and reported.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.documents.alignment import content_doubts, is_short
from glassformer.documents.checks import changes
from glassformer.documents.draft import Draft, make_draft, mark_numbers
from glassformer.documents.glossary import Glossary
from glassformer.documents.journal import Journal
from glassformer.documents.memory import Memory
from glassformer.documents.menu_marks import MenuMark, put_mark, take_mark
from glassformer.documents.placeholders import find_codes, mark_messages, split_parts
from glassformer.documents.restore import Result, is_better, needs_attention, restore
from glassformer.errors import StorageError, TextError, check_path, check_type
from glassformer.files import write_output
from glassformer.settings import DecodeConfig
from glassformer.text.formats import FormatOptions, endings, find_format
from glassformer.text.formats.encodings import read_text
from glassformer.text.formats.segment import Code, Edit, FileSegment, Part, apply_edits, join_parts, trim
from glassformer.text.lines import is_blank
from glassformer.text.scripts import gap_between

Parts = tuple[Part, ...]
ATTEMPTS = 2  # with stand-ins for codes
_MOST_CODES, _LONGEST_WITH_CODES = 300, 30_000  # of one text, in characters; far beyond any sentence
_CROWDED = "left as it was: it has too many placeholders, or is too long for them"
Progress = Callable[[int, int], None]
"""Called with how many segments are done, and of how many."""


@dataclass(frozen=True)
class Remark:
    """What should be looked at in a segment of the file, which begins at ``line``."""

    line: int
    source: str
    text: str
    remark: str


@dataclass
class DocumentReport:
    """What was done: the segments that were translated, those taken from a memory, and what should be looked at.

    A segment without a flag kept all its placeholders and numbers.
    """

    segments: int = 0
    from_memory: int = 0
    resumed: int = 0
    """The texts that a stopped call had translated before."""
    flagged: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    """Near matches of a memory, and what required terms cost."""


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
        progress: Progress | None = None,
        key: str | None = None,
    ) -> None:
        """``key`` changes with the translator and its options. With it a call of ``translate`` that was stopped is
        continued by the next one to the same output: what it had done is kept in a hidden file beside that.
        """
        check_type("glossary", glossary, Glossary | None, "a Glossary; Glossary.read gives one")
        check_type("memory", memory, Memory | None, "a Memory; Memory.read gives one")
        check_type("progress", progress, Callable | None, "a function of how many texts are done, and of how many")
        check_type("key", key, str | None, "a str")
        self.translator, self.options = translator, options
        self.glossary, self.memory, self.progress = glossary, memory, progress
        self.key = key

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
        find = find_segments(path, columns or FormatOptions())
        file_format = find_format(path)
        text, encoding = read_text(path, file_format.charset)
        body = text.removeprefix("\ufeff")
        segments = [segment for segment in find(body) if not is_blank(segment.text)]
        report = DocumentReport(segments=len(segments))
        results = self._translate_segments(segments, report, journal)
        newline = "\r\n" if "\r\n" in body else "\n"
        is_bilingual = file_format.is_bilingual
        edits = [
            _edits(segment, result, newline) if is_bilingual or _is_changed(segment, result) else []
            for segment, result in zip(segments, results, strict=True)
        ]
        filling = _Filling(body, find, segments, results, edits, is_bilingual)
        unfit = filling.find_unfit(range(len(segments)))
        for number in unfit:
            remark = "left as it was: with its translation the file would have another form"
            report.flagged.append(Remark(segments[number].line, segments[number].text, results[number].text, remark))
        filled = filling.fill([number for number in range(len(segments)) if number not in unfit])
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
        language = self.options.src_language if isinstance(self.options, DecodeConfig) else ""
        for segment in segments:
            is_looked_up = self.memory is not None and not _is_crowded(segment.parts)
            known = self.memory.exact(segment.text) if self.memory is not None and is_looked_up else None
            if self.memory is None or known is None:
                parts, marks[segment.parts] = take_mark(segment.parts)
                whole = mark_messages(parts)
                sentences[segment.parts] = split_parts(find_codes(whole), language)
                known_parts = set(parts)
                messages = [part for part in whole if isinstance(part, Code) and part not in known_parts]
                sentences |= {(message,): split_parts(find_codes((message.raw,)), language) for message in messages}
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
        references, chosen, again = dict[Parts, Translation](), dict[Parts, Translation](), marked
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
                results[source], chosen[source] = self._finish(source, result, translation), translation
            again = {
                source: numbered
                for source in marked
                if changes(source, results[source].parts)
                and (numbered := mark_numbers(source)) != source
                and not _is_crowded(numbered)
            }
            marked |= again
        self._check_content(results, chosen)
        if self.glossary is not None:
            self.glossary.apply(self.translator, results, self._check_translation, self.options)
        return results

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
        return Result(_keep_ends(source, result.parts), (*result.flags, *changes(source, result.parts), *doubts))

    @staticmethod
    def _check_translation(source: Parts, translation: Translation) -> Result:
        """A translation with required terms; what these cost says more than the confidence."""
        lost = changes(source, (translation.text,))
        return Result(_keep_ends(source, (translation.text,)), (*lost, *_flags(translation, None)))

    def _translate_drafts(
        self, drafts: Sequence[tuple[Parts, Draft | None]]
    ) -> list[tuple[Parts, Draft, Translation]]:
        """The translation of each draft that there is, those without stand-ins first.

        It has attention, which takes memory and time, if the codes need it.
        """
        check_type("translator", self.translator, _Translates, "a Translator; Translator.load gives one")
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


def find_segments(path: Path, options: FormatOptions) -> Callable[[str], list[FileSegment]]:
    """What finds the segments in the text of such a file; ``TextError`` for a format that is not translated."""
    file_format = find_format(path)
    if file_format.segments is None:
        raise TextError(
            f"{path}: expected a file ending in {', '.join(endings(lambda each: each.segments))}. Save the text in "
            "one of these forms; only text itself can be read from standard input."
        )
    return partial(file_format.segments, path=path, **file_format.select(options))


def _is_changed(segment: FileSegment, result: Result) -> bool:
    """Whether a translation has another text, or other codes of the file, than its source, however it is cut."""
    texts = []
    for parts in (segment.parts, result.parts):
        groups = groupby(parts, lambda part: isinstance(part, Code) and not part.is_text)
        texts.append([(is_code, join_parts(group)) for is_code, group in groups])
    return texts[0] != texts[1]


def _edits(segment: FileSegment, result: Result, newline: str) -> list[Edit]:
    """The edits that put a translation in, with the line ends of the file."""
    edits = segment.edits(result.parts)
    return [edit._replace(text=edit.text.replace("\r\n", "\n").replace("\n", newline)) for edit in edits]


@dataclass(frozen=True)
class _Filling:
    """A file that is being filled: its segments, their translations, and how these are put in."""

    body: str
    find: Callable[[str], list[FileSegment]]
    segments: Sequence[FileSegment]
    results: Sequence[Result]
    edits: Sequence[list[Edit]]
    is_bilingual: bool

    def fill(self, numbers: Collection[int]) -> str:
        """The file with the translations of these segments."""
        return apply_edits(self.body, [edit for number in numbers for edit in self.edits[number]])

    def find_unfit(self, numbers: Sequence[int]) -> set[int]:
        """Those whose translations change the form of the file; each half is tried until they are found."""
        if self._has_same_form(numbers):
            return set()
        if len(numbers) == 1:
            return {numbers[0]}
        half = len(numbers) // 2
        unfit = self.find_unfit(numbers[:half]) | self.find_unfit(numbers[half:])
        return unfit or set(numbers)  # these fit one by one, but not together

    def _has_same_form(self, numbers: Sequence[int]) -> bool:
        """Whether as many texts are found in the filled file as expected.

        In files that keep the source, what was filled is no longer found; in others as many texts are found again.
        """
        try:
            after = self.find(self.fill(numbers))
        except TextError:
            return False
        filled = sum(not is_blank(self.results[number].text) for number in numbers)
        others = len(self.segments) - (filled if self.is_bilingual else len(numbers) - filled)
        return sum(not is_blank(segment.text) for segment in after) == others


def _is_crowded(parts: Sequence[Part]) -> bool:
    """Whether the places of the codes would take time without end: each is looked for among all words."""
    codes = sum(isinstance(part, Code) for part in parts)
    return codes > _MOST_CODES or (codes > 1 and len(join_parts(parts)) > _LONGEST_WITH_CODES)


def _has_words(parts: Sequence[Part]) -> bool:
    """Whether there is a letter outside the codes, and so something to translate."""
    return any(isinstance(part, str) and any(map(str.isalpha, part)) for part in parts)


def _keep_ends(source: Parts, output: Sequence[Part]) -> Parts:
    """The output with the white space that the source has at its ends."""
    before, _, after = trim(source)
    return tuple(part for part in (before, *trim(output)[1], after) if part != "")


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
    return Result(_keep_ends(segment.parts, parts), tuple(flags))


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
