"""Text cut into sentences, by rules that suit all scripts and no list of any language's abbreviations.

A sentence ends behind a full stop, a question mark or an exclamation mark of any script, with the closing quotes
and brackets behind it, if

- white space follows, or the mark is one of 。！？, which need none;
- a full stop does not follow a single letter ("J. R. Smith", "z. B.", "U.S."), or a bare number ("the 3. day"),
  unless the sentence ends the line;
- what comes next does not begin with a small letter ("approx. two"), where its script has small letters.

It also ends at a line break. "Dr. Smith" is cut: no rule without a dictionary can tell. Knows nothing of models.
"""

import re
from typing import NamedTuple

# Latin, ellipses and doubled marks, Armenian, Hebrew, Arabic, Urdu, Devanagari, Tibetan, Burmese, Ethiopic, Khmer,
# Mongolian: white space follows.
_SPACED = ".!?…‼⁇⁈⁉։׃؟۔।॥།༎။።፧។៕᠃᠉"
_UNSPACED = "。！？｡"
_CLOSING = "\"'”’»›)\\]}」』）】〉》"

_END = re.compile(
    rf"(?P<spaced>[{_SPACED}]++[{_CLOSING}]*+)(?=\s)"
    # A quotation that ends without a space behind it most often stands within a sentence: 「はい。」と言った。
    rf"|[{_UNSPACED}][{_UNSPACED}{_SPACED}]*+(?:(?![{_CLOSING}])|[{_CLOSING}]++(?=\s))"
    r"|(?=[\n\r])"
)
_INITIAL_OR_NUMBER = re.compile(r"(?:^|[\s.(\[\"'“‘«„-])(?:[^\W\d_]|\d+)\.$")
_SPACE = re.compile(r"\s*")
_LONGEST_NUMBER = 40  # looked at behind a full stop, so that a text without an end takes no quadratic time


class Sentence(NamedTuple):
    """A sentence and the white space that stands between it and the next; behind the last there is none."""

    text: str
    gap: str


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of ``text``, at least one; joined with their gaps they are the text again.

    White space at the start of the text and at its end stays with the first and the last sentence.
    """
    found: list[Sentence] = []
    start, first, stop = 0, _behind_space(text, 0), 0  # first is where the sentence shows something
    for match in _END.finditer(text):
        end = match.end()
        if end < max(first, stop):  # within white space that has been looked at
            continue
        stop = _behind_space(text, end)
        last, gap = text[max(start, end - _LONGEST_NUMBER) : end], text[end:stop]
        if stop < len(text) and first < end and _ends(last, match["spaced"], gap, text[stop]):
            found.append(Sentence(text[start:end], gap))
            start = first = stop
    return [*found, Sentence(text[start:], "")]


def _behind_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _ends(last: str, mark: str | None, gap: str, following: str) -> bool:
    """Whether a sentence ends here, behind its ``last`` characters; ``mark`` is the mark of a script with spaces,
    ``following`` the next letter."""
    if mark is None or "\n" in gap or "\r" in gap:
        return True
    if mark == "." and _INITIAL_OR_NUMBER.search(last):
        return False
    return not following.islower()
