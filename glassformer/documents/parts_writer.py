"""Writes a translation with codes whose places are known, and the white space that the source has round them.

None touches a word that it should not touch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.documents.alignment import Span
from glassformer.documents.checks import is_code
from glassformer.documents.draft import Mark
from glassformer.documents.placeholders import unused_signs
from glassformer.text.formats.segment import Code, Part, join_parts, trim
from glassformer.text.scripts import is_unspaced

_CLOSING_SIGNS = " .,;:!?…)]}»”"
_TOKEN = r"\d+(?:[.,]\d+)*|[\ue000-\uf8ff]"  # a number, or the sign of a code
_NO_BREAK = re.compile(rf"({_TOKEN})?([\u00a0\u202f])(?=({_TOKEN})?)")


@dataclass(frozen=True)
class PlacedMark:
    """Where in a translation a mark is, and what it encloses."""

    span: Span
    mark: Mark
    inner: list["PlacedMark"]
    text: str = ""
    """What a pair encloses for which no words stand in the translation: its own text, translated alone."""


class PartsWriter:
    """Writes the parts of a translation, with spaces where a code had some and where it would touch a word."""

    def __init__(self, text: str, words: dict[Span, Mark]) -> None:
        self._text, self._words = text, words
        self.parts: list[Part] = []
        self._last = ""  # the last character, tags of pairs apart
        self._has_tag = False  # behind it
        self._run: Mark | None = None  # the run that was written last, if no text is behind it
        self._after = 0  # where that run ends in the parts

    def write(self, span: Span, placed: Sequence[PlacedMark], more: str = "") -> None:
        """The characters of ``span`` with what was placed in them; ``more`` goes into the first pair in them."""
        position = span[0]
        if more and all(each.mark.closing is None for each in placed):
            self.parts.append(more)
            self._last, self._has_tag, self._run = more[-1], False, None
        for each in placed:
            first, last = each.span
            self._add_text(position, first)
            if each.mark.closing is None:
                self._add_run(each.mark)
            else:
                self.parts += [" "] if each.text and self._last and not self._last.isspace() else []
                self._add_tag(each.mark.parts)
                self.write(each.span, each.inner, each.text or more)
                self._add_tag(each.mark.closing)
                more = ""
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


def keep_spaces(source: Sequence[Part], output: Sequence[Part]) -> tuple[Part, ...]:
    """The output with the white space at the ends of the source, and its no-break spaces beside numbers and codes."""
    before, _, after = trim(source)
    inner = trim(output)[1]
    if any(isinstance(part, str) and _NO_BREAK.search(part) for part in source):
        inner = _keep_no_break_spaces(source, inner)
    return tuple(part for part in (before, *inner, after) if part != "")


def _keep_no_break_spaces(source: Sequence[Part], output: Sequence[Part]) -> tuple[Part, ...]:
    free = unused_signs(join_parts((*source, *output)))
    codes = [part for part in (*source, *output) if is_code(part) or (isinstance(part, Code) and not part.is_text)]
    signs: dict[Part, str] = {code: next(free) for code in dict.fromkeys(codes)}  # not numbers
    before, after = ("".join(signs.get(part) or join_parts([part]) for part in parts) for parts in (source, output))
    for left, space, right in _NO_BREAK.findall(before):
        if left or right:
            beside = r"(?<![\d.,])" if left else ""
            place = re.search(rf"{beside}{re.escape(left)}( )(?={re.escape(right)}(?!\d))", after)
            after = f"{after[: place.start(1)]}{space}{after[place.end(1) :]}" if place else after
    named = {sign: code for code, sign in signs.items()}
    return tuple(named.get(piece, piece) for piece in re.split("([\ue000-\uf8ff])", after) if piece)
