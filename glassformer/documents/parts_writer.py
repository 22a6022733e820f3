"""Writes a translation with codes whose places are known, so that none touches a word that it should not touch."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.documents.alignment import Span
from glassformer.documents.draft import Mark
from glassformer.text.formats.segment import Part, join_parts
from glassformer.text.scripts import is_unspaced

_CLOSING_SIGNS = " .,;:!?…)]}»”"


@dataclass(frozen=True)
class PlacedMark:
    """Where in a translation a mark is, and what it encloses."""

    span: Span
    mark: Mark
    inner: list["PlacedMark"]


class PartsWriter:
    """Writes the parts of a translation, with spaces where a code had some and where it would touch a word."""

    def __init__(self, text: str, words: dict[Span, Mark]) -> None:
        self._text, self._words = text, words
        self.parts: list[Part] = []
        self._last = ""  # the last character, tags of pairs apart
        self._has_tag = False  # behind it
        self._run: Mark | None = None  # the run that was written last, if no text is behind it
        self._after = 0  # where that run ends in the parts

    def write(self, span: Span, placed: Sequence[PlacedMark]) -> None:
        """The characters of ``span`` with what was placed in them."""
        position = span[0]
        for each in placed:
            first, last = each.span
            self._add_text(position, first)
            if each.mark.closing is None:
                self._add_run(each.mark)
            else:
                self._add_tag(each.mark.parts)
                self.write(each.span, each.inner)
                self._add_tag(each.mark.closing)
            position = last
        self._add_text(position, span[1])

    def _add_tag(self, tag: tuple[Part, ...]) -> None:
        self.parts += tag
        self._has_tag = True

    def _add_text(self, start: int, end: int) -> None:
        if end == start:
            return
        following = self._text[start]
        if self._run is not None and following not in _CLOSING_SIGNS:
            beside = _beside(self._run.right, touches=self._has_tag or not self._run.has_tags[1])
            if _is_apart(following, beside, join_parts(self._run.parts)[-1:]):
                self.parts.insert(self._after, " ")
        self._last, self._has_tag, self._run = self._text[end - 1], False, None
        for (first, last), mark in sorted(self._words.items(), key=lambda item: item[0]):
            if start <= first and last <= end:
                self.parts += [self._text[start:first], *mark.parts]
                start = last
                if last == end:
                    self._run, self._after = mark, len(self.parts)
        self.parts.append(self._text[start:end])

    def _add_run(self, mark: Mark) -> None:
        raw = join_parts(mark.parts)
        beside = _beside(mark.left, touches=self._has_tag or not mark.has_tags[0])
        is_apart = self._run is not None or (self._last and _is_apart(self._last, beside, raw[:1]))
        if is_apart and not self._last.isspace():
            self.parts.append(" ")
        self.parts += mark.parts
        self._last, self._has_tag, self._run, self._after = raw[-1:], False, mark, len(self.parts)


def _beside(character: str, *, touches: bool) -> str:
    """What a run has beside it; a letter behind a tag that is not there any more is none."""
    return character if touches or not character.isalnum() else ""


def _is_apart(character: str, beside: str, edge: str) -> bool:
    """Whether a run must not touch a character; ``beside`` is what the source has there, ``edge`` the run's own."""
    if is_unspaced(character):
        return edge.isalnum() and not is_unspaced(edge)
    return beside.isspace() or ((character.isalnum() or character == "_") and not beside.isalnum())
