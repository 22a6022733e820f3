"""Style: how a text is typed, which a model need not know: in capitals, without one at its start, with pictures.

A model that learned sentences reads a sentence; what it answers gets the style of the text. Signs are not read: a
bullet before a text, brackets around the whole of it, the marks after the first at its end (``!!!``), and
pictures (emoji). Those at the ends of a text stay there, pictures inside come back between the words that correspond
by their place.
"""

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from glassformer.text.lines import has_letter, normalize_source

OPENING = tuple("([{«„“")
LEAST_CAPITALS = 5  # letters; fewer are an abbreviation
_RANGES = (0x2190, 0x21FF), (0x2600, 0x27BF), (0x2B00, 0x2BFF), (0x1F000, 0x1FAFF), (0xE0020, 0xE007F)
_JOINS = "\ufe0f\u200d\u20e3"
_SPACES = string.whitespace + "\u00a0\u2002\u2003\u2009\u202f\u3000"
_AT_ENDS = (
    "".join(map(chr, chain.from_iterable(range(first, last + 1) for first, last in _RANGES))) + _JOINS + _SPACES
)
_PICTURE = f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _RANGES)}]"
PICTURES = re.compile(f"{_PICTURE}(?:[{_JOINS}]|{_PICTURE})*(?: {_PICTURE}(?:[{_JOINS}]|{_PICTURE})*)*")
"""Pictures in a row, with single spaces between them."""
_BULLET = re.compile(r"(?:[-–—*•·>#]+|\d{1,2}\))\s+")
_MARKS = re.compile(r"(?<=[.!?])[.!?]+$")
_PLAIN_ENDS = re.compile(r"[A-Za-z].*[A-Za-z\d][A-Za-z\d.!?,:;]", re.DOTALL)
_AROUND = {"(": ")", "[": "]"}  # no quotes, which are others in other languages
_INSIDE = re.compile(f" ?{PICTURES.pattern} ?")


@dataclass(frozen=True)
class Style:
    """What was changed in a text for the model, and is changed back in its answer.

    ``pictures`` are those inside it, with the spaces beside them, and the share of the words that stand before each.
    ``prefix`` and ``phrases`` are what the answer must begin with and contain, as they were typed; ``written`` is the
    prefix as the model writes it.
    """

    capitals: bool = False
    lower_start: bool = False
    keeps_capital: Callable[[str], bool] | None = None
    """Of a single word: whether its answer, such as a German noun, has a capital wherever it stands."""
    pictures: tuple[tuple[str, float], ...] = ()
    prefix: str = ""
    written: str = ""
    phrases: tuple[str, ...] = ()

    @property
    def needs_whole(self) -> bool:
        """Whether an answer gets it only when it is complete."""
        return bool(self.pictures or self.prefix or self.phrases or self.keeps_capital)

    def restore(self, answer: str, *, is_start: bool = True) -> str:
        """The answer in the style of the text; ``is_start``: it is not the later part of one."""
        has_prefix = bool(self.written) and answer.startswith(self.written)
        rest = answer[len(self.written) :] if has_prefix else answer
        if self.capitals:
            rest = rest.upper()
        elif (
            self.lower_start and is_start and not has_prefix and not (self.keeps_capital and self.keeps_capital(rest))
        ):
            rest = rest[:1].lower() + rest[1:]
        for phrase in self.phrases:
            rest = _as_typed(rest, phrase)
        if not has_prefix:
            return _put_pictures(rest, self.pictures) if self.pictures else rest
        inner = _put_pictures(rest.lstrip(), self._pictures_after(self.written, rest))
        return self.prefix + ("" if inner[:1].isspace() else rest[: len(rest) - len(rest.lstrip())]) + inner

    def _pictures_after(self, written: str, rest: str) -> tuple[tuple[str, float], ...]:
        """The pictures that a prefix has not, with the share of the words of the rest that stand before each."""
        before, after = len(written.split()), len(rest.split())
        known = len(PICTURES.findall(self.prefix))
        return tuple(
            (raw, max(0.0, (share * (before + after) - before) / max(1, after)))
            for raw, share in self.pictures[known:]
        )

    def with_phrases(self, prefix: str, phrases: Sequence[str]) -> "Style":
        """The style of a text whose answer must begin with a prefix and contain phrases."""
        written = normalize_source(_take_pictures(split_signs(prefix)[1] if has_letter(prefix) else prefix)[0])
        if self.capitals and written.isupper():
            written = written.lower()
        if self.capitals or self.lower_start:
            written = _as_sentence(written)
        return replace(self, prefix=prefix, written=written, phrases=tuple(phrases))


