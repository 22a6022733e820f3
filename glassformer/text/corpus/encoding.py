"""Pairs become ids, chunk by chunk, in several processes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from glassformer.settings import TextConfig
from glassformer.text.corpus.corpus import Pair, is_validation
from glassformer.text.corpus.dataset import EncodedTexts, EncodedWriter
from glassformer.text.corpus.filtering import count_traits, rejection_reason
from glassformer.text.corpus.noise import joined_copies, noisy_copies
from glassformer.text.corpus.workers import map_chunks
from glassformer.text.tokenizer.tokenizer import EOS_ID, Tokenizers

Chunk = tuple[list[str], list[str]]
"""Sources and targets as plain lists, fastest to send."""

PAIRS_IN_CHUNK = 4096


def chunks(pairs: Iterable[Pair]) -> Iterator[Chunk]:
    """Lists of ``PAIRS_IN_CHUNK`` pairs."""
    stream = iter(pairs)
    while part := list(islice(stream, PAIRS_IN_CHUNK)):
        yield [pair.src for pair in part], [pair.tgt for pair in part]


@dataclass(frozen=True)
class EncodedChunk:
    """Ids of pairs to train on, counts of ``PreparedText``, held-out pairs."""

    src: EncodedTexts
    tgt: EncodedTexts
    counts: Counter[str]
    held_out: list[Pair]


@dataclass(frozen=True)
class ChunkEncoder:
    """Encodes a chunk's suitable pairs; holds out ``valid_share``."""

    tokenizers: Tokenizers
    config: TextConfig
    valid_share: float

    def for_validation(self) -> "ChunkEncoder":
        """The same that holds nothing out, and joins no pairs."""
        return replace(self, valid_share=0.0, config=replace(self.config, joined=0))

    @property
    def vocab(self) -> int:
        """The size of the larger vocabulary."""
        return max(tokenizer.size for tokenizer in self.tokenizers)

    def __call__(self, chunk: Chunk) -> EncodedChunk:
        """Depends on the chunk alone."""
        pairs: list[Pair] = []
        held_out: list[Pair] = []
        for pair in map(Pair, *chunk):
            if not pair.blank:
                (held_out if is_validation(pair, self.valid_share) else pairs).append(pair)
        counts = count_traits(pairs)
        own = list(pairs)
        pairs += [*noisy_copies(own, self.config), *joined_copies(own, self.config)]
        src, tgt = (self._tokenize(side, [pair[side] for pair in pairs]) for side in (0, 1))
        lengths = zip((len(ids) for ids, _ in src), (len(ids) for ids, _ in tgt), strict=True)
        reasons = [rejection_reason(*sides, self.config) for sides in lengths]
        counts.update(reason or "kept" for reason in reasons)
        return EncodedChunk(self._pack(src, reasons), self._pack(tgt, reasons), counts, held_out)

    def _tokenize(self, side: int, texts: list[str]) -> list[tuple[list[int], list[int]]]:
        """Ids and, for BPE-dropout, 1 where a word begins, else 0."""
        if self.config.bpe_dropout:
            return self.tokenizers[side].word_starts_batch(texts)
        return [(ids, []) for ids in self.tokenizers[side].to_ids_batch(texts)]

    def _pack(self, texts: Sequence[tuple[list[int], list[int]]], reasons: Sequence[str | None]) -> EncodedTexts:
        kept = [text for text, reason in zip(texts, reasons, strict=True) if reason is None]
        encoded = EncodedTexts.from_lists([[*ids, EOS_ID] for ids, _ in kept], self.vocab)
        if not self.config.bpe_dropout:
            return encoded
        starts = EncodedTexts.from_lists([[*starts, 1] for _, starts in kept], vocab=2).ids
        return encoded._replace(starts=starts.astype(np.uint8))


def encode_pairs(
    pairs: Iterable[Pair], encoder: ChunkEncoder, directory: Path, workers: int
) -> tuple[dict[str, int], list[Pair]]:
    """Encode into ``directory``; returns counts and held-out pairs."""
    counts: Counter[str] = Counter(kept=0, too_long=0, lopsided=0)
    held_out: list[Pair] = []
    with EncodedWriter(directory, encoder.vocab) as writer:
        for encoded in map_chunks(encoder, chunks(pairs), workers):
            writer.append_encoded(encoded.src, encoded.tgt)
            counts.update(encoded.counts)
            held_out += encoded.held_out
    return dict(counts), held_out
