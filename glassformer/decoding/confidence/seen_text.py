"""What learned sources are made of, and what else a text has: character n-grams, characters, words.

Counted once, at the end of a training, and kept with the run. Case and amounts of white space do not matter.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from glassformer.decoding.confidence.bloom_filter import BloomFilter, frequent
from glassformer.text.scripts import split_words

ORDERS = (1, 2, 3, 4)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_USUAL = 0.99  # quantile of sources' shares of unseen n-grams
_NEARLY_ALL = 0.999  # quantile of sources' lengths
_MAX_CHARACTERS = 20_000
_KNOWN_SHARE = 0.4  # of words; another language has fewer ...
_MIN_UNKNOWN = 2  # ... and more unknown ones: one may be a name


def fold(text: str) -> str:
    """A text without case and compatible forms of characters."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()


def ngrams(text: str, order: int) -> Iterator[str]:
    """The n-grams of a text with a space at both ends; of a shorter text itself."""
    plain = f" {' '.join(fold(text).split())} "
    return (plain[start : start + order] for start in range(max(1, len(plain) - order + 1)))


@dataclass(frozen=True)
class NgramTable:
    """N-grams of one order that a text has at least twice."""

    order: int
    seen: BloomFilter

    @classmethod
    def from_texts(cls, texts: Iterable[str], order: int) -> Self:
        """The table of these texts."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(ngrams(text, order))
        return cls(order, BloomFilter.from_texts(frequent(counts)))

    def unseen(self, text: str) -> float:
        """The share of the text's n-grams that are not in the table, 0 to 1."""
        found = list(ngrams(text, self.order))
        return self.seen.missing(found) / len(found)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"order": self.order, "bits": self.seen.to_text()}

    @classmethod
    def from_mapping(cls, values: Any) -> Self:
        """What ``to_mapping`` made; else ``ValueError``."""
        if not isinstance(values, dict) or values.keys() != {"order", "bits"}:
            raise ValueError("ngrams: expected order and bits")
        if type(values["order"]) is not int or values["order"] not in ORDERS:
            raise ValueError(f"ngrams: expected an order from {ORDERS}")
        return cls(values["order"], BloomFilter.from_text(values["bits"]))


def find_words(text: str) -> list[str]:
    """A text's words as written; without spaces, each character."""
    if text.isascii():
        return _WORD.findall(text)
    return [word for piece in split_words(text) for word in _WORD.findall(piece)]


@dataclass(frozen=True)
class Unseen:
    """What a source has that learned sources lack."""

    ngrams: float
    """The share of its character n-grams, 0 to 1."""
    characters: tuple[str, ...]
    """Each once; compatibility variants count as seen."""
    words: tuple[str, ...]
    """Words that were hardly seen, each once."""
    is_foreign: bool
    """Whether it seems to be in another language: few words and n-grams were seen."""
    is_long: bool
    """Whether it has more words than nearly all learned ones."""

    def lost_words(self, output: str) -> list[str]:
        """Hardly seen words that an output lacks: names are copied."""
        if not self.words:
            return []
        written = set(map(_plain, find_words(output)))
        return [word for word in self.words if _plain(word) not in written]


@dataclass(frozen=True)
class SeenText:
    """What a model has seen of sources at least twice."""

    ngrams: NgramTable
    characters: str
    """Characters of the sources, without white space."""
    words: BloomFilter
    longest: int
    """99.9th percentile of source length, in words."""
    usual_unseen: float
    """99th percentile of unseen n-grams in held-out sources."""

    @classmethod
    def from_texts(cls, ngrams: NgramTable, sources: Sequence[str], others: Sequence[str]) -> Self:
        """What learned ``sources`` have; ``others`` were not learned."""
        words = [find_words(text) for text in sources]
        characters = Counter(character for text in sources for character in text if not character.isspace())
        return cls(
            ngrams=ngrams,
            characters="".join(sorted(frequent(characters)[:_MAX_CHARACTERS])),
            words=BloomFilter.from_texts(frequent(Counter(_plain(word) for each in words for word in each))),
            longest=int(_quantile(list(map(len, words)), _NEARLY_ALL)),
            usual_unseen=float(_quantile([ngrams.unseen(text) for text in others], _USUAL)),
        )

    def unseen(self, text: str) -> Unseen:
        """What a source has beyond it."""
        words, ngrams = find_words(text), self.ngrams.unseen(text)
        rare = [word for word in words if not self._has(_plain(word))]
        few_known = len(rare) >= _MIN_UNKNOWN and len(words) - len(rare) < _KNOWN_SHARE * len(words)
        return Unseen(
            ngrams=ngrams,
            characters=tuple(one for one in dict.fromkeys(text) if not self._knows(one)),
            words=tuple(dict.fromkeys(rare)),
            is_foreign=few_known and ngrams > self.usual_unseen,
            is_long=len(words) > self.longest,
        )

    def _knows(self, character: str) -> bool:
        return character in self._characters or all(
            form.isspace() or form in self._characters for form in fold(character)
        )

    @cached_property
    def _characters(self) -> frozenset[str]:
        return frozenset(self.characters + " ")

    def _has(self, word: str) -> bool:
        """Whether a word, or each part around its apostrophe, was seen."""
        return word in self.words or all(part in self.words for part in word.split("'"))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "ngrams": self.ngrams.to_mapping(), "characters": self.characters, "words": self.words.to_text(),
            "longest": self.longest, "usual_unseen": self.usual_unseen,
        }  # fmt: skip

    @classmethod
    def from_mapping(cls, values: Any) -> Self:
        """What ``to_mapping`` made; else ``ValueError``."""
        names = {"ngrams", "characters", "words", "longest", "usual_unseen"}
        if not isinstance(values, dict) or values.keys() != names:
            raise ValueError(f"seen: expected an object with {', '.join(sorted(names))}")
        characters, longest, usual = (values[name] for name in ("characters", "longest", "usual_unseen"))
        if not isinstance(characters, str) or type(longest) is not int or not isinstance(usual, float):
            raise ValueError("seen: expected characters as text, longest as a whole number, usual_unseen as a number")
        words = BloomFilter.from_text(values["words"])
        return cls(NgramTable.from_mapping(values["ngrams"]), characters, words, longest, usual)


def _plain(word: str) -> str:
    return fold(word).replace("’", "'")


def _quantile(numbers: Sequence[float], share: float) -> float:
    return sorted(numbers)[int(share * (len(numbers) - 1))] if numbers else 0.0
