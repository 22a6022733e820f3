"""The texts of segments: what has to be translated of them, sentence by sentence, and how that is put together again.

A memory comes first, and the same sentence is translated once. Knows nothing of models.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from glassformer.decoding.codes.parts_writer import keep_spaces
from glassformer.decoding.codes.restore import Result
from glassformer.documents.memory import Memory, NearMatch
from glassformer.documents.menu_marks import MenuMark, put_mark, take_mark
from glassformer.documents.report import DocumentReport, Remark
from glassformer.text.codes.checks import changes
from glassformer.text.codes.placeholders import find_codes, mark_messages, split_parts
from glassformer.text.codes.typed import Parts, is_crowded
from glassformer.text.formats.segment import Code, FileSegment
from glassformer.text.scripts import gap_between
from glassformer.text.sentence_splitter import Sentence


class SegmentTexts:
    """``texts`` are what of ``segments`` has to be translated, each once, in the order in which they occur."""

    def __init__(
        self, segments: Sequence[FileSegment], memory: Memory | None, split: Callable[[str], list[Sentence]]
    ) -> None:
        self.segments, self._memory = segments, memory
        self._exact = dict[Parts, Result]()
        self._sentences = dict[Parts, list[tuple[Parts, str]]]()
        self._marks = dict[Parts, MenuMark | None]()
        self._near = dict[str, NearMatch | None]()
        self._has_messages = False
        for segment in {one.parts: one for one in segments}.values():  # each text once, however often it is there
            is_looked_up = memory is not None and not is_crowded(segment.parts)
            known = memory.exact(segment.text) if memory is not None and is_looked_up else None
            if memory is None or known is None:
                parts, self._marks[segment.parts] = take_mark(segment.parts)
                whole = mark_messages(parts)
                self._sentences[segment.parts] = split_parts(find_codes(whole), split)
                known_parts = set(parts)
                messages = [part for part in whole if isinstance(part, Code) and part not in known_parts]
                self._has_messages |= bool(messages)
                self._sentences |= {
                    (message,): split_parts(find_codes((message.raw,)), split) for message in messages
                }
            else:
                self._exact[segment.parts] = _from_memory(segment, known, memory.others(segment.text))
        self.texts = list(dict.fromkeys(parts for each in self._sentences.values() for parts, _ in each))

    def join(self, translated: Mapping[Parts, Result], report: DocumentReport) -> list[Result]:
        """The translation of each segment, from those of ``texts``; what should be looked at goes to ``report``."""
        joined = {
            source: _join(each, translated, self._marks.get(source)) for source, each in self._sentences.items()
        }
        results = self._exact | joined
        if self._has_messages:
            results |= {source: _put_messages(result, joined) for source, result in joined.items()}
        for segment in self.segments:
            self._report(segment, results[segment.parts], report)
        return [results[segment.parts] for segment in self.segments]

    def _report(self, segment: FileSegment, result: Result, report: DocumentReport) -> None:
        is_known, flags = segment.parts in self._exact, (*result.flags, *segment.doubts(result.parts))
        report.from_memory += is_known
        if not flags and not result.notes and self._memory is None:  # as of most
            return
        source, text = segment.text, result.text
        report.flagged += [Remark(segment.line, source, text, flag) for flag in flags]
        report.notes += [Remark(segment.line, source, text, note) for note in result.notes]
        if self._memory is not None and not is_known and source not in self._near:
            self._near[source] = self._memory.near(source)
        if (near := self._near.get(source)) is not None:
            note = f"the memory has, {near.similarity:.0%} alike: {near.src[:500]!r} -> {near.tgt[:500]!r}"
            report.notes.append(Remark(segment.line, source, text, note))


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


def _join(
    sentences: Sequence[tuple[Parts, str]], translated: Mapping[Parts, Result], mark: MenuMark | None
) -> Result:
    """The translation of a text from those of its sentences."""
    results = [translated[parts] for parts, _ in sentences]
    gaps = [gap for _, gap in sentences]
    if len(sentences) == 1 and mark is None and not gaps[0] and not results[0].flags:  # as most
        return results[0]
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
    notes = tuple(dict.fromkeys(note for result in results for note in result.notes))
    return Result(parts, flags, notes, scores=tuple(score for result in results for score in result.scores))


def _put_messages(result: Result, translated: Mapping[Parts, Result]) -> Result:
    """The result with the translations of its ICU messages, which were one code each."""
    found = [translated[part,] if isinstance(part, Code) and (part,) in translated else part for part in result.parts]
    if not any(isinstance(part, Result) for part in found):
        return result
    parts = tuple(part for each in found for part in (each.parts if isinstance(each, Result) else (each,)))
    messages = [each for each in found if isinstance(each, Result)]
    flags = tuple(flag for each in messages for flag in each.flags)
    scores = tuple(score for each in messages for score in each.scores)
    return replace(result, parts=parts, flags=(*result.flags, *flags), scores=(*result.scores, *scores))
