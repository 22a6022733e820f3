"""Writes a translation with codes whose places are known, and the white space that the source has round them.

None touches a word that it should not touch.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.decoding.restore.alignment import Span
from glassformer.text.codes.checks import is_code
from glassformer.text.codes.code import Code, Part, Parts, join_parts, trim, unused_signs
from glassformer.text.codes.draft import Placeholder
from glassformer.text.scripts import AFTER_WORDS, is_unspaced

_NUMBER = r"\d++(?:[.,]\d++)*+"
_NO_BREAK = re.compile(rf"(?:(?<![\d.,])({_NUMBER}))?([\u00a0\u202f])(?=({_NUMBER})?)")


@dataclass(frozen=True)
class Placement:
    """Where in a translation a mark is, and what it encloses."""

    span: Span
    mark: Placeholder
    inner: list["Placement"]
    text: str = ""
    """What a pair encloses for which no words stand in the translation: its own text, translated alone."""


class PartsWriter:
    """Writes the parts of a translation, with spaces where a code had some and where it would touch a word."""

    def __init__(self, text: str, words: dict[Span, Placeholder]) -> None:
        self._text, self._words = text, words
        self.parts: list[Part] = []
        self._last = ""  # the last character, tags of pairs apart
        self._has_tag = False  # behind it
        self._run: Placeholder | None = None  # the run that was written last, if no text is behind it
        self._after = 0  # where that run ends in the parts

    def write(self, span: Span, placed: Sequence[Placement], more: str = "") -> None:
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

    def _add_tag(self, tag: Parts) -> None:
        self.parts += tag
        self._has_tag = True

    def _add_text(self, start: int, end: int) -> None:
        if end == start:
            return
        following = self._text[start]
        if self._run is not None and following not in " " + AFTER_WORDS:
            neighbour = _neighbour(self._run.right, touches=self._has_tag or not self._run.has_tags[1])
            if _is_apart(following, neighbour, join_parts(self._run.parts)[-1:]):
                self.parts.insert(self._after, " ")
        self._last, self._has_tag, self._run = self._text[end - 1], False, None
        for (first, last), mark in sorted(self._words.items(), key=lambda item: item[0]):
            if start <= first and last <= end:
                self.parts += [self._text[start:first], *mark.parts]
                start = last
                if last == end:
                    self._run, self._after = mark, len(self.parts)
        self.parts.append(self._text[start:end])

    def _add_run(self, mark: Placeholder) -> None:
        raw = join_parts(mark.parts)
        neighbour = _neighbour(mark.left, touches=self._has_tag or not mark.has_tags[0])
        if self._run is not None:
            is_apart = mark.left.isspace() or raw[0] not in AFTER_WORDS
        else:
            is_apart = self._last != "" and _is_apart(self._last, neighbour, raw[:1])
        if is_apart and not self._last.isspace():
            self.parts.append(" ")
        self.parts += mark.parts
        self._last, self._has_tag, self._run, self._after = raw[-1:], False, mark, len(self.parts)


def _neighbour(character: str, *, touches: bool) -> str:
    """What is next to a run; a letter behind a tag that is not there any more is none."""
    return character if touches or not character.isalnum() else ""


def _is_apart(character: str, neighbour: str, edge: str) -> bool:
    """Whether a run must not touch a character; ``neighbour`` is what the source has, ``edge`` the run's own."""
    if is_unspaced(character):
        return edge.isalnum() and not is_unspaced(edge)
    return neighbour.isspace() or ((character.isalnum() or character == "_") and not neighbour.isalnum())


_LETTER_AND_DIGIT = re.compile(r"[^\W\d_](?=\d[\d.,]*(?!\w))")


