"""Puts translations into a file, and leaves out those with which it would have another form."""

from collections.abc import Callable, Sequence
from itertools import groupby

from glassformer.decoding.translation import Translation
from glassformer.errors import TextError
from glassformer.text.codes.code import Code, join_parts
from glassformer.text.formats.segment import Edit, FileSegment, apply_edits
from glassformer.text.lines import is_blank


class Filling:
    """A file, its segments and their translations; ``count`` counts the segments of a text.

    A file that ``is_bilingual`` keeps the source, so that what was filled is no longer found in it.
    """

    def __init__(
        self,
        body: str,
        count: Callable[[str], int],
        segments: Sequence[FileSegment],
        results: Sequence[Translation],
        *,
        is_bilingual: bool,
    ) -> None:
        self._body, self._count, self._is_bilingual = body, count, is_bilingual
        newline = "\r\n" if "\r\n" in body else "\n"
        self._edits = [
            _edits(segment, result, newline) if is_bilingual or _is_changed(segment, result) else []
            for segment, result in zip(segments, results, strict=True)
        ]
        self._is_filled = [not is_blank(result.text) for result in results]

    def fill(self) -> tuple[str, list[int]]:
        """The file with the translations that fit, and the numbers of the others."""
        numbers = range(len(self._edits))
        unfit = self._find_unfit(numbers)
        return self._apply([number for number in numbers if number not in unfit]), sorted(unfit)

    def _apply(self, numbers: Sequence[int]) -> str:
        return apply_edits(self._body, [edit for number in numbers for edit in self._edits[number]])

    def _find_unfit(self, numbers: Sequence[int]) -> set[int]:
        """Those whose translations change the form of the file; each half is tried until they are found."""
        if self._has_same_form(numbers):
            return set()
        if len(numbers) == 1:
            return {numbers[0]}
        half = len(numbers) // 2
        unfit = self._find_unfit(numbers[:half]) | self._find_unfit(numbers[half:])
        return unfit or set(numbers)  # these fit one by one, but not together

    def _has_same_form(self, numbers: Sequence[int]) -> bool:
        """Whether as many texts are found in the filled file as expected: in one that keeps the source fewer."""
        try:
            found = self._count(self._apply(numbers))
        except TextError:
            return False
        filled = sum(self._is_filled[number] for number in numbers)
        others = len(self._edits) - (filled if self._is_bilingual else len(numbers) - filled)
        return found == others


def _is_changed(segment: FileSegment, result: Translation) -> bool:
    """Whether a translation has another text, or other codes of the file, than its source, however it is cut."""
    if segment.text != result.text:
        return True
    texts = []
    for parts in (segment.parts, result.parts):
        groups = groupby(parts, lambda part: isinstance(part, Code) and not part.is_text)
        texts.append([(is_code, join_parts(group)) for is_code, group in groups])
    return texts[0] != texts[1]


def _edits(segment: FileSegment, result: Translation, newline: str) -> list[Edit]:
    """The edits that put a translation in, with the line ends of the file."""
    edits = segment.edits(result.parts)
    return [edit._replace(text=edit.text.replace("\r\n", "\n").replace("\n", newline)) for edit in edits]
