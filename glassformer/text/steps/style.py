"""Style: how a text is typed, which a model need not know: in upper case, with a lower-case start, with emoji.

A model reads a sentence; its answer gets the style of the text. Punctuation that carries no words is not read: a
bullet, brackets around the whole text, the marks after the first at its end (``!!!``), and emoji at the ends. Emoji
inside are codes.
"""

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from glassformer.text.codes.code import Code, Part, Parts, mark_codes, replace_codes, restore_codes
from glassformer.text.codes.find import stands_for_word
from glassformer.text.lines import has_letter, is_blank, normalize_source
from glassformer.text.steps.step import Change, TextOptions

_LEAST_UPPERCASE = 5  # letters; fewer are an abbreviation
_RANGES = (0x2190, 0x21FF), (0x2600, 0x27BF), (0x2B00, 0x2BFF), (0x1F000, 0x1FAFF), (0xE0020, 0xE007F)
_JOINS = "\ufe0f\u200d\u20e3"
_SPACES = string.whitespace + "\u00a0\u2002\u2003\u2009\u202f\u3000"
_AT_ENDS = (
    "".join(map(chr, chain.from_iterable(range(first, last + 1) for first, last in _RANGES))) + _JOINS + _SPACES
)
_ONE = f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _RANGES)}]"
EMOJI = re.compile(f"{_ONE}(?:[{_JOINS}]|{_ONE})*(?: {_ONE}(?:[{_JOINS}]|{_ONE})*)*")
"""Emoji in a row, with single spaces between them."""
_BULLET = re.compile(r"(?:[-–—*•·>#]+|\d{1,2}\))\s+")
_MARKS = re.compile(r"(?<=[.!?])[.!?]+$")
_PLAIN_ENDS = re.compile(r"[A-Za-z].*[A-Za-z\d][A-Za-z\d.!?,:;]", re.DOTALL)
_AROUND = {"()", "[]"}  # no quotes, which are others in other languages
_FIRST_LETTER = re.compile(r"([\W_]*)([^\W\d_])")
_WORD = "0"  # for a code that may stand for a word: no letter, so that it has no case


@dataclass(frozen=True)
class Punctuation(Change):
    """What stands before and after the text that is read."""

    before: str
    after: str

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The answer between them."""
        after = self.after if is_whole else ""
        return tuple([part for part in (self.before, *answers[0], after) if part])


def read_punctuation(parts: Parts, options: TextOptions) -> Change | None:
    """Take off white space and, if the style is matched, the punctuation that carries no words."""
    coded, codes = replace_codes(parts)
    if options.matches_style and not _keeps_case(parts, options):
        before, inner, after = split_punctuation(coded)
    else:
        inner = coded.strip()
        before, _, after = ("", "", "") if is_blank(inner) else coded.partition(inner)
    signs = before.strip()
    if signs and options.prefix.strip().startswith(signs):
        before = before[: before.index(signs)]
    if inner == coded:
        return None
    return Punctuation((restore_codes(inner, codes),), before, after)


def _keeps_case(parts: Parts, options: TextOptions) -> bool:
    """Whether the style is not matched: a code may stand before a prefix."""
    return options.is_constrained and any(isinstance(part, Code) for part in parts)


def read_emoji(parts: Parts, options: TextOptions) -> Change | None:
    """Emoji inside a text become codes, but for a text whose answer must have some."""
    is_plain = all(part.isascii() for part in parts if isinstance(part, str))  # fast path
    if is_plain or not options.matches_style or EMOJI.search(" ".join((options.prefix, *options.phrases))):
        return None
    found = mark_codes(parts, EMOJI, lambda match: Code(match[0], is_text=True))
    return None if found == parts else Change((found,))


@dataclass(frozen=True)
class Case(Change):
    """A text that is read as a sentence is written.

    ``written`` is the prefix of its answer as the model writes it.
    """

    uppercase: bool = False
    lower_start: bool = False
    keeps_capital: Callable[[str], bool] | None = None
    prefix: str = ""
    written: str = ""
    phrases: tuple[str, ...] = ()

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The answer in the case of the text, with what it must have as it was typed."""
        if not is_whole and (self.prefix or self.phrases or self.keeps_capital):
            return ()
        parts = list(answers[0])
        first = parts[0] if parts and isinstance(parts[0], str) else ""
        has_prefix = bool(self.written) and first.startswith(self.written)
        if has_prefix:
            parts[0] = first[len(self.written) :]
        if self.uppercase:
            parts = [part.upper() if isinstance(part, str) else part for part in parts]
        elif self.lower_start and not has_prefix and not (self.keeps_capital and self.keeps_capital(first)):
            _change_first_letter(parts, str.lower)
        for phrase in self.phrases:
            parts = [_as_typed(part, phrase) if isinstance(part, str) else part for part in parts]
        return tuple([part for part in (self.prefix if has_prefix else "", *parts) if part])


