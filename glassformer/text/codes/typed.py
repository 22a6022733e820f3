"""A typed sentence with codes: what of it a model reads, but for its codes, and how it was typed.

Pictures (emoji) inside it are codes, too, where its style is matched.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from glassformer.text.codes.placeholders import find_codes, split_parts, stands_for_word, unused_signs
from glassformer.text.formats.segment import Code, Part, join_parts, mark_codes
from glassformer.text.lines import has_letter, normalize_source
from glassformer.text.sentence_splitter import Sentence
from glassformer.text.style import PICTURES, PLAIN, Style, is_lower_word, read_style, split_signs

Parts = tuple[Part, ...]
_MOST_CODES, _LONGEST_WITH_CODES = 300, 30_000  # of one text, in characters; far beyond any sentence
_WORD = "0"  # for a code that may stand for a word: no letter, so that it has no case


class TypedSentence(NamedTuple):
    """A sentence with codes: what stands before and after the parts that are read, and its style."""

    before: str
    parts: Parts
    after: str
    style: Style

    def restore(self, parts: Sequence[Part]) -> Parts:
        """The parts of a translation in the style of the sentence."""
        found = list(parts)
        if self.style.capitals:
            found = [part.upper() if isinstance(part, str) else part for part in parts]
        elif self.style.lower_start:
            _change_first_letter(found, str.lower)
        return tuple(found)


def _change_first_letter(parts: list[Part], change: Callable[[str], str]) -> None:
    """Change the case of the first letter, unless a code that stands for a word is before it."""
    for number, part in enumerate(parts):
        if isinstance(part, Code) and stands_for_word(part):
            return
        if isinstance(part, str) and has_letter(part):
            parts[number] = re.sub(r"[^\W\d_]", lambda letter: change(letter[0]), part, count=1)
            return


def split_codes(
    text: str, given: Sequence[str], split: Callable[[str], list[Sentence]]
) -> list[tuple[Parts, str]] | None:
    """The sentences of a text with its codes, as ``split`` cuts a text, and the white space after each.

    None if it has no code, or if what is ``given`` of its translation has one, which then stands where it is wanted.
    """
    parts = find_codes((text,))
    if parts == (text,) or any(find_codes((one,)) != (one,) for one in given if one):
        return None
    return split_parts(parts, split)


def has_words(parts: Sequence[Part]) -> bool:
    """Whether there is a letter outside the codes, and so something to translate."""
    return any(isinstance(part, str) and has_letter(part) for part in parts)


def is_crowded(parts: Sequence[Part]) -> bool:
    """Whether the places of the codes would take time without end: each is looked for among all words."""
    if len(parts) == 1:
        return False
    codes = sum(isinstance(part, Code) for part in parts)
    return codes > _MOST_CODES or (codes > 1 and len(join_parts(parts)) > _LONGEST_WITH_CODES)


def read_typed(parts: Parts, *, matches_style: bool) -> TypedSentence:
    """A sentence as a model reads it: the signs at its ends apart and in the case of a sentence, if that is asked."""
    free = unused_signs(join_parts(parts))
    codes = {next(free): part for part in parts if isinstance(part, Code)}
    signs = iter(codes)
    coded = "".join([part if isinstance(part, str) else next(signs) for part in parts])
    if matches_style:
        before, inner, after = split_signs(coded)
    else:
        before, inner, after = "", coded, ""
    pieces = re.split(f"([{''.join(codes)}])", inner)
    read: Parts = tuple([codes.get(piece, piece) for piece in pieces if piece])
    if not matches_style:
        return TypedSentence(before, read, after, PLAIN)
    if not inner.isascii() and PICTURES.search(inner) is not None:
        read = mark_codes(read, PICTURES, lambda match: Code(match[0], is_text=True))
    read, style = _read_style(read)
    return TypedSentence(before, read, after, style)


def _read_style(parts: Parts) -> tuple[Parts, Style]:
    """The parts in the case of a sentence, and their style."""
    plain = "".join([part if isinstance(part, str) else _WORD * stands_for_word(part) for part in parts])
    style = read_style(normalize_source(plain))[1]
    if style == PLAIN or is_lower_word(plain.strip()):
        return parts, PLAIN
    found = [part.lower() if style.capitals and isinstance(part, str) else part for part in parts]
    _change_first_letter(found, str.upper)
    return tuple(found), style
