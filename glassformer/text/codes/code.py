"""A code: what is not translated, such as a tag or a placeholder; a text is a row of parts, strings and codes."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from glassformer.text.lines import has_letter


class Code(NamedTuple):
    """What is not translated; it ``opens`` or ``closes`` a part of the text, or is alone."""

    raw: str
    kind: Literal["opens", "closes", "alone"] = "alone"
    is_text: bool = False
    """Whether ``raw`` is text, which the file may have to write in another way, or what the file has."""


Part = str | Code
Parts = tuple[Part, ...]


def join_parts(parts: Iterable[Part]) -> str:
    """The text with its codes as they are."""
    if isinstance(parts, tuple) and len(parts) == 1 and isinstance(parts[0], str):  # fast path
        return parts[0]
    return "".join([part if isinstance(part, str) else part.raw for part in parts])


def join_texts(parts: Iterable[Part]) -> list[Part]:
    """The same parts, with texts that stand side by side as one."""
    found, text = list[Part](), list[str]()
    for part in parts:
        if isinstance(part, str):
            text.append(part)
            continue
        if text:
            found.append("".join(text))
            text.clear()
        found.append(part)
    return [*found, "".join(text)] if text else found


def mark_codes(parts: Iterable[Part], pattern: re.Pattern[str], code: Callable[[re.Match[str]], Code]) -> Parts:
    """The same parts, with what the pattern finds in their text as codes."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Code):
            found.append(part)
            continue
        position = 0
        for match in pattern.finditer(part):
            if match.start() > position:
                found.append(part[position : match.start()])
            found.append(code(match))
            position = match.end()
        if position < len(part):
            found.append(part[position:])
    return tuple(found)


def write_parts(parts: Iterable[Part], escape: Callable[[str], str]) -> str:
    """The text with its codes as a file has it: ``escape`` writes text, codes of the file stay as they are."""
    return "".join(
        part.raw if isinstance(part, Code) and not part.is_text else escape(join_parts([part])) for part in parts
    )


def trim(parts: Sequence[Part]) -> tuple[str, Parts, str]:
    """White space before and after the text, and what is between."""
    inner = list(parts)
    before = after = ""
    if inner and isinstance(inner[0], str):
        stripped = inner[0].lstrip()
        before, inner[0] = inner[0][: len(inner[0]) - len(stripped)], stripped
    if inner and isinstance(inner[-1], str):
        stripped = inner[-1].rstrip()
        after, inner[-1] = inner[-1][len(stripped) :], stripped
    return before, tuple(part for part in inner if part != ""), after


def has_words(parts: Iterable[Part]) -> bool:
    """Whether there is a letter outside the codes, and so something to translate."""
    return any(isinstance(part, str) and has_letter(part) for part in parts)


def replace_codes(parts: Parts) -> tuple[str, dict[str, Code]]:
    """The text in which each code is one sign, and what these signs stand for."""
    if len(parts) == 1 and isinstance(parts[0], str):  # fast path
        return parts[0], {}
    free = unused_signs(join_parts(parts))
    codes = {next(free): part for part in parts if isinstance(part, Code)}
    signs = iter(codes)
    return "".join([part if isinstance(part, str) else next(signs) for part in parts]), codes


def restore_codes(text: str, codes: Mapping[str, Code]) -> Parts:
    """The parts of a text in which signs stand for codes."""
    pieces = re.split(f"([{''.join(codes)}])", text) if codes else [text]
    return tuple([codes.get(piece, piece) for piece in pieces if piece])


def unused_signs(text: str) -> Iterator[str]:
    """Signs of private use that a text does not have, to stand for codes."""
    return (sign for sign in map(chr, range(0xE000, 0xF900)) if sign not in text)