def read_case(parts: Parts, options: TextOptions) -> Change | None:
    """A text in upper case, or with a lower-case start, is read as a sentence is written."""
    if not options.matches_style or _keeps_case(parts, options):
        return None
    read, uppercase, lower_start = _read_case(parts)
    is_word = len(parts) == 1 and isinstance(parts[0], str) and is_lower_word(parts[0])
    keeps_capital = options.keeps_capital if lower_start and is_word else None
    if not options.is_constrained:
        changed = uppercase or lower_start
        return Case((read,), uppercase, lower_start, keeps_capital) if changed else None
    prefix = options.prefix.strip()
    written = normalize_source(split_punctuation(prefix)[1] if has_letter(prefix) else prefix)
    if uppercase and written.isupper():
        written = written.lower()
    if uppercase or lower_start:
        written = written[:1].upper() + written[1:]
    return Case((read,), uppercase, lower_start, keeps_capital, prefix, written, options.phrases)


def _read_case(parts: Parts) -> tuple[Parts, bool, bool]:
    """The parts as a sentence is written, and whether they were in upper case, or had a lower-case start."""
    text = normalize_source("".join([part if isinstance(part, str) else _stand_in(part) for part in parts]))
    found = list(parts)
    if is_uppercase(text):
        found = [part.lower() if isinstance(part, str) else part for part in parts]
        _change_first_letter(found, str.upper)
        return tuple(found), True, False
    is_word = is_lower_word(text)
    if text[:1].islower() and (" " in text or (is_word and len(parts) == 1)):
        _change_first_letter(found, str.upper)
        return tuple(found), False, True
    return parts, False, False


def _stand_in(code: Code) -> str:
    if stands_for_word(code):
        return _WORD
    return " " if EMOJI.fullmatch(code.raw) else ""


def is_uppercase(text: str) -> bool:
    """Whether all letters of a text are capitals, and more than those of an abbreviation."""
    if text.isascii() and not text.isupper():  # fast path
        return False
    letters = [letter for letter in text if letter.isalpha()]
    return len(letters) >= _LEAST_UPPERCASE and all(map(str.isupper, letters))


def is_lower_word(text: str) -> bool:
    """Whether a text is a word in lower case, perhaps with a mark at its end."""
    word = text[:-1] if text[-1:] in ".!?…" else text
    return word.isalpha() and word.islower()


def _change_first_letter(parts: list[Part], change: Callable[[str], str]) -> None:
    """Change the case of the first letter, unless a number, or a code that stands for a word, is before it."""
    for number, part in enumerate(parts):
        if isinstance(part, Code):
            if stands_for_word(part):
                return
        elif found := _FIRST_LETTER.match(part):
            parts[number] = found[1] + change(found[2]) + part[found.end() :]
            return
        elif any(map(str.isalnum, part)):
            return


def _as_typed(text: str, phrase: str) -> str:
    """The text with a phrase in the spelling wanted, if a change of case has given it another."""
    if phrase in text:
        return text
    form = next((form for form in (phrase.upper(), phrase[:1].lower() + phrase[1:]) if form in text), "")
    return text.replace(form, phrase, 1) if form else text


def split_punctuation(text: str) -> tuple[str, str, str]:
    """The signs and spaces before a text, the text between, and those after it; one without a letter stays whole."""
    if _PLAIN_ENDS.fullmatch(text):  # fast path: to look for each of a thousand signs takes time
        return "", text, ""
    inner = text.lstrip(_AT_ENDS)
    if bullet := _BULLET.match(inner):
        inner = inner[bullet.end() :].lstrip(_AT_ENDS)
    whole = inner.rstrip(_AT_ENDS)
    pair = whole[:1] + whole[-1:]
    if pair in _AROUND and len(whole) > 2 and not set(pair) & set(whole[1:-1]):
        inner = inner[1:].lstrip(_AT_ENDS)
        read = inner.rstrip(_AT_ENDS)[:-1].rstrip(_AT_ENDS)
    else:
        read = whole
    read = _MARKS.sub("", read)
    if not has_letter(read):
        return "", text, ""
    start = len(text) - len(inner)
    return text[:start], read, text[start + len(read) :]
