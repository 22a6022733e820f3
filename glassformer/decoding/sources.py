"""Sources on their way to the model: ids with eos, cut to what it can take, in padded batches of like length.

Knows nothing of how outputs are found.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.errors import InputError
from glassformer.text.characters import is_blank
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Source:
    """One text as the model reads it: ``ids`` end with eos; ``truncated`` when tokens at the end were left out."""

    text: str
    ids: list[int]
    truncated: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to translate: spaces alone, or no token."""
        return len(self.ids) <= 1 or is_blank(self.text)


def read_sources(texts: Sequence[str], tokenizer: Tokenizer, config: ModelConfig) -> list[Source]:
    """Each text as ids; raises ``InputError`` for a single str, or for what is not a str."""
    if isinstance(texts, str):
        raise InputError(f"texts: found one str {texts[:40]!r}, expected a list of texts. Put it in a list.")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"texts[{index}]: found {type(text).__name__}, expected str.")
    room = config.max_length - 1  # eos needs a position
    return [
        Source(text, [*ids[:room], config.eos_id], truncated=len(ids) > room)
        for text, ids in zip(texts, tokenizer.to_ids_batch(texts), strict=True)
    ]


def output_limit(source: Source, config: ModelConfig, options: DecodeConfig) -> int:
    """The most ids, eos included, that the output for ``source`` may have; its own eos is not counted."""
    wanted = int(options.max_length_a * (len(source.ids) - 1)) + options.max_length_b
    return min(wanted, config.max_length)


def in_batches(lengths: Sequence[int], places: Sequence[int], copies: int, batch_tokens: int) -> list[list[int]]:
    """``places`` in batches, longest first; in each, rows · copies · longest is at most ``batch_tokens``.

    ``lengths`` are those of all texts; a text that is too long by itself is a batch of its own.
    """
    batches: list[list[int]] = []
    room = 0
    for place in sorted(places, key=lengths.__getitem__, reverse=True):
        if room == 0:
            batches.append([])
            room = max(1, batch_tokens // (copies * lengths[place]))
        batches[-1].append(place)
        room -= 1
    return batches


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Int[Tensor, "batch longest"]:
    """The rows as one int64 tensor, ``pad_id`` to the right of the shorter ones."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], dtype=torch.int64, device=device)
