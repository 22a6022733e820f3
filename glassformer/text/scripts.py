"""Words and the marks round them; scripts written without spaces between words: the one place that knows them."""

import re
import unicodedata
from collections.abc import Sequence

from glassformer.text.lines import LINE_BREAKS

# By the names of their characters in Unicode, with the rare ones.
_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "IDEOGRAPHIC")
# Those whose characters stand for words here: Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese.
_LETTERS = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = re.compile(f"[{_LETTERS}]")
_PIECE = re.compile(rf"[{_LETTERS}]|[^\s{_LETTERS}]+")
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_UNSPACED_FROM = "\u0e00"  # no script before it is written without spaces
UNSPACED_STOPS = "。！？｡"
"""Marks that end a sentence without white space after them."""
OPENING = "([{«„“"
"""Quotes and brackets that no space follows."""
AFTER_WORDS = ".,;:!?…)]}»”"
"""Marks that no space precedes."""
AT_ENDS = ".,;:!?…()[]{}\"'„“”‚‘’«»¿¡"
"""Marks that are no part of the word that they stand next to."""
CLOSING = "\"'”’“‘»›)]}」』）】〉》"
"""Quotes and brackets that may follow the mark at the end of a sentence."""


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script that writes no space between words."""
    return unicodedata.name(character, "").startswith(_NAMES)


def split_words(text: str) -> list[str]:
    """The parts between spaces; in scripts without spaces each character."""
    return _PIECE.findall(text)


def find_words(text: str) -> list[tuple[int, int]]:
    """Where the words of a text are: letters and digits in a row. In scripts without spaces each character is one."""
    spans = [match.span() for match in _WORD.finditer(text)]
    if text.isascii() or max(text) < _UNSPACED_FROM:  # fast path
        return spans
    found: list[tuple[int, int]] = []
    for start, end in spans:
        pieces = _PIECE if any(map(is_unspaced, text[start:end])) else _WORD
        found += [match.span() for match in pieces.finditer(text, start, end)]
    return found


def is_mostly_unspaced(texts: Sequence[str]) -> bool:
    """Whether more than half of all characters are of scripts without spaces, so that words cannot be counted."""
    count = sum(len(_UNSPACED.findall(text)) for text in texts)
    return 2 * count > sum(map(len, texts))


def gap_between(source: str, left: str, gap: str) -> str:
    """The white space after the sentence ``left`` of a translation, where its ``source`` has ``gap``.

    It is none after 。 and a space after others; a line break stays, and so does ``gap`` if both end alike.
    """
    ends_alike = _ends_unspaced(source) == _ends_unspaced(left)
    if not left.strip() or set(gap) & set(LINE_BREAKS) or ends_alike:
        return gap
    return "" if _ends_unspaced(left) else gap or " "


def _ends_unspaced(sentence: str) -> bool:
    last = sentence.rstrip().rstrip(CLOSING)[-1:]
    return last != "" and last in UNSPACED_STOPS