PLAIN = Style()


def read_style(text: str) -> tuple[str, Style]:
    """``text``, with plain spaces, as a sentence is written, and its style.

    What does not begin with a letter keeps its case.
    """
    read, pictures = _take_pictures(text)
    read, style = _read_case(read)
    return read, replace(style, pictures=pictures) if pictures else style


def _read_case(text: str) -> tuple[str, Style]:
    if not text.isascii() or text.isupper():
        letters = [letter for letter in text if letter.isalpha()]
        if len(letters) >= LEAST_CAPITALS and all(map(str.isupper, letters)):
            return _as_sentence(text.lower()), Style(capitals=True)
    if text[:1].islower() and (" " in text or is_lower_word(text)):
        return _as_sentence(text), Style(lower_start=True)
    return text, PLAIN


def is_lower_word(text: str) -> bool:
    """Whether a text is a word in lower case, perhaps with a mark at its end."""
    word = text[:-1] if text[-1:] in ".!?…" else text
    return word.isalpha() and word.islower()


def _as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _as_typed(text: str, phrase: str) -> str:
    """The text with a phrase in the spelling wanted, if a change of case has given it another."""
    if phrase in text:
        return text
    form = next((form for form in (phrase.upper(), phrase[:1].lower() + phrase[1:]) if form in text), "")
    return text.replace(form, phrase, 1) if form else text


def split_signs(text: str) -> tuple[str, str, str]:
    """The signs and spaces before a text, the text between, and those after it; one without a letter stays whole."""
    if _PLAIN_ENDS.fullmatch(text):  # as most: to look for each of a thousand signs takes time
        return "", text, ""
    inner = text.lstrip(_AT_ENDS)
    if bullet := _BULLET.match(inner):
        inner = inner[bullet.end() :].lstrip(_AT_ENDS)
    if _is_enclosed(inner.rstrip(_AT_ENDS)):
        inner = inner[1:].lstrip(_AT_ENDS)
        read = inner.rstrip(_AT_ENDS)[:-1].rstrip(_AT_ENDS)
    else:
        read = inner.rstrip(_AT_ENDS)
    read = _MARKS.sub("", read)
    if not has_letter(read):
        return "", text, ""
    start = len(text) - len(inner)
    return text[:start], read, text[start + len(read) :]


def _is_enclosed(text: str) -> bool:
    """Whether a sign at its start is closed by that at its end, and neither occurs elsewhere."""
    if len(text) < 3 or _AROUND.get(text[0]) != text[-1]:
        return False
    return not {text[0], text[-1]} & set(text[1:-1])


def _take_pictures(text: str) -> tuple[str, tuple[tuple[str, float], ...]]:
    """The text without the pictures inside it, and these."""
    if text.isascii() or not has_letter(text):  # what has no letter is copied
        return text, ()
    kept, pictures, end = list[str](), list[tuple[str, int]](), 0
    for match in _INSIDE.finditer(text):
        kept.append(text[end : match.start()])
        raw = f" {match[0]}" if kept[-1].endswith(OPENING) else match[0]  # no bracket may be there afterwards
        pictures.append((raw, len("".join(kept).split())))
        end = match.end()
        kept.append(_gap(text[: match.start()], match[0], text[end:]))
    read = "".join([*kept, text[end:]])
    count = max(1, len(read.split()))
    return read, tuple((raw, words / count) for raw, words in pictures)


def _gap(before: str, picture: str, after: str) -> str:
    """What a model reads in place of a picture: a space, unless a sign stands close behind or a bracket before it."""
    is_close = not picture.endswith(" ") and not after[:1].isalnum()
    return "" if is_close or before.endswith(OPENING) else " "


def _put_pictures(answer: str, pictures: tuple[tuple[str, float], ...]) -> str:
    """The answer with the pictures after as large a share of its words as before; a sign that follows follows."""
    words = [match.span() for match in re.finditer(r"\S+", answer)]
    found, end = list[str](), 0
    for raw, share in pictures:
        number = round(share * len(words))
        start, stop = words[number - 1] if 0 < number <= len(words) else (0, 0)
        if not raw.endswith(" "):  # a sign stands close behind it
            stop = start + len(answer[start:stop].rstrip(string.punctuation))
        found += [answer[end:stop], raw.rstrip(" ") if number else raw]
        end = max(end, stop)
    return "".join([*found, answer[end:]])
