"""Chunks of pairs made into ids: the part of a preparation that is spread over processes.

Knows nothing of files, and nothing of processes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from glassformer.config import TextConfig
from glassformer.text.corpus import Pair
from glassformer.text.encoded import Rows
from glassformer.text.selection import is_set_aside, reason_to_leave_out
from glassformer.text.tokenizer import EOS_ID, Tokenizer

Chunk = tuple[list[str], list[str]]
"""As many sources and targets: plain lists of text cross to another process soonest."""

PAIRS_IN_CHUNK = 4096


def chunks(pairs: Iterable[Pair]) -> Iterator[Chunk]:
    """The pairs, some thousands at a time."""
    stream = iter(pairs)
    while part := list(islice(stream, PAIRS_IN_CHUNK)):
        yield [pair.src for pair in part], [pair.tgt for pair in part]


@dataclass(frozen=True)
class EncodedChunk:
    """The ids of the pairs to keep, how many were kept or left out and why, and the pairs set aside."""

    src: Rows
    tgt: Rows
    counts: Counter[str]
    set_aside: list[Pair]


@dataclass(frozen=True)
class ChunkEncoder:
    """Encodes the pairs with text on both sides that are within the length rules, but for a ``valid_share``."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    config: TextConfig
    valid_share: float

    @property
    def vocab(self) -> int:
        """Entries of the larger vocabulary."""
        return max(tokenizer.size for tokenizer in self.tokenizers)

    def __call__(self, chunk: Chunk) -> EncodedChunk:
        """The result depends on the chunk alone."""
        pairs: list[Pair] = []
        set_aside: list[Pair] = []
        for pair in map(Pair, *chunk):
            if not pair.blank:
                (set_aside if is_set_aside(pair, self.valid_share) else pairs).append(pair)
        src, tgt = (self._side(side, [pair[side] for pair in pairs]) for side in (0, 1))
        lengths = zip((len(ids) for ids, _ in src), (len(ids) for ids, _ in tgt), strict=True)
        reasons = [reason_to_leave_out(*both, self.config) for both in lengths]
        counts = Counter(reason or "kept" for reason in reasons)
        return EncodedChunk(self._rows(src, reasons), self._rows(tgt, reasons), counts, set_aside)

    def _side(self, side: int, texts: list[str]) -> list[tuple[list[int], list[int]]]:
        """The ids of each text and, where words will be cut anew, which of them begin one."""
        if self.config.bpe_dropout:
            return self.tokenizers[side].word_starts_batch(texts)
        return [(ids, []) for ids in self.tokenizers[side].to_ids_batch(texts)]

    def _rows(self, texts: Sequence[tuple[list[int], list[int]]], reasons: Sequence[str | None]) -> Rows:
        kept = [text for text, reason in zip(texts, reasons, strict=True) if reason is None]
        rows = Rows.of([[*ids, EOS_ID] for ids, _ in kept], self.vocab)
        if not self.config.bpe_dropout:
            return rows
        return rows._replace(starts=Rows.of([[*starts, 1] for _, starts in kept], vocab=2).ids.astype(np.uint8))
