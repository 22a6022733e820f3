"""The text of a segment without its codes, as the model reads it, and where the codes were.

A code has no word in the text, unless stand-ins are wanted: names and numbers where codes seem to carry grammar.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Literal, NamedTuple, cast

from glassformer.text.codes.checks import DROPPED, HALF_OF_DAY, NAME, drop_breaks
from glassformer.text.codes.code import Code, Part, join_parts, mark_codes, unused_signs
from glassformer.text.codes.find import pair_name, stands_for_word
from glassformer.text.lines import normalize_source, normalize_spaces
from glassformer.text.scripts import AFTER_WORDS, OPENING, is_unspaced

_COUNT = re.compile(r"%[^a-zA-Z%]*[diouxXeEfFgG]$|count|num|total|size|\bn\b|^#$", re.IGNORECASE)
_NUMBER = r"\d+(?:[.,\u00a0\u202f'/]\d+)*"
_SIGNS = (
    r"[#+<=>@\\^|~$¢-¦©®°±\u20a0-\u20cf\u2100-\u214f\u2190-\u23ff\u2460-\u27bf\u2900-\u297f\u2b00-\u2bff"
    r"\U0001f000-\U0001faff][\ufe0e\ufe0f\u200d]?"
)
# A number with its sign and its unit is one code, and so are signs without a space between them.
_NUMBERS_AND_SIGNS = re.compile(
    rf"(?:(?<!\S)[-\u2212\u2013]|[#+<>~$¢-¥©±\u20a0-\u20cf]\s?)?{_NUMBER}"
    rf"(?:\s?[%$¢-¥°\u20a0-\u20cf]|(?::\d\d)?\s?{HALF_OF_DAY})?|(?:{_SIGNS})+|{NAME}"
)
_NAMES = ("Tom", "Berlin", "Peter", "Paris", "Anna", "Japan", "Robert", "London")
_COUNTS = ("7", "12", "5", "30", "8", "15", "40", "3")
_TO_FIRST_LETTER, _TO_LAST_LETTER = re.compile(r"[\W_]*+[^\W_]"), re.compile(r".*[^\W_]", re.DOTALL)
_KINDS = ("alone", "word", "opens", "closes")
_BRACKETS = {"()", "[]", '""', "''", "«»", "„“", "“”", "‘’", "{}", "<>"}
_BEFORE_WORD, _BEHIND_WORD = f" \"'{OPENING}", f" \"'“{AFTER_WORDS}"
_SEPARATORS = tuple(":;,|/–—-")
_SEPARATOR, _SEPARATOR_AFTER = re.compile(r"[:;,|/–—-]++(?=\s)"), re.compile(r"\s?[:;,|/–—-]++(?=\s)")
_ENDINGS = "e?s|th|st|nd|rd|x|px|pt|em|[kMGT]i?B|[kcmn]?m|k?g|ms|min|h|k?W"


@dataclass(eq=False)
class Placeholder:
    """Codes that left a text: a pair round the characters ``start`` to ``end``, or a run of others at one place."""

    parts: tuple[Part, ...]
    """What opens a pair, or the run with the signs between its codes."""
    start: int
    end: int
    closing: tuple[Part, ...] | None = None
    """What closes a pair; None of a run."""
    inner: list["Placeholder"] = field(default_factory=list)
    """What a pair encloses, in order."""
    left: str = ""
    """The character before a run, tags apart; empty at an end."""
    right: str = ""
    has_tags: tuple[bool, bool] = (False, False)
    """Whether a run has tags between it and these characters."""

    @property
    def label(self) -> str:
        """The codes as a remark names them."""
        return join_parts(self.parts) + ("…" + join_parts(self.closing) if self.closing else "")


@dataclass
class Draft:
    """What the model is given for a segment, and the codes that are not in it."""

    source: tuple[Part, ...]
    text: str = ""
    marks: list[Placeholder] = field(default_factory=list)
    words: list[tuple[str, Placeholder]] = field(default_factory=list)
    """The stand-ins, in order, each of them once in the text."""


class _CodeGroup(NamedTuple):
    """Codes that stay together, with the signs between them; a pair without words has others in it."""

    pieces: "tuple[Part | _CodeGroup, ...]"
    kind: Literal["opens", "closes", "alone", "word"]
    """``word``: one that may stand for a word of the sentence."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The codes and the signs, in order."""
        if not any(isinstance(piece, _CodeGroup) for piece in self.pieces):  # fast path
            return cast(tuple[Part, ...], self.pieces)
        found: list[Part] = []
        waiting = list(self.pieces[::-1])
        while waiting:
            piece = waiting.pop()
            if isinstance(piece, _CodeGroup):
                waiting += piece.pieces[::-1]
            else:
                found.append(piece)
        return tuple(found)


