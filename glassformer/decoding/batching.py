"""Sources on their way to the model: ids with eos, cut to what it can take, in padded batches of like length.

Knows nothing of how outputs are found.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.errors import InputError, TokenizerError
from glassformer.text.lines import is_blank
from glassformer.text.tokenizer import BOS_ID, CONTROL_TOKENS, EOS_ID, PAD_ID, Tokenizer


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


def read_sources(
    texts: Sequence[str], tokenizer: Tokenizer, config: ModelConfig, name: str = "texts"
) -> list[Source]:
    """Each text as ids; raises ``InputError``, with their ``name``, for what is no list of str."""
    check_texts(name, texts)
    room = config.max_length - 1  # eos needs a position
    return [
        Source(text, [*ids[:room], config.eos_id], truncated=len(ids) > room)
        for text, ids in zip(texts, tokenizer.to_ids_batch(texts), strict=True)
    ]


def output_limit(source: Source, config: ModelConfig, options: DecodeConfig, prefixed: int = 0) -> int:
    """The most ids, eos included, that the output for ``source`` may have; its own eos is not counted.

    What the options allow comes behind the ``prefixed`` ids with which the output must begin.
    """
    wanted = int(options.max_length_a * (len(source.ids) - 1)) + options.max_length_b
    return min(prefixed + wanted, config.max_length)


def copies(options: DecodeConfig) -> int:
    """How many rows each source has in the decoder."""
    if options.sample:
        return options.mbr or options.n_best
    return options.beam


def in_batches(
    lengths: Sequence[int], places: Sequence[int], copies: int, batch_tokens: int, workers: int = 1
) -> list[list[int]]:
    """``places`` in batches, longest first; in each, rows · copies · longest is at most ``batch_tokens``.

    ``lengths`` are those of all texts; a text that is too long by itself is a batch of its own. For several workers
    batches are smaller where there would be too few to share evenly.
    """
    batches: list[list[int]] = []
    if workers > 1:
        tokens = copies * sum(lengths[place] for place in places)
        batch_tokens = min(batch_tokens, max(_LEAST_SHARE, tokens // (_SHARES * workers)))
    room = 0
    for place in sorted(places, key=lengths.__getitem__, reverse=True):
        if room == 0:
            batches.append([])
            room = max(1, batch_tokens // (copies * lengths[place]))
        batches[-1].append(place)
        room -= 1
    return batches


_SHARES, _LEAST_SHARE = 2, 256  # batches of each worker, and tokens of a batch that is worth handing over


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Int[Tensor, "batch longest"]:
    """The rows as one int64 tensor, ``pad_id`` to the right of the shorter ones."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], dtype=torch.int64, device=device)


def refuse_one_str(name: str, texts: object) -> None:
    """A str is a sequence of texts too, of one letter each, and would be read as that."""
    if isinstance(texts, str):
        raise InputError(f"{name}: found one str {texts[:40]!r}, expected a list of texts. Put it in a list.")


def check_texts(name: str, texts: Sequence[str]) -> None:
    """Raise ``InputError`` for what is no list of str."""
    refuse_one_str(name, texts)
    if not isinstance(texts, Iterable) or isinstance(texts, Iterator):
        raise InputError(
            f"{name}: found {type(texts).__name__}, expected a list of texts. "
            f"Of what can be read but once make list({name}), or give it to translate_stream."
        )
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"{name}[{index}]: found {type(text).__name__}, expected str. "
                "Give plain text: the translator's tokenizer makes ids of it."
            )


def check_pairs(sources: Sequence[Source], targets: Sequence[Source], config: ModelConfig, start: int = 0) -> None:
    """Raise ``InputError`` when there is not one target for each source, or one is longer than the model takes."""
    if len(sources) != len(targets):
        raise InputError(
            f"targets: found {len(sources)} sources and {len(targets)} targets, expected one for each source. "
            "To compare several targets, repeat their source."
        )
    for index, target in enumerate(targets, start):
        if target.truncated:
            raise InputError(
                f"targets[{index}]: has more than the {config.max_length - 1} tokens "
                "that the model takes. Shorten it."
            )


def check_tokenizers(config: ModelConfig, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> None:
    """Raise ``TokenizerError`` unless the model was made for the vocabularies and the control ids of both."""
    for name, side, tokenizer, vocab in (
        ("src_tokenizer", "source", src_tokenizer, config.src_vocab),
        ("tgt_tokenizer", "target", tgt_tokenizer, config.tgt_vocab),
    ):
        if tokenizer.size != vocab:
            raise TokenizerError(
                f"{name}: the {side} tokenizer has {tokenizer.size} entries, but the model was made for {vocab}, "
                "expected as many. Use the tokenizer that it was trained with."
            )
    for name, expected in {"pad_id": PAD_ID, "bos_id": BOS_ID, "eos_id": EOS_ID}.items():
        found = getattr(config, name)
        if found != expected:
            raise TokenizerError(
                f"model.{name}: found {found}, expected {expected}, which is {CONTROL_TOKENS[expected]} in every "
                "tokenizer. Leave it out of the model's settings."
            )
