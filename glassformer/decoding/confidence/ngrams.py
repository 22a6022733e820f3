"""Which character n-grams a text is made of: a table of them tells how much of another text it has never seen.

It tells a language from others, and language from nonsense, for any script. The table has one bit for each hash of an
n-gram (a Bloom filter with one hash function): at most 32 KB. Case and the amount of white space make no difference.
"""

import base64
import binascii
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

ORDERS = (1, 2, 3, 4)
MAX_BITS = 2**18
_MIN_BITS = 2**10
_BITS_FOR_EACH = 8  # so that at most one foreign n-gram in eight is taken for a known one, if there is room
_SEEN = 2  # what occurs once may be a slip or a rare name


def ngrams(text: str, order: int) -> Iterator[str]:
    """The n-grams of a text with a space at both ends; a shorter text is one."""
    plain = f" {' '.join(unicodedata.normalize('NFKC', text).lower().split())} "
    return (plain[start : start + order] for start in range(max(1, len(plain) - order + 1)))


@dataclass(frozen=True)
class NgramTable:
    """The n-grams of one order that a text has at least twice."""

    order: int
    bits: bytes

    @classmethod
    def from_texts(cls, texts: Iterable[str], order: int) -> Self:
        """The table of these texts."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(ngrams(text, order))
        seen = [ngram for ngram, count in counts.items() if count >= _SEEN]
        size = _MIN_BITS
        while size < min(MAX_BITS, _BITS_FOR_EACH * len(seen)):
            size *= 2
        bits = bytearray(size // 8)
        for ngram in seen:
            place = _hash(ngram) % size
            bits[place // 8] |= 1 << place % 8
        return cls(order, bytes(bits))

    def unseen(self, text: str) -> float:
        """The share of the text's n-grams that are not in the table, from 0 to 1."""
        size = 8 * len(self.bits)
        places = [_hash(ngram) % size for ngram in ngrams(text, self.order)]
        return sum(not self.bits[place // 8] >> place % 8 & 1 for place in places) / len(places)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"order": self.order, "bits": base64.b64encode(self.bits).decode("ascii")}

    @classmethod
    def from_mapping(cls, values: Any) -> Self:
        """What ``to_mapping`` made; ``ValueError`` for anything else, and for more than ``MAX_BITS``."""
        if not isinstance(values, dict) or values.keys() != {"order", "bits"}:
            raise ValueError("ngrams: expected order and bits")
        order, text = values["order"], values["bits"]
        if type(order) is not int or order not in ORDERS or not isinstance(text, str):
            raise ValueError(f"ngrams: expected an order from {ORDERS} and bits in base64")
        try:
            bits = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"ngrams.bits: is not base64: {error}") from error
        size = 8 * len(bits)
        if not _MIN_BITS <= size <= MAX_BITS or size & (size - 1):
            raise ValueError(f"ngrams.bits: found {size} bits, expected a power of two up to {MAX_BITS}")
        return cls(order, bits)


def _hash(ngram: str) -> int:
    return zlib.crc32(ngram.encode("utf-8", "surrogatepass"))
