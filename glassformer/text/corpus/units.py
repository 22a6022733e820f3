"""What a line of a text holds: a sentence, a word, or the symbols of a word with spaces between, such as sounds."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import mean, median
from typing import Literal

from glassformer.text.columns import FEATURE
from glassformer.text.corpus.corpus import Pair

Unit = Literal["sentences", "words", "symbols"]

_SAMPLE = 1000  # lines by which a text is judged
_FEWEST = 10  # different sources; fewer say nothing of a text
_MOST = 0.5  # of the lines have one word each
_LONGEST_WORD = 25  # characters, in the median
_FORM = 2.0  # spaces in the mean: a form of a word, with its auxiliary
_FEW = 0.1  # of the lines end like a sentence
_LONGEST_SYMBOL = 2.0  # letters, in the mean
_SENTENCE_END = re.compile(r"[.!?。！？…]$")


@dataclass(frozen=True)
class Lines:
    """What the lines of a side are like: the unit, the share of one-word lines, the median length in characters."""

    unit: Unit
    one_word: float
    length: float

    @classmethod
    def count(cls, texts: Iterable[str], *, few_words: bool = False) -> "Lines":
        """Look at the first texts, without their features; of ``few_words`` each may be a form of up to three."""
        stripped = (FEATURE.sub("", text).strip() for text in islice(texts, _SAMPLE))
        lines = [line for line in stripped if line]
        if not lines:
            return cls("sentences", 0.0, 0.0)
        one_word, length = mean(" " not in line for line in lines), median(map(len, lines))
        ended = mean(_SENTENCE_END.search(line) is not None for line in lines)
        letters = mean(_letters(piece) for line in lines for piece in line.split(" "))
        is_form = few_words and letters > _LONGEST_SYMBOL and mean(line.count(" ") for line in lines) < _FORM
        if (is_form or one_word >= _MOST) and length <= _LONGEST_WORD and ended < _FEW:
            return cls("words", one_word, length)
        return cls("symbols" if letters <= _LONGEST_SYMBOL else "sentences", one_word, length)


def _letters(symbol: str) -> int:
    """How many letters it has, without marks and modifiers: one in aː and in ʁʷ."""
    return sum(unicodedata.category(sign) not in ("Mn", "Mc", "Lm", "Sk") for sign in symbol)


def find_units(pairs: Sequence[Pair]) -> tuple[Unit, Unit]:
    """The units of sources and targets; both are sentences if one of them is, or if few pairs are different."""
    if len({pair.src for pair in pairs[:_SAMPLE]}) < _FEWEST:
        return "sentences", "sentences"
    src = Lines.count(pair.src for pair in pairs).unit
    tgt = Lines.count((pair.tgt for pair in pairs), few_words=True).unit
    return ("sentences", "sentences") if "sentences" in (src, tgt) else (src, tgt)


def split_symbols(text: str, unit: Unit) -> list[str]:
    """The symbols of a word: what spaces separate, or its characters."""
    return text.split() if unit == "symbols" else list(text)
