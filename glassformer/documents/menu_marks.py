"""Menu marks: the sign before the letter that chooses an entry, as in &File, _Open, Sa~ve and 文件(&F).

A text is translated without it. Then it stands before the same letter, if the translation has that at the start of a
word or else anywhere, or before the first letter; in a script without letters to press, in brackets at the end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glassformer.text.codes.code import Parts
from glassformer.text.scripts import is_unspaced
from glassformer.text.steps.step import Change, TextOptions

_MOST_WORDS = 12  # of an entry: longer texts have no marks
_SIGN = re.compile("[&_~]")
_IN_BRACKETS = re.compile(r"\s?\(([&_~])(\w)\)(?=[\s.…:]*\Z)")
_AT_WORD = re.compile(r"(?<![\w&~])([&_~])([^\W\d_])(?!\w*;)")
# In a word that begins with a capital, so that neither AT&T nor my_file has one.
_IN_WORD = re.compile(r"(?<![^\W_])(?![a-z])[^\W\d_]+([&_~])([^\W\d_A-Z])(?!\w*;)")
_END = re.compile(r"[\s.…:]*\Z")  # what follows an entry


class MenuMark(NamedTuple):
    """A sign and the letter that it stands before."""

    sign: str
    letter: str


@dataclass(frozen=True)
class Marked(Change):
    """A text without its menu mark."""

    mark: MenuMark

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The answer with the mark."""
        return put_mark(answers[0], self.mark) if is_whole else ()

    def check(self, answer: Parts) -> list[str]:
        """That the answer has a letter for it."""
        has_sign = any(self.mark.sign in part for part in answer if isinstance(part, str))
        return [] if has_sign else [f"the sign {self.mark.sign} is missing"]


def read_menu_mark(parts: Parts, options: TextOptions) -> Change | None:
    """A step: the text without its mark, if it has exactly one."""
    bare, mark = take_mark(parts)
    return None if mark is None else Marked((bare,), mark)


def take_mark(parts: Parts) -> tuple[Parts, MenuMark | None]:
    """The parts without their mark, if they have exactly one."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(_SIGN.findall("".join(texts))) != 1 or len(" ".join(texts).split()) > _MOST_WORDS:
        return parts, None
    number = next(n for n, part in enumerate(parts) if isinstance(part, str) and _SIGN.search(part))
    text = str(parts[number])
    if found := _IN_BRACKETS.search(text):
        bare = text[: found.start()] + text[found.end() :]
    elif found := _AT_WORD.search(text) or _IN_WORD.search(text):
        bare = text[: found.start(1)] + text[found.end(1) :]
    else:
        return parts, None
    return (*parts[:number], bare, *parts[number + 1 :]), MenuMark(found[1], found[2])


def put_mark(parts: Parts, mark: MenuMark) -> Parts:
    """The parts with the mark; as they are, if they have no letter."""
    letter = re.escape(mark.letter)
    for pattern in (rf"(?i)(?<!\w){letter}", rf"(?i){letter}", r"[^\W\d_]"):
        for number, part in enumerate(parts):
            found = re.search(pattern, part) if isinstance(part, str) else None
            if found is None:
                continue
            place, written = found.start(), mark.sign
            if is_unspaced(found[0]):
                place, written = len(_END.sub("", str(part))), f"({mark.sign}{mark.letter.upper()})"
            return (*parts[:number], f"{part[:place]}{written}{part[place:]}", *parts[number + 1 :])
    return parts