def mark_numbers(parts: Sequence[Part], write: Callable[[str], str] = str) -> tuple[Part, ...]:
    """The same parts, with numbers and signs as codes, which ``write`` turns into those of the target language."""
    return mark_codes(parts, _NUMBERS_AND_SIGNS, lambda match: Code(write(match[0]), is_text=True))


def write_amounts(parts: Sequence[Part], source: Sequence[Part], write: Callable[[str], str]) -> tuple[Part, ...]:
    """The parts of a translation, with amounts that are still those of the source as ``write`` writes them."""
    found = {match[0] for part in source if isinstance(part, str) for match in _NUMBERS_AND_SIGNS.finditer(part)}
    changed = {number for number in found if write(number) != number}
    if not changed:
        return tuple(parts)
    write_one = partial(_NUMBERS_AND_SIGNS.sub, lambda match: write(match[0]) if match[0] in changed else match[0])
    return tuple([write_one(part) if isinstance(part, str) else part for part in parts])


def amount_signs(languages: tuple[str, str] | None) -> tuple[str, ...] | None:
    """The signs between thousands and before decimals of both languages; None of one that is not known."""
    from babel import UnknownLocaleError  # takes time
    from babel.numbers import get_decimal_symbol, get_group_symbol

    codes = [language.partition("-")[0] for language in languages or ("", "")]
    try:
        return tuple([sign(code) for code in codes for sign in (get_group_symbol, get_decimal_symbol)])
    except (UnknownLocaleError, ValueError):
        return None


@lru_cache
def number_writer(languages: tuple[str, str] | None) -> Callable[[str], str]:
    """What writes an amount of the first language as the second does: $2,500.50 as $2.500,50 in German.

    Without a currency or thousands a number stays as it is: 2.0 may be a version.
    """
    found = amount_signs(languages)
    if found is None:
        return str
    group, point, *signs = found
    inner = rf"\d{{1,3}}(?:{re.escape(group)}\d{{3}})+(?:{re.escape(point)}\d+)?(?![\d{re.escape(group + point)}])"
    amount = re.compile(rf"[$¢-¥\u20a0-\u20cf]\s?(?:{inner}|\d+{re.escape(point)}\d+$)|^{inner}")
    swap = str.maketrans({group: signs[0], point: signs[1]})
    return lambda number: amount.sub(lambda found: found[0].translate(swap), number)


def make_draft(parts: Sequence[Part], attempt: int | None = None) -> Draft | None:
    """The text of ``parts`` without codes; with an ``attempt``, with stand-ins, which differ from attempt to attempt.

    None if no code seems to carry grammar, or if there are not enough stand-ins.
    """
    if attempt is not None and not any(isinstance(part, Code) and stands_for_word(part) for part in parts):
        return None
    if len(parts) == 1 and isinstance(parts[0], str):  # fast path
        return Draft(tuple(parts), normalize_source(drop_breaks(parts[0])))
    builder = _Builder(Draft(tuple(parts)), _read_coded(tuple(parts)), attempt)
    builder.build()
    return None if attempt is not None and not builder.draft.words else builder.draft


def _balance(parts: tuple[Part, ...]) -> tuple["str | _CodeGroup", ...]:
    """Text and codes in which each opening has its closing, which may be empty; pairs without words are one code."""
    balance = _Balance()
    for part in parts:
        balance.add(part)
    while balance.opened:
        balance.close(())
    return tuple(balance.found)


