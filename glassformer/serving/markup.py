"""Steps for texts with markup: pages of HTML, elements of XML, and elements that are not translated."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape, unescape
from pathlib import Path

from glassformer.decoding.translation import EMPTY, Translation
from glassformer.documents.filling import Filling
from glassformer.documents.translate_file import count_segments, find_segments
from glassformer.text.codes.checks import code_changes
from glassformer.text.codes.code import Code, Part, Parts, has_words, join_parts, mark_codes, trim, write_parts
from glassformer.text.codes.find import find_codes
from glassformer.text.formats import FormatOptions
from glassformer.text.formats.segment import FileSegment
from glassformer.text.steps.step import Change, TextOptions

_HTML = (Path("text.html"), FormatOptions())
_PROTECTED = '<span translate="no" data-protected>{}</span>'  # what readers of HTML leave alone
_TOKEN = re.compile(
    r"<!--(?:(?!<!--|-->).)*-->|<!\[CDATA\[(?:(?!<!\[CDATA|\]\]>).)*\]\]>|<[?!][^<>]*>"
    r"|<(/?)([^\s<>/!?]+)[^<>]*?(/?)>",
    re.DOTALL,
)


@dataclass(frozen=True)
class ProtectElements:
    """A step: elements with these names are codes; one ends at its own tag, counted by depth."""

    names: tuple[str, ...]

    def __call__(self, parts: Parts, options: TextOptions) -> Change | None:
        """None where there is no such element."""
        text, found, end = join_parts(parts), list[Part](), 0
        for start, stop in self._elements(text) if self.names else ():
            found += [text[end:start], Code(text[start:stop])]
            end = stop
        return Change((tuple(part for part in (*found, text[end:]) if part != ""),)) if found else None

    def _elements(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the outermost elements are; one that is not closed is none."""
        names = "|".join(map(re.escape, self.names))
        start, name, depth = 0, "", 0
        for tag in re.finditer(rf"<(/?)({names})(?![\w:.-])[^<>]*?(/?)>", text, re.IGNORECASE):
            if not depth and not tag[1]:
                start, name = tag.start(), tag[2].lower()
            if tag[2].lower() == name and not (tag[3] and depth) and (depth or not tag[1]):
                depth += 0 if tag[3] else -1 if tag[1] else 1
                if not depth:
                    yield start, tag.end()


@dataclass(frozen=True)
class _Page(Change):
    """A page of HTML, and its texts."""

    page: str
    segments: tuple[FileSegment, ...]
    protected: tuple[str, ...]
    unfit: list[int] = field(default_factory=list, compare=False)

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The page with the answers that leave its form as it is."""
        found = [
            Translation(segment.text, [], False, [replace(EMPTY, text=join_parts(parts), parts=parts)])
            for segment, parts in zip(self.segments, answers, strict=True)
        ]
        text, self.unfit[:] = Filling(
            self.page, count_segments(*_HTML), self.segments, found, is_bilingual=False
        ).fill()
        for raw in self.protected:
            text = text.replace(_PROTECTED.format(raw), raw, 1)
        return (text,)

    def check(self, answer: Parts) -> list[str]:
        """Which texts could not be filled in."""
        return ["left as it was: with its translation the page would have another form"] if self.unfit else []


def read_html(parts: Parts, options: TextOptions) -> Change:
    """A step: each text of a page is read alone."""
    protected = tuple(part.raw for part in parts if isinstance(part, Code))
    page = "".join(_PROTECTED.format(part.raw) if isinstance(part, Code) else part for part in parts)
    segments = tuple(segment for segment in find_segments(*_HTML)(page) if not segment.is_blank)
    return _Page(tuple(segment.parts for segment in segments), page, segments, protected)


@dataclass(frozen=True)
class _Elements(Change):
    """A text of XML: pieces, of which those with words are ``texts``."""

    pieces: tuple[Parts, ...]
    lost: list[str] = field(default_factory=list, compare=False)

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The text with the answers whose tags are those of their source."""
        waiting, found = iter(answers), list[str]()
        self.lost.clear()
        for piece in self.pieces:
            answer = next(waiting) if has_words(piece) else piece
            if changed := code_changes(find_codes(piece), find_codes(answer)):
                self.lost.append(f"left as it was: {changed[0]}")
                answer = piece
            found.append(write_parts(answer, lambda text: escape(text, quote=False)))
        return ("".join(found),)

    def check(self, answer: Parts) -> list[str]:
        """What was left as it was."""
        return list(self.lost)


@dataclass(frozen=True)
class ReadXml:
    """A step: elements are borders where DeepL's parameters say so; the other tags are codes, entities characters.

    With ``outline`` an element is a border, too, unless there is text beside it.
    """

    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True

    def __call__(self, parts: Parts, options: TextOptions) -> Change:
        """The text between the borders, piece by piece."""
        marked = mark_codes(parts, _TOKEN, _xml_code)
        borders = (self.splitting | (_outer_names(marked) if self.outline else frozenset())) - self.non_splitting
        pieces: list[list[Part]] = [[]]
        for part in marked:
            if isinstance(part, Code) and _name(part) in borders:
                pieces += [[part], []]
            else:
                pieces[-1].append(unescape(part) if isinstance(part, str) else part)
        all_pieces = tuple(part for piece in pieces for part in _trim(piece))
        return _Elements(tuple(piece for piece in all_pieces if has_words(piece)), all_pieces)


def _trim(piece: Sequence[Part]) -> tuple[Parts, ...]:
    """A piece without the white space round it, which stands by itself; line breaks inside are spaces."""
    if not has_words(piece):
        return (tuple(piece),)
    before, inner, after = trim(piece)
    lines = (part if isinstance(part, Code) else re.sub(r"\s*\n\s*", " ", part) for part in inner)
    return ((before,), tuple(lines), (after,))


def _xml_code(match: re.Match[str]) -> Code:
    is_alone = match[2] is None or match[3]
    return Code(match[0], "alone" if is_alone else "closes" if match[1] else "opens")


def _name(tag: Code) -> str:
    match = re.match(r"</?([^\s<>/!?]+)", tag.raw)
    return match[1] if match else ""


def _outer_names(parts: Sequence[Part]) -> frozenset[str]:
    """The names of elements that never have text beside them."""
    names, inline = set[str](), set[str]()
    for before, part, after in zip(("", *parts), parts, (*parts[1:], ""), strict=False):
        if isinstance(part, Code):
            beside = {"opens": (before,), "closes": (after,)}.get(part.kind, (before, after))
            has_text = any(isinstance(one, str) and one.strip() for one in beside)
            (inline if has_text else names).add(_name(part))
    return frozenset(names - inline - {""})
