"""What a translation must have from its source: numbers, signs and codes, whatever is known of their syntax."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeGuard

from glassformer.text.codes.code import Code, Part, join_parts
from glassformer.text.codes.find import pair_name
from glassformer.text.scripts import OPENING

_NUMBER = re.compile(
    rf"(?:(?<![^\0\s\"'=<>{re.escape(OPENING)}])[-\u2212\u2013])?\d+(?:[.,'\u2019\u00a0\u202f]\d+)*(?:/\d+)*(?:[\s\u00a0\u202f]?%)?"
)
HALF_OF_DAY = r"(?i:[ap]m\b|[ap]\.m(?:\.(?=\s))?)"
_TIME = re.compile(rf"(?<![\d.,:])(1[0-2]|0?[1-9])((?::\d\d)?)\s?({HALF_OF_DAY})")
# Signs of markup, of programs and of mathematics: letters, digits, white space and other signs end a run.
# An & between words is a word.
_RUN = re.compile(r"(?!(?<!\S)&(?!\S))[%{}\[\]$&\\<>@#~_^|=+`]+")
# Currencies, ©, °, arrows, pictures.
_SIGN = re.compile(
    r"[¢-¥¦©®°±\u20a0-\u20cf\u2100-\u214f\u2190-\u23ff\u2460-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff]"
)
NAME = r"(?<![\d_:/]):(?!in(?:nen)?\b)[a-z]\w+(?![\w:])"
"""A placeholder such as :count, which may touch the word before it; not the ending of Leser:innen."""
_NAME = re.compile(NAME)
# Codes of programs; others are numbers and signs, or ``NAME``.
_OF_CODES = re.compile(r"%.*|(?!:[a-z]\w+\Z).*[A-Za-z{}].*|<.*>|\*\*|~~", re.DOTALL)
DROPPED = re.compile(r"<wbr\s*/?>|&(?:shy|#173|ZeroWidthSpace);|[\u00ad\u200b\u2060\ufeff]", re.IGNORECASE)
"""What only says where a line may be broken: it is not translated and not missed."""


def drop_breaks(text: str) -> str:
    """A text without what is ``DROPPED``."""
    return DROPPED.sub("", text) if "<" in text or "&" in text or not text.isascii() else text


def _read_time(found: re.Match[str]) -> str:
    """A time with am or pm by 24 hours."""
    hour = int(found[1]) % 12 + 12 * (found[3][0] in "pP")
    return f"{hour}{found[2]}"


def _plain_number(number: str) -> str:
    """A number as any language writes it: no signs between thousands, a full stop before decimals."""
    if number.isdecimal():
        return number
    sign, percent = "-" if number[0] in "-\u2212\u2013" else "", "%" if number.endswith("%") else ""
    return sign + "/".join(map(_plain_digits, number.strip("-\u2212\u2013% \u00a0\u202f").split("/"))) + percent


def _plain_digits(number: str) -> str:
    groups = re.split(r"[.,'\u2019\u00a0\u202f]", number)
    marks = re.findall(r"\D", number)
    thousands = [len(group) == 3 for group in groups[1:]]
    if not marks or (all(thousands) and len(set(marks)) == 1 and len(groups[0]) <= 3 and groups[0] != "0"):
        return "".join(groups)
    if all(thousands[:-1]) and marks.count(marks[-1]) == 1:  # the last mark is another, or the only one
        return f"{''.join(groups[:-1])}.{groups[-1]}"
    return ".".join(groups)


def changes(source: Sequence[Part], output: Sequence[Part]) -> list[str]:
    """In words, the numbers, the codes and the signs that the output does not have as often as the source.

    Numbers are compared with sign and decimals: 1,000.5 is 1.000,5.
    """
    texts = [_TIME.sub(_read_time, drop_breaks(_text(parts))) for parts in (source, output)]
    numbers = [_NUMBER.findall(text) for text in texts]
    found = list[str]()
    if numbers[0] != numbers[1]:
        found += _count_changes("the number ", *(list(map(_plain_number, each)) for each in numbers))
        if not found and (moved := _swapped_numbers(source, output)):
            found.append(f"the numbers {moved} stand in another order")
    if codes := code_changes(source, output):
        return [*found, *codes]
    for what, pattern in (("the sign ", _RUN), ("the sign ", _SIGN), ("", _NAME)):
        found += _count_changes(what, *[pattern.findall(text) for text in texts])
    return found


def _count_changes(what: str, before: Sequence[str], after: Sequence[str]) -> list[str]:
    """In words, what is missing, and what there is more of."""
    if before == after:  # fast path
        return []
    counts = Counter(before), Counter(after)
    missing, added = (sorted(each.elements()) for each in (counts[0] - counts[1], counts[1] - counts[0]))
    return [*(f"{what}{one} is missing" for one in missing), *(f"{what}{one} was added" for one in added)]


def _text(parts: Sequence[Part]) -> str:
    """The text, with marks round its codes, which end a run of signs and belong to no number."""
    if len(parts) == 1 and isinstance(parts[0], str):  # fast path
        return parts[0]
    return "".join(
        [part if isinstance(part, str) else f"\0{part.raw}\0" if is_code(part) else part.raw for part in parts]
    )


def _swapped_numbers(source: Sequence[Part], output: Sequence[Part]) -> str:
    """Two numbers of a source that change places, such as those of a range; placeholders such as %1 may."""
    texts = (" ".join("" if is_code(part) else join_parts([part]) for part in parts) for parts in (source, output))
    before, after = ([_plain_number(found) for found in _NUMBER.findall(text)] for text in texts)
    return f"{before[0]} and {before[1]}" if len(before) == 2 and before != after else ""


def code_changes(source: Sequence[Part], output: Sequence[Part]) -> list[str]:
    """In words, the codes of the source that the output lacks or has too often, and whether pairs cross."""
    codes = [[part for part in parts if isinstance(part, Code)] for parts in (source, output)]
    if codes[0] == codes[1]:  # fast path
        return []
    found = _count_changes("", *([code.raw for code in each if is_code(code)] for each in codes))
    if not found and (crossed := _find_crossed(output)) and not _find_crossed(source):
        found.append(f"{crossed} stands where nothing that it closes is open")
    return found


def is_code(part: Part) -> TypeGuard[Code]:
    """Whether a part is a code of the file or of a program: a number and a sign may be a code in one text only."""
    return isinstance(part, Code) and _must_stay(part)


@lru_cache(1000)  # a file has the same again and again
def _must_stay(code: Code) -> bool:
    if not code.is_text:
        return DROPPED.fullmatch(code.raw) is None
    is_program = _OF_CODES.fullmatch(code.raw) is not None and _TIME.fullmatch(code.raw) is None
    return is_program and DROPPED.fullmatch(code.raw) is None


def _find_crossed(parts: Sequence[Part]) -> str:
    """The first code that closes another pair than the innermost one; empty if there is none."""
    opened: list[str] = []
    for part in parts:
        if isinstance(part, Code) and part.kind == "opens":
            opened.append(pair_name(part))
        elif isinstance(part, Code) and part.kind == "closes" and (not opened or opened.pop() != pair_name(part)):
            return part.raw
    return ""