class _Balance:
    """Reads parts and pairs what opens with what closes."""

    def __init__(self) -> None:
        self.found: list[str | _CodeGroup] = []
        self.opened: list[tuple[int, str, int]] = []
        """Where each open pair begins, its name, and how many texts with words were before it."""
        self._names, self._words = defaultdict[str, int](int), 0

    def add(self, part: Part) -> None:
        """Read the next part."""
        if isinstance(part, str):
            text = normalize_spaces(drop_breaks(part))
            self._words += any(map(str.isalnum, text))
            self.found.append(text)
        elif part.kind == "opens":
            self._open(len(self.found), pair_name(part), self._words, (part,))
        elif part.kind == "closes":
            self._close_named(part)
        elif not DROPPED.fullmatch(part.raw):
            self.found.append(_CodeGroup((part,), "word" if stands_for_word(part) else "alone"))

    def _open(self, place: int, name: str, words: int, opening: tuple[Part, ...]) -> None:
        self.found.insert(place, _CodeGroup(opening, "opens"))
        self.opened.append((place, name, words))
        self._names[name] += 1

    def _close_named(self, code: Code) -> None:
        name = pair_name(code)
        while self._names[name] and self.opened[-1][1] != name:
            self.close(())
        if not self._names[name]:  # what it closes stands in an earlier text
            start, words = (self.opened[-1][0] + 1, self.opened[-1][2]) if self.opened else (0, 0)
            self._open(start, name, words, ())
        self.close((code,))

    def close(self, closing: tuple[Part, ...]) -> None:
        """End the innermost pair."""
        start, name, before = self.opened.pop()
        self._names[name] -= 1
        if self._words > before:
            self.found.append(_CodeGroup(closing, "closes"))
            return
        inner = self.found[start:]
        is_word = any(isinstance(piece, _CodeGroup) and piece.kind == "word" for piece in inner)
        merged = (*inner, *closing)
        self.found[start:] = [_CodeGroup(merged, "word" if is_word else "alone")]


@lru_cache(maxsize=4)
def _run_pattern(alone: str, word: str, opens: str, closes: str) -> re.Pattern[str]:
    """Codes with nothing but signs between them; a unit or an ending at one that stands for a word: %ds, {n}th."""
    one = rf"(?:(?<![^\W_])[vx](?={word}))?[{alone}{word}](?:(?<={word})(?:{_ENDINGS})(?![^\W_]))?"
    between = rf"(?:[^\w\s{alone}{word}{opens}{closes}]{{0,3}}|\s?[,;/|&+–—-]\s)"
    return re.compile(rf"{one}(?:{between}{one})*|[{opens}{closes}]")


class _CodedText(NamedTuple):
    """A text in which each code is one sign of its kind."""

    text: str
    plain: str
    signs: Mapping[str, str]
    atoms: Sequence[_CodeGroup]
    first: int
    """Where the first letter or digit is; ``last``: the last one."""
    last: int


@lru_cache(1000)  # each text is looked up again, with stand-ins
def _read_coded(parts: tuple[Part, ...]) -> _CodedText:
    pieces = _balance(parts)
    plain = "".join([piece for piece in pieces if isinstance(piece, str)])
    signs = dict(zip(_KINDS, unused_signs(plain), strict=False))
    text = "".join([piece if isinstance(piece, str) else signs[piece.kind] for piece in pieces])
    first, last = _TO_FIRST_LETTER.match(text), _TO_LAST_LETTER.match(text)
    ends = first.end() - 1 if first is not None else len(text), last.end() - 1 if last is not None else -1
    atoms = [piece for piece in pieces if isinstance(piece, _CodeGroup)]
    return _CodedText(text, plain, signs, atoms, *ends)


def _find_runs(coded: _CodedText) -> Iterator[tuple[int, int]]:
    """Where runs and tags are, with brackets round them; at an end of the text with what divides them from it."""
    text, tags, done = coded.text, coded.signs["opens"] + coded.signs["closes"], 0
    for match in _run_pattern(*coded.signs.values()).finditer(text):
        start, end = match.span()
        if match[0] not in tags:
            while start > done and text[start - 1 : start] + text[end : end + 1] in _BRACKETS:
                start, end = start - 1, end + 1
            if end <= coded.first and (separator := _SEPARATOR.match(text, end)):
                end = separator.end()
            if start > coded.last:
                start = _before_separator(text, done, start)
            if text[done:start].rstrip()[-1:] in _SEPARATORS and (separator := _SEPARATOR_AFTER.match(text, end)):
                end = separator.end()  # of two commas one is enough
        yield start, end
        done = end


