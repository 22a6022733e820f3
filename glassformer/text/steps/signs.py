"""Signs: marks of direction are not read, and typographic signs that a model does not know are read as plain ones.

A mark of direction changes how a text is shown, not what it says; where two stand round a code, they belong to it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glassformer.text.codes.code import Code, Part, Parts, join_parts, join_texts
from glassformer.text.steps.step import Change, TextOptions

MARKS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_MARKS = re.compile(f"[{MARKS}]+")
_PLAIN = {
    "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "″": '"', "‘": "'", "’": "'", "‚": "'", "′": "'",
    "…": "...", "—": " - ", "–": "-", "‐": "-", "−": "-",
}  # fmt: skip
WRITTEN = {"…": "...", "—": " - "}
"""Signs that the answer gets back: of quotation marks each language has its own."""


@dataclass(frozen=True)
class Signs(Change):
    """A text with plain signs; ``written`` has what each is in the text."""

    written: Mapping[str, str]

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The answer with the signs as the text has them."""
        if self.written and not is_whole:
            return ()
        parts = join_texts(answers[0])
        for plain, sign in self.written.items():
            parts = [part.replace(plain, sign) if isinstance(part, str) else part for part in parts]
        return tuple(parts)


def plain_signs(known: str) -> dict[str, str]:
    """How a model that knows these characters reads typographic signs that it does not know."""
    return {sign: plain for sign, plain in _PLAIN.items() if sign not in known and set(plain) - {" "} <= set(known)}


def read_signs(parts: Parts, options: TextOptions) -> Change | None:
    """Take out marks of direction, and put plain signs for those that are not known."""
    if not options.matches_style or all(part.isascii() for part in parts if isinstance(part, str)):  # fast path
        return None
    text = join_parts(part for part in parts if isinstance(part, str))
    plain = {sign: other for sign, other in options.plain_signs.items() if sign in text}
    if not plain and _MARKS.search(text) is None:
        return None
    written = {other: sign for sign, other in plain.items() if sign in WRITTEN and other not in text}
    if " - " in written:
        written[" - "] = " — " if re.search(r"\s—\s", text) else "—"
    found = [_read_plainly(part, plain) if isinstance(part, str) else part for part in _marks_to_codes(parts)]
    return Signs((tuple([part for part in found if part]),), written)


def _read_plainly(text: str, plain: Mapping[str, str]) -> str:
    text = _MARKS.sub("", text)
    for sign, other in plain.items():
        text = re.sub(rf"\s*{sign}\s*", other, text) if other.startswith(" ") else text.replace(sign, other)
    return text


def _marks_to_codes(parts: Parts) -> list[Part]:
    """The parts, where marks of direction before and after a code belong to it."""
    found = list(parts)
    for number in range(1, len(found) - 1):
        before, code, after = found[number - 1 : number + 2]
        if not (isinstance(before, str) and isinstance(code, Code) and isinstance(after, str)):
            continue
        begin, end = re.search(f"[{MARKS}]+$", before), _MARKS.match(after)
        if begin and end and code.kind == "alone":
            found[number] = code._replace(raw=f"{begin[0]}{code.raw}{end[0]}")
            found[number - 1], found[number + 1] = before[: begin.start()], after[end.end() :]
    return found
