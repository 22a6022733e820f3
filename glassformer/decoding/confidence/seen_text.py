"""What the sources that a model learned from are made of, and what of another text they do not have.

It is counted once, when a training ends, and kept with the run.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from glassformer.decoding.confidence.bloom_filter import BloomFilter, frequent
from glassformer.decoding.confidence.ngrams import NgramTable, fold
from glassformer.text.scripts import split_words

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_USUAL = 0.99  # of the sources have no greater share of unseen n-grams
_NEARLY_ALL = 0.999  # of the sources are no longer
_MAX_CHARACTERS = 20_000
_KNOWN_SHARE = 0.4  # of its words, which a text in another language does not reach ...
_MIN_UNKNOWN = 2  # ... and so many are unknown: a single one may be a name


def find_words(text: str) -> list[str]:
    """The words of a text, as they are written; in scripts without spaces each character is one."""
    if text.isascii():
        return _WORD.findall(text)
    return [word for piece in split_words(text) for word in _WORD.findall(piece)]


@dataclass(frozen=True)
class Unseen:
    """What a source has that the sources that were learned do not have."""

    ngrams: float
    """The share of its character n-grams, from 0 to 1."""
    characters: tuple[str, ...]
    """Each once; other forms of those that were seen are none."""
    words: tuple[str, ...]
    """Those that were hardly seen, each once."""
    is_foreign: bool
    """Whether it seems to be in another language: few of its words and of its n-grams were seen."""
    is_long: bool
    """Whether it has more words than nearly all that were learned."""

    def lost_words(self, output: str) -> list[str]:
        """The hardly seen words that an output does not have: names are copied."""
        if not self.words:
            return []
        written = set(map(_plain, find_words(output)))
        return [word for word in self.words if _plain(word) not in written]


@dataclass(frozen=True)
class SeenText:
    """What a model has seen of sources at least twice."""

    ngrams: NgramTable
    characters: str
    """Those of the sources, white space apart."""
    words: BloomFilter
    longest: int
    """The words of the longest sources, a thousandth apart."""
    usual_unseen: float
    """The greatest share of unseen n-grams in sources that were not learned, a hundredth apart."""

    @classmethod
    def from_texts(cls, ngrams: NgramTable, sources: Sequence[str], others: Sequence[str]) -> Self:
        """What is in ``sources`` that were learned; ``others`` are sources that were not."""
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
        """Whether a word was seen; one with an apostrophe also by its parts."""
        return word in self.words or ("'" in word and all(part in self.words for part in word.split("'")))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "ngrams": self.ngrams.to_mapping(), "characters": self.characters, "words": self.words.to_text(),
            "longest": self.longest, "usual_unseen": self.usual_unseen,
        }  # fmt: skip

    @classmethod
    def from_mapping(cls, values: Any) -> Self:
        """What ``to_mapping`` made; ``ValueError`` for anything else."""
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
    """A number that so large a share of these does not exceed; 0 of none."""
    return sorted(numbers)[int(share * (len(numbers) - 1))] if numbers else 0.0
