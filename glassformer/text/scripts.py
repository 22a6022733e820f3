"""Scripts written without spaces between words: the one place that knows them.

Each question has its own answer: what a space would separate, what counts as a word, and how BLEU counts.
"""

import re
import unicodedata
from collections.abc import Sequence

# By the names of their characters in Unicode, with the rare ones.
_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "IDEOGRAPHIC")
# Those whose characters stand for words here: Thai, Lao, Burmese, Khmer, Japanese and Chinese.
_LETTERS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_LETTERS}]|[^\s{_LETTERS}]+")
UNSPACED_STOPS = "。！？｡"
"""Marks that end a sentence without white space after them."""


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script that writes no space between words."""
    return unicodedata.name(character, "").startswith(_NAMES)


def split_words(text: str) -> list[str]:
    """The parts between spaces; in scripts without spaces each character."""
    return _WORD.findall(text)


def is_mostly_east_asian(texts: Sequence[str]) -> bool:
    """Whether more than half of all characters are Japanese or Chinese."""
    wide = sum("\u3040" <= character <= "\u9fff" for text in texts for character in text)
    return 2 * wide > sum(map(len, texts))
