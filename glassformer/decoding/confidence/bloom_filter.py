"""A Bloom filter (Bloom 1970): a set of texts in few bits."""

import base64
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

MIN_BITS, MAX_BITS = 2**10, 2**18  # 32 KB
_BITS_FOR_EACH = 10  # about one false member in thirty, if there is room
_SEEN = 2  # what occurs once may be a slip or a rare name
_FACTOR, _SHIFT = 0x9E3779B1, 14  # make a second place of one hash


@dataclass(frozen=True)
class BloomFilter:
    """A set that knows every member, and takes few other texts for one."""

    bits: bytes

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> Self:
        """The filter of these texts; more false members where room is short."""
        size = MIN_BITS
        while size < min(MAX_BITS, _BITS_FOR_EACH * len(texts)):
            size *= 2
        bits = bytearray(size // 8)
        for text in texts:
            code = _hash(text)
            for place in (code % size, (code * _FACTOR >> _SHIFT) % size):
                bits[place // 8] |= 1 << place % 8
        return cls(bytes(bits))

    @classmethod
    def full(cls) -> Self:
        """The filter of all texts."""
        return cls(b"\xff" * (MIN_BITS // 8))

    def __contains__(self, text: str) -> bool:
        """Whether the text seems to be a member."""
        return not self.missing((text,))

    def missing(self, texts: Iterable[str]) -> int:
        """How many texts are no members; a plain loop, often called."""
        bits, last, count = self.bits, 8 * len(self.bits) - 1, 0
        for text in texts:
            code = _hash(text)
            place = code & last
            if bits[place >> 3] >> (place & 7) & 1:
                place = code * _FACTOR >> _SHIFT & last
                if bits[place >> 3] >> (place & 7) & 1:
                    continue
            count += 1
        return count

    def to_text(self) -> str:
        """The bits in base64."""
        return base64.b64encode(self.bits).decode("ascii")

    @classmethod
    def from_text(cls, text: Any) -> Self:
        """What ``to_text`` made; else ``ValueError``, also above ``MAX_BITS``."""
        if not isinstance(text, str):
            raise ValueError("bits: expected them in base64")
        try:
            bits = base64.b64decode(text, validate=True)
        except ValueError as error:
            raise ValueError(f"bits: is not base64: {error}") from error
        size = 8 * len(bits)
        if not MIN_BITS <= size <= MAX_BITS or size & (size - 1):
            raise ValueError(f"bits: found {size} bits, expected a power of two up to {MAX_BITS}")
        return cls(bits)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def frequent(counts: Counter[str]) -> list[str]:
    """What was counted twice or more, most frequent first, up to a full filter."""
    return [text for text, count in counts.most_common(MAX_BITS // _BITS_FOR_EACH) if count >= _SEEN]
