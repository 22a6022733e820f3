"""Which character n-grams a text is made of: a table of them tells how much of another text it has never seen.

It tells a language from others, and language from nonsense. Case and the amount of white space make no difference.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from glassformer.decoding.confidence.bloom_filter import BloomFilter, frequent

ORDERS = (1, 2, 3, 4)


def fold(text: str) -> str:
    """A text without what makes no difference: case, and compatible forms of characters."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()


def ngrams(text: str, order: int) -> Iterator[str]:
    """The n-grams of a text with a space at both ends; a shorter text is one."""
    plain = f" {' '.join(fold(text).split())} "
    return (plain[start : start + order] for start in range(max(1, len(plain) - order + 1)))


@dataclass(frozen=True)
class NgramTable:
    """The n-grams of one order that a text has at least twice."""

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
        """The share of the text's n-grams that are not in the table, from 0 to 1."""
        found = list(ngrams(text, self.order))
        return self.seen.missing(found) / len(found)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"order": self.order, "bits": self.seen.to_text()}

    @classmethod
    def from_mapping(cls, values: Any) -> Self:
        """What ``to_mapping`` made; ``ValueError`` for anything else."""
        if not isinstance(values, dict) or values.keys() != {"order", "bits"}:
            raise ValueError("ngrams: expected order and bits")
        if type(values["order"]) is not int or values["order"] not in ORDERS:
            raise ValueError(f"ngrams: expected an order from {ORDERS}")
        return cls(values["order"], BloomFilter.from_text(values["bits"]))