def keep_spaces(source: Sequence[Part], output: Sequence[Part]) -> Parts:
    """The output with the white space that the source has at its ends, by its codes, and, without breaks, by numbers.

    Where words or a script need a space, or none, the output has it as it was.
    """
    (before, source, after), (_, output, _) = trim(source), trim(output)
    both = (*source, *output)
    numbers = {part for part in output if isinstance(part, Code) and part.is_text and not is_code(part)}
    codes = dict.fromkeys([part for part in both if not isinstance(part, str) and part not in numbers])
    signs = dict(zip(codes, unused_signs(join_parts(both)), strict=False)) if codes else {}
    coded = [
        "".join([part if isinstance(part, str) else signs.get(part, part.raw) for part in parts])
        for parts in (source, output)
    ]
    text = _keep_spaces_by_numbers(coded[0], _keep_spaces_by_codes(coded[0], coded[1], "".join(signs.values())))
    named = {sign: code for code, sign in signs.items()}
    pieces = re.split(f"([{''.join(named)}])", text) if named else [text]
    return tuple([part for part in (before, *[named.get(piece, piece) for piece in pieces], after) if part != ""])


def _keep_spaces_by_numbers(source: str, output: str) -> str:
    if _LETTER_AND_DIGIT.search(source) is None:
        output = _LETTER_AND_DIGIT.sub(r"\g<0> ", output)
    if "\u00a0" not in source and "\u202f" not in source:  # fast path
        return output
    searched = defaultdict[tuple[str, str], int](int)  # up to where
    for left, space, right in _NO_BREAK.findall(source):
        if left or right:
            before = r"(?<![\d.,])" if left else ""
            pattern = re.compile(rf"{before}{re.escape(left)}( )(?={re.escape(right)}(?!\d))")
            place = pattern.search(output, searched[left, right])
            searched[left, right] = place.end() if place else len(output)
            output = f"{output[: place.start(1)]}{space}{output[place.end(1) :]}" if place else output
    return output


def _keep_spaces_by_codes(source: str, output: str, signs: str) -> str:
    """The output with the white space round and between codes that stand side by side, as the source has it."""
    if not signs:
        return output
    runs = re.compile(rf"(?<!\s)(\s*+)([{signs}](?:\s*[{signs}])*)(\s*)")
    is_inside = not any(sign in signs or sign.isspace() for sign in output[:1] + output[-1:])
    if is_inside and runs.findall(source) == runs.findall(output):  # fast path
        return output
    found = defaultdict[str, list[re.Match[str]]](list)
    for run in runs.finditer(source):
        found["".join(run[2].split())].append(run)

    def write(run: re.Match[str]) -> str:
        known = found["".join(run[2].split())]
        wanted = known.pop(0) if known else run
        own, other = _neighbours(run), _neighbours(wanted)
        if run[0] == wanted[0] and all(own):  # fast path
            return run[0]
        is_unlike = any(map(is_unspaced, "".join(own))) and not any(map(is_unspaced, "".join(other)))
        is_unlike |= any(mine != theirs and not mine.isalnum() for mine, theirs in zip(own, other, strict=True))
        if all(own) and (not _has_space(wanted[0]) or (is_unlike and not _has_space(run[0]))):
            return run[0]
        edges = [_edge(own[side], other[side], run[1 + 2 * side], wanted[1 + 2 * side]) for side in (0, 1)]
        for side in (0, 1):
            touches = own[side].isalnum() and not other[side].isalnum()
            if touches and not _has_space(edges[side] + wanted[2]) and _has_space(run[1 + 2 * side] + run[2]):
                return run[0]
        return f"{edges[0]}{wanted[2]}{edges[1]}"

    return runs.sub(write, output)


def _has_space(text: str) -> bool:
    return re.search(r"\s", text) is not None


def _neighbours(run: re.Match[str]) -> tuple[str, str]:
    """The characters before and after a run and its white space, empty at an end."""
    start, end = run.span()
    return run.string[max(0, start - 1) : start], run.string[end : end + 1]


def _edge(own: str, other: str, space: str, wanted: str) -> str:
    """The white space between a run and its neighbour; ``other`` is that of the source, with the space ``wanted``."""
    if not own:
        return "" if other else wanted
    if not space and own != other and not own.isalnum():  # but a full stop, a bracket
        return ""
    return wanted if other and (wanted or not own.isalnum() or other.isalnum()) else space
