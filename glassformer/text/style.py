"""Style: how a text is typed, which a model need not know: capitals throughout, or none where a sentence begins.

A model that learned sentences reads a sentence; what it answers gets the style of the text. Pictures (emoji) at the
ends of a text stay there and are not read.
"""

import string
from dataclasses import dataclass
from itertools import chain

LEAST_CAPITALS = 5  # letters; fewer are an abbreviation
_RANGES = (0x2190, 0x21FF), (0x2600, 0x27BF), (0x2B00, 0x2BFF), (0x1F000, 0x1FAFF), (0xE0020, 0xE007F)
_JOINS = "\ufe0f\u200d\u20e3"
_SPACES = string.whitespace + "\u00a0\u2002\u2003\u2009\u202f\u3000"
_PICTURES = (range(first, last + 1) for first, last in _RANGES)
_AT_ENDS = "".join(map(chr, chain.from_iterable(_PICTURES))) + _JOINS + _SPACES


@dataclass(frozen=True)
class Style:
    """What was changed in a text for the model, and is changed back in its answer."""

    capitals: bool = False
    lower_start: bool = False

    def restore(self, answer: str, *, is_start: bool = True) -> str:
        """The answer in the style of the text; ``is_start``: it is not the later part of one."""
        if self.capitals:
            return answer.upper()
        return answer[:1].lower() + answer[1:] if self.lower_start and is_start else answer


PLAIN = Style()


def read_style(text: str) -> tuple[str, Style]:
    """``text`` as a sentence is written, and its style. What does not begin with a letter keeps its case."""
    letters = [letter for letter in text if letter.isalpha()]
    if len(letters) >= LEAST_CAPITALS and all(map(str.isupper, letters)):
        return _as_sentence(text.lower()), Style(capitals=True)
    if text[:1].islower() and " " in text:
        return _as_sentence(text), Style(lower_start=True)
    return text, PLAIN


def _as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def split_pictures(text: str) -> tuple[str, str, str]:
    """The pictures and spaces before a text, the text between, and those after it."""
    rest = text.lstrip(_AT_ENDS)
    inner = rest.rstrip(_AT_ENDS)
    return text[: len(text) - len(rest)], inner, rest[len(inner) :]
