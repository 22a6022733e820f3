"""Splits a text into sentences, by rules that suit all scripts and need no list of abbreviations.

A sentence ends after a full stop, a question mark or an exclamation mark of any script, and the closing quotes and
brackets that follow it, if

- white space follows, or the mark is one of 。！？, which need none;
- a full stop does not follow a single letter ("J. R. Smith", "z. B.", "U.S.") or a bare number ("the 3. day"), unless
  the line ends there;
- the next character is not a lower-case letter ("approx. two").

It also ends at a line break. "Dr. Smith" is split: without a dictionary no rule can prevent it.
"""

import re
from typing import NamedTuple

from glassformer.text.scripts import UNSPACED_STOPS

# Latin, ellipses and doubled marks, Armenian, Hebrew, Arabic, Urdu, Devanagari, Tibetan, Burmese, Ethiopic, Khmer,
# Mongolian: white space follows.
_SPACED = ".!?…‼⁇⁈⁉։׃؟۔।॥།༎။።፧។៕᠃᠉"
_CLOSING = "\"'”’»›)\\]}」』）】〉》"

# Tried only where a run of marks begins: a run of any length takes time in proportion.
_END = re.compile(
    rf"(?<![{UNSPACED_STOPS}{_SPACED}])(?:(?P<spaced>[{_SPACED}]++[{_CLOSING}]*+)(?=\s)"
    # A quotation with no space after it is usually inside a sentence: 「はい。」と言った。
    rf"|[{_SPACED}]*+[{UNSPACED_STOPS}][{UNSPACED_STOPS}{_SPACED}]*+(?:(?![{_CLOSING}])|[{_CLOSING}]++(?=\s)))"
    r"|(?=[\n\r])"
)
_INITIAL_OR_NUMBER = re.compile(r"(?:^|[\s.(\[\"'“‘«„-])(?:[^\W\d_]|\d+)\.$")
_SPACE = re.compile(r"\s*")
_LONGEST_NUMBER = 40  # looked at before a full stop; the limit prevents quadratic time


class Sentence(NamedTuple):
    """A sentence and the white space between it and the next one; empty after the last."""

    text: str
    gap: str


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of ``text``, at least one; joined with their gaps they give the text again.

    White space at the start and at the end of the text belongs to the first and to the last sentence.
    """
    found: list[Sentence] = []
    start = stop = 0
    first = _skip_space(text, 0)  # the first visible character
    for match in _END.finditer(text):
        end = match.end()
        if end < max(first, stop):  # inside white space that was skipped
            continue
        stop = _skip_space(text, end)
        last, gap = text[max(start, end - _LONGEST_NUMBER) : end], text[end:stop]
        if stop < len(text) and first < end and _ends(last, match["spaced"], gap, text[stop]):
            found.append(Sentence(text[start:end], gap))
            start = first = stop
    return [*found, Sentence(text[start:], "")]


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _ends(last: str, mark: str | None, gap: str, following: str) -> bool:
    """Whether a sentence ends after its ``last`` characters.

    ``mark``: a mark that needs white space after it, or None; ``following``: the next visible character.
    """
    if mark is None or "\n" in gap or "\r" in gap:
        return True
    if mark == "." and _INITIAL_OR_NUMBER.search(last):
        return False
    return not following.islower()