class _Builder:
    """Writes a draft from the runs of codes of a text."""

    def __init__(self, draft: Draft, coded: _CodedText, attempt: int | None) -> None:
        self.draft, self._attempt = draft, attempt
        self._source, self._coded, self._signs, self._first = coded, coded.text, coded.signs, coded.first
        self._atoms, self._tags = iter(coded.atoms), coded.signs["opens"] + coded.signs["closes"]
        if attempt is not None:
            start = 2 * attempt  # each attempt begins with others
            self._names, self._counts = (
                iter([word for word in (*each[start:], *each[:start]) if not find_word(word, coded.plain)])
                for each in (_NAMES, _COUNTS)
            )
        self._opened: list[Placeholder] = []
        self._text: list[str] = []
        self._length, self._space, self._after_run = 0, False, False

    def build(self) -> None:
        """Fill the draft."""
        position = 0
        for start, end in _find_runs(self._source):
            self._add_text(self._coded[position:start])
            sign = self._coded[start]
            if end == start + 1 and sign in self._tags:
                self._add_tag(next(self._atoms))
            else:
                self._add_run(start, end)
            position = end
        self._add_text(self._coded[position:])
        self.draft.text = "".join(self._text)

    def _add_text(self, text: str) -> None:
        if not text:
            return
        if text[0] == " ":
            is_open = self._after_run and self._text[-1:] != [] and self._text[-1][-1:] in OPENING
            self._space, text = self._length > 0 and not is_open, text[1:]
        if text:
            # Where a code was before a full stop, no space is left.
            if self._space and not (self._after_run and text[0] in AFTER_WORDS):
                self._append(" ")
            self._append(text.rstrip(" "))
            self._space, self._after_run = text[-1] == " ", False

    def _append(self, text: str) -> None:
        self._text.append(text)
        self._length += len(text)

    def _add(self, mark: Placeholder) -> None:
        (self._opened[-1].inner if self._opened else self.draft.marks).append(mark)

    def _add_tag(self, atom: _CodeGroup) -> None:
        if atom.kind == "opens":
            mark = Placeholder(atom.parts, self._length, self._length, ())
            self._add(mark)
            self._opened.append(mark)
        else:
            mark = self._opened.pop()
            mark.end, mark.closing = self._length, atom.parts

    def _add_run(self, start: int, end: int) -> None:
        left, right = self._coded[:start].rstrip(self._tags)[-1:], self._coded[end:].lstrip(self._tags)[:1]
        atoms = []
        parts: list[Part] = []
        for sign in self._coded[start:end]:
            if sign in (self._signs["alone"], self._signs["word"]):
                atoms.append(next(self._atoms))
                parts += atoms[-1].parts
            else:
                parts.append(sign)
        tags = self._coded[start - 1 : start] in self._tags, self._coded[end : end + 1] in self._tags
        mark = Placeholder(tuple(parts), self._length, self._length, left=left, right=right, has_tags=tags)
        word = self._stand_in(mark, atoms, end) if self._attempt is not None and len(parts) == len(atoms) else None
        if word is not None:
            self.draft.words.append((word, mark))
            self._add_text(word)
            return
        self._add(mark)
        self._after_run = True
        if left.isalnum() and right.isalnum() and not is_unspaced(left):
            self._space = True

    def _stand_in(self, mark: Placeholder, atoms: list[_CodeGroup], end: int) -> str | None:
        """A word for a code that seems to be a part of the sentence."""
        is_free = mark.left in _BEFORE_WORD and mark.right in _BEHIND_WORD
        if len(atoms) != 1 or atoms[0].kind != "word" or not is_free:
            return None
        raw = join_parts(part for part in mark.parts if isinstance(part, Code) and part.kind == "alone")
        is_count = bool(_COUNT.search(raw) or _NUMBERS_AND_SIGNS.fullmatch(raw))
        following = self._coded[end:].lstrip(" " + self._tags)[:1]
        if end <= self._first and (following.isupper() and not is_count):
            return None  # "%s The house is big."
        return next(self._counts if is_count != (self._attempt == 2) else self._names, None)


def _before_separator(text: str, start: int, end: int) -> int:
    """Where the signs begin, with a space, that divide ``text[start:end]`` from what follows; else ``end``."""
    stripped = text[start:end].rstrip()
    without = stripped.rstrip("".join(_SEPARATORS))
    return end if without == stripped else start + len(without.rstrip())


def find_word(word: str, text: str) -> list[re.Match[str]]:
    """Where a text has ``word``, with no letter or digit next to it that could belong to it."""
    if word not in text:
        return []

    def is_apart(neighbour: str, edge: str) -> bool:
        return not neighbour.isalnum() or is_unspaced(neighbour) or is_unspaced(edge)

    return [
        found
        for found in re.finditer(re.escape(word), text)
        if is_apart(text[max(0, found.start() - 1) : found.start()], word[0])
        and is_apart(text[found.end() : found.end() + 1], word[-1])
    ]
