"""SentencePiece's rules of normalisation, of which the longest that fits is used, as a charsmap.

It is a double-array trie (Yata et al. 2007) of 32-bit units: a label, and where the children begin.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

_BLOCK, _LEAF = 256, -1
_IS_VALUE, _HAS_VALUE = 1 << 31, 1 << 8
_MAX_OPEN = 16  # blocks in which free units are looked for


def compile_charsmap(rules: Mapping[bytes, bytes]) -> bytes:
    """The rules as a ``precompiled_charsmap``; no key continues another one with a zero byte."""
    trie: dict[int, Any] = {}
    texts, places = bytearray(), dict[bytes, int]()
    for key, text in rules.items():
        if text not in places:
            places[text] = len(texts)
            texts += text + b"\0"
        node = trie
        for byte in key:
            node = node.setdefault(byte, {})
        node[_LEAF] = places[text]
    units = _Units()
    units.add(trie)
    table = struct.pack(f"<{len(units.values)}I", *units.values)
    return struct.pack("<I", len(table)) + table + bytes(texts)


class _Units:
    """The units of a trie. A child lies at its node's base XOR its own label."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._free: list[set[int]] = []
        self._bases = set[int]()  # no two nodes have one base, or one would find the other's children
        self._open: list[int] = []

    def add(self, trie: dict[int, Any]) -> None:
        """Store a trie whose root is unit 0."""
        self._add_block()
        self._take(0, 0)
        waiting = [(0, trie)]
        while waiting:
            place, node = waiting.pop()
            base = self._find_base([max(label, 0) for label in node])
            self.values[place] |= (place ^ base) << 10
            for label, child in node.items():
                if label == _LEAF:
                    self.values[place] |= _HAS_VALUE
                    self._take(base, _IS_VALUE | child)
                else:
                    self._take(base ^ label, label)
                    waiting.append((base ^ label, child))

    def _take(self, place: int, value: int) -> None:
        self.values[place] = value
        self._free[place // _BLOCK].discard(place)

    def _add_block(self) -> None:
        start = len(self.values)
        self.values += [_IS_VALUE] * _BLOCK  # what no label is equal to
        self._free.append(set(range(start, start + _BLOCK)))
        self._open.append(start // _BLOCK)
        del self._open[:-_MAX_OPEN]

    def _find_base(self, labels: Sequence[int]) -> int:
        for block in [*reversed(self._open), len(self._free)]:
            if block == len(self._free):
                self._add_block()
            free = self._free[block]
            for place in free:
                base = place ^ labels[0]
                if base not in self._bases and all(base ^ label in free for label in labels[1:]):
                    self._bases.add(base)
                    return base
        raise AssertionError("a new block has room for any node")
