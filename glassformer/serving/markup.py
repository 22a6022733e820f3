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
_ADDRESS = re.compile(r"(?:[@#]|\w+://|www\.)\S+")
_LINK_CLASS = re.compile(r"\bclass\s*=\s*[\"'][^\"']*\b(?:mention|hashtag|h-card)\b", re.IGNORECASE)


def _protect(parts: Sequence[Part], names: str, of_class: re.Pattern[str] | None = None) -> Parts:
    """The same parts, with elements of these names as codes; an element ends at its own tag, counted by depth."""
    found = list[Part]()
    tag = re.compile(rf"<(/?)({names})(?![\w:.-])[^<>]*?(/?)>", re.IGNORECASE)
    for part in parts:
        if isinstance(part, Code):
            found.append(part)
            continue
        end = 0
        for start, stop in _elements(part, tag):
            if of_class is None or _is_address(part[start:stop], of_class):
                found += [part[end:start], Code(part[start:stop])]
                end = stop
        found.append(part[end:])
    return tuple(part for part in found if part != "")


def _elements(text: str, tag: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where the outermost elements are; one that is not closed is none."""
    start, open_name, depth = 0, "", 0
    for match in tag.finditer(text):
        closes, name, is_alone = match[1], match[2].lower(), match[3]
        if not depth:
            if closes:
                continue
            start, open_name = match.start(), name
        if name == open_name and not (is_alone and depth):
            depth += 0 if is_alone else -1 if closes else 1
            if not depth:
                yield start, match.end()


def _is_address(element: str, of_class: re.Pattern[str]) -> bool:
    """Whether a link shows an address or a name, as links of Mastodon and Discourse do."""
    shown = re.sub(r"<[^<>]*>", "", element)
    return bool(_ADDRESS.fullmatch(unescape(shown).strip()) or of_class.search(element[: element.find(">")]))


def protect_links(parts: Parts, options: TextOptions) -> Change | None:
    """A step: links that show an address, a name or a hashtag stay as they are."""
    found = _protect(parts, "a", _LINK_CLASS)
    return Change((found,)) if found != parts else None


@dataclass(frozen=True)
class ProtectElements:
    """A step: elements with these names stay as they are."""

    names: tuple[str, ...]

    def __call__(self, parts: Parts, options: TextOptions) -> Change | None:
        """None where there is no such element."""
        found = _protect(parts, "|".join(map(re.escape, self.names))) if self.names else parts
        return Change((found,)) if found != parts else None


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
        filling = Filling(self.page, count_segments(*_HTML), self.segments, found, is_bilingual=False)
        text, unfit = filling.fill()
        self.unfit[:] = unfit
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

    With ``outline`` an element is a border too unless there is text beside it.
    """

    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True

    def __call__(self, parts: Parts, options: TextOptions) -> Change:
        """The text between the borders, piece by piece."""
        marked = mark_codes(parts, _TOKEN, _xml_code)
        borders = self.splitting | (_structure(marked) if self.outline else frozenset())
        pieces: list[list[Part]] = [[]]
        for part in marked:
            if isinstance(part, Code) and _name(part.raw) in borders - self.non_splitting:
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
    if match[2] is None or match[3]:
        return Code(match[0])
    return Code(match[0], "closes" if match[1] else "opens")


def _name(tag: str) -> str:
    match = re.match(r"</?([^\s<>/]+)", tag)
    return match[1] if match else ""


def _structure(parts: Sequence[Part]) -> frozenset[str]:
    """The names of elements that never have text beside them."""
    inside: list[tuple[bool, set[str]]] = [(False, set())]  # whether there is text, and the elements
    structure, inline = set[str](), set[str]()
    for part in parts:
        has_text, names = inside[-1]
        if isinstance(part, str):
            inside[-1] = (has_text or bool(part.strip()), names)
        elif part.kind == "closes" and len(inside) > 1:
            (inline if has_text else structure).update(names)
            inside.pop()
        elif name := _name(part.raw):
            names.add(name)
            if part.kind == "opens":
                inside.append((False, set()))
    for has_text, names in inside:
        (inline if has_text else structure).update(names)
    return frozenset(structure - inline)
