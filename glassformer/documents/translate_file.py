"""Translates a file: finds its segments, translates them, puts the translations in, and checks the result.

Only the characters of the segments change; all others are written as they were read. A translation that may have lost
something is filled in and reported.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.documents.glossary import Glossary
from glassformer.documents.memory import Memory
from glassformer.documents.placeholders import (
    ATTEMPTS,
    Draft,
    Result,
    find_codes,
    lost_codes,
    lost_numbers,
    lost_signs,
    make_draft,
    restore,
    split_parts,
)
from glassformer.errors import StorageError, TextError
from glassformer.files import write_output
from glassformer.settings import DecodeConfig
from glassformer.text.formats import FormatOptions, endings, find_format
from glassformer.text.formats.segment import Code, FileSegment, Part, apply_edits, join_parts, trim
from glassformer.text.lines import is_blank, read_whole

Parts = tuple[Part, ...]
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
    flagged: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    """Near matches of a memory, and what required terms cost."""


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
    ) -> None:
        self.translator, self.options = translator, options
        self.glossary, self.memory, self.progress = glossary, memory, progress

    def translate(self, path: Path, out: Path, columns: FormatOptions | None = None) -> DocumentReport:
        """Translate the segments of ``path`` and write the file with them to ``out``, whole or not at all.

        Raises ``TextError`` for an unknown kind of file and for one that is damaged, ``StorageError`` if ``out``
        cannot be written.
        """
        find = find_segments(path, columns or FormatOptions())
        text = read_whole(path)
        body = text.removeprefix("\ufeff")
        segments = [segment for segment in find(body) if not is_blank(segment.text)]
        report = DocumentReport(segments=len(segments))
        results = self._translate_segments(segments, report)
        newline = "\r\n" if "\r\n" in body else "\n"
        edits = [
            edit._replace(text=edit.text.replace("\r\n", "\n").replace("\n", newline))
            for segment, result in zip(segments, results, strict=True)
            for edit in segment.edits(result.parts)
        ]
        filled = apply_edits(body, edits)
        _check_form(path, segments, find(filled), results)
        try:
            with write_output(out) as stream:
                stream.write(text[: len(text) - len(body)] + filled)
        except OSError as error:
            raise StorageError(f"{out}: cannot be written: {error.strerror or error}. Name another --out.") from error
        return report

    def _translate_segments(self, segments: Sequence[FileSegment], report: DocumentReport) -> list[Result]:
        """The translation of each segment. The memory comes first; the same text is translated once."""
        exact, sentences = dict[Parts, Result](), dict[Parts, list[tuple[Parts, str]]]()
        for segment in segments:
            known = self.memory.exact(segment.text) if self.memory is not None else None
            if known is None:
                sentences[segment.parts] = split_parts(find_codes(segment.parts))
            else:
                exact[segment.parts] = _from_memory(segment, known)
        translated = self._translate_texts(dict.fromkeys(parts for each in sentences.values() for parts, _ in each))
        results = exact | {source: _join(each, translated) for source, each in sentences.items()}
        for segment in segments:
            source, result = segment.text, results[segment.parts]
            report.from_memory += segment.parts in exact
            flags = *result.flags, *segment.doubts(result.parts)
            report.flagged += [Remark(segment.line, source, result.text, flag) for flag in flags]
            report.notes += [Remark(segment.line, source, result.text, note) for note in result.notes]
            near = self.memory.near(source) if self.memory is not None and segment.parts not in exact else None
            if near is not None:
                note = f"the memory has, {near.similarity:.0%} alike: {near.src!r} -> {near.tgt!r}"
                report.notes.append(Remark(segment.line, source, result.text, note))
        return [results[segment.parts] for segment in segments]

    def _translate_texts(self, waiting: Collection[Parts]) -> dict[Parts, Result]:
        """Translate texts with codes; each attempt takes those that the one before did not keep whole."""
        results = {parts: Result(parts) for parts in waiting if not _has_words(parts)}
        with_numbers: set[Parts] = set()  # texts whose numbers and signs became codes: the model did not keep them
        for attempt in range(ATTEMPTS):
            drafts = {
                source: make_draft(source, attempt, numbers=source in with_numbers)
                for source in waiting
                if source not in results
            }
            for source, draft, translation in self._translate_drafts(drafts):
                result = restore(draft, translation, self._token_ends)
                lost = [] if result is None else _missing(join_parts(source), result.text)
                if lost and attempt < ATTEMPTS - 1:
                    with_numbers.add(source)
                elif result is not None:
                    flags = (*result.flags, *lost, *_flags(translation, self.translator.confidence))
                    results[source] = Result(_keep_ends(source, result.parts), flags)
            if self.progress is not None:
                self.progress(len(results), len(waiting))
            if len(results) == len(waiting):
                break
        if self.glossary is not None:
            self.glossary.apply(self.translator, results, self._check_translation, self.options)
        return results

    @staticmethod
    def _check_translation(source: Parts, translation: Translation) -> Result:
        """A translation with required terms; what these cost says more than the confidence."""
        lost = _missing(join_parts(source), translation.text)
        return Result(_keep_ends(source, (translation.text,)), (*lost, *_flags(translation, None)))

    def _translate_drafts(self, drafts: dict[Parts, Draft]) -> list[tuple[Parts, Draft, Translation]]:
        """The translation of each draft; with the attention of those that have tags, which takes memory and time."""
        found = []
        for attention in (False, True):
            group = {source: draft for source, draft in drafts.items() if bool(draft.marks) == attention}
            requests = [Request(draft.text) for draft in group.values()]
            translations = self.translator.translate_stream(requests, self.options, attention=attention)
            found += list(zip(group, group.values(), translations, strict=True))
        return found

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


def _check_form(path: Path, before: list[FileSegment], after: list[FileSegment], results: list[Result]) -> None:
    """Raise ``TextError`` unless what is about to be written has the same form as what was read.

    In files that keep the source, what was filled is no longer found; in others as many texts are found again.
    """
    filled = sum(not is_blank(result.text) for result in results)
    left = sum(not is_blank(segment.text) for segment in after)
    expected = len(before) - filled if find_format(path).is_bilingual else filled
    if left != expected:
        raise TextError(
            f"{path}: with its translations it would have another form: {left} texts where {expected} are expected. "
            "Nothing was written. Please report this file."
        )


def _has_words(parts: Sequence[Part]) -> bool:
    """Whether there is a letter outside the codes, and so something to translate."""
    return any(isinstance(part, str) and any(map(str.isalpha, part)) for part in parts)


def _missing(source: str, output: str) -> list[str]:
    """The numbers and signs that the output does not have, in words."""
    numbers = [f"the number {number} is missing" for number in lost_numbers(source, output)]
    return numbers + [f"the sign {sign} is missing" for sign in lost_signs(source, output)]


def _keep_ends(source: Parts, output: Sequence[Part]) -> Parts:
    """The output with the white space that the source has at its ends."""
    before, _, after = trim(source)
    return tuple(part for part in (before, *trim(output)[1], after) if part != "")


def _from_memory(segment: FileSegment, known: str) -> Result:
    """What a memory has, with the file's own codes in it; flagged if it lacks one."""
    codes = {part.raw: part for part in segment.parts if isinstance(part, Code)}
    pieces = re.split(f"({'|'.join(map(re.escape, codes))})", known) if codes else [known]
    parts = tuple(codes.get(piece, piece) for piece in pieces if piece)
    lost = lost_codes(segment.parts, parts)
    return Result(_keep_ends(segment.parts, parts), tuple(f"the memory's translation lacks {code}" for code in lost))


def _join(sentences: Sequence[tuple[Parts, str]], translated: dict[Parts, Result]) -> Result:
    """The translation of a text from those of its sentences."""
    results = [(translated[parts], gap) for parts, gap in sentences]
    parts = tuple(part for result, gap in results for part in (*result.parts, gap) if part != "")
    flags = tuple(flag for result, _ in results for flag in result.flags)
    return Result(parts, flags, tuple(note for result, _ in results for note in result.notes))


def _flags(translation: Translation, confidence: Confidence | None) -> list[str]:
    flags = []
    if confidence is not None and (doubt := confidence.warning(translation)):
        flags.append(doubt)
    if translation.source_truncated:
        flags.append("longer than the model takes; its end was not translated")
    if translation.hypotheses[0].truncated:
        flags.append("the translation did not come to an end")
    if is_blank(translation.text):
        flags.append("the translation is empty")
    return flags
