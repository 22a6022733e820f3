"""Batches: which pairs go together, and the padded tensors of each.

Pairs of like length share a batch, so that little is padding. The plan depends on the lengths, the seed and the
epoch alone: a resumed run makes the same batches. Knows nothing of text.

The windows of an epoch over a large corpus: what is shuffled and sorted into batches at one time.

A window is made of blocks of neighbours, drawn from all over the corpus anew in each epoch. So memory does not grow
with the corpus, and a disk is read some thousand pairs at a time. Knows nothing of text, nor of lengths.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.text.dataset import EncodedPairs, Sides
from glassformer.text.tokenizer import BOS_ID, PAD_ID

Lengths = npt.NDArray[np.integer[Any]]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Padded pairs: src_ids (batch src), tgt_in_ids and tgt_out_ids (batch tgt), int64, padding to the right.

    A target enters as <s> and its tokens, and is to come out as its tokens and </s>: position by position,
    ``tgt_out_ids`` is the token after ``tgt_in_ids``.
    """

    src_ids: Tensor
    tgt_in_ids: Tensor
    tgt_out_ids: Tensor

    @property
    def target_tokens(self) -> int:
        """Tokens to predict, padding not counted."""
        return int((self.tgt_out_ids != PAD_ID).sum())

    def to(self, device: torch.device | str) -> Self:
        """The same batch on ``device``."""
        return type(self)(
            *(ids.to(device, non_blocking=True) for ids in (self.src_ids, self.tgt_in_ids, self.tgt_out_ids))
        )


def plan_batches(
    src_lengths: Lengths,
    tgt_lengths: Lengths,
    batch_tokens: int,
    *,
    seed: int,
    epoch: int,
    window: int = 0,
    bucket: int = 1,
) -> list[Indices]:
    """Every pair's index exactly once, in batches, in the order in which to train on them.

    In each batch, rows times the longest side is at most ``batch_tokens``; a single longer pair is a batch of
    its own. Lengths within the same multiple of ``bucket`` tokens count as alike: 1 pads least, more mixes
    better. Which of the pairs of like length share a batch, and the order of the batches, follow from ``seed``,
    ``epoch`` and ``window``: the number of these pairs among those of a large corpus.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch, window]))
    order = _by_length(np.asarray(src_lengths) // bucket, np.asarray(tgt_lengths) // bucket, random)
    longest = np.maximum(src_lengths, tgt_lengths)[order]
    starts = _starts(longest, batch_tokens)
    batches = np.split(order, starts[1:]) if starts else []
    return [batches[place] for place in random.permutation(len(batches))]


def _by_length(src_lengths: Lengths, tgt_lengths: Lengths, random: np.random.Generator) -> Indices:
    """All indices, by target length, then source length, equals in random order."""
    shuffled = random.permutation(len(tgt_lengths))
    src, tgt = src_lengths[shuffled].astype(np.int64), tgt_lengths[shuffled].astype(np.int64)
    # Sources rise with one target length and fall with the next: where the target length changes inside a
    # batch, its sources are still of like length.
    turned = np.where(tgt % 2 == 0, src, (2**31 - 1) - src)
    return shuffled[np.argsort((tgt << 32) | turned, kind="stable")]


def _starts(longest: Lengths, batch_tokens: int) -> list[int]:
    """Where each batch starts when as many neighbours as the budget allows are taken in turn."""
    starts, start = [], 0
    while start < len(longest):
        starts.append(start)
        window = longest[start : start + max(1, batch_tokens // max(1, int(longest[start])))]
        cells = np.maximum.accumulate(window).astype(np.int64) * np.arange(1, len(window) + 1)
        start += max(1, int(np.searchsorted(cells, batch_tokens, side="right")))
    return starts


def padding_fraction(src_lengths: Lengths, tgt_lengths: Lengths, plan: list[Indices]) -> float:
    """The part of all cells of the plan's batches, sources and targets together, that is padding."""
    cells = sum(len(batch) * int(side[batch].max()) for batch in plan for side in (src_lengths, tgt_lengths))
    tokens = sum(int(side[batch].sum()) for batch in plan for side in (src_lengths, tgt_lengths))
    return 1.0 - tokens / cells if cells else 0.0


def collate(pairs: EncodedPairs | Sides, indices: Indices) -> Batch:
    """The padded batch of the pairs at ``indices``, in that order."""
    tgt_out = pairs.tgt_side.pad(indices, PAD_ID)
    shifted = np.concatenate([np.full((len(indices), 1), BOS_ID), tgt_out[:, :-1]], axis=1)
    # The </s> of a shorter target has moved onto padding.
    tgt_in = np.where(tgt_out == PAD_ID, PAD_ID, shifted)
    src = pairs.src_side.pad(indices, PAD_ID)
    return Batch(*(torch.from_numpy(ids) for ids in (src, tgt_in, tgt_out)))


PAIRS_IN_WINDOW = 2**20
PAIRS_IN_BLOCK = 2**10


def count_windows(pairs: int) -> int:
    """The windows of an epoch over so many pairs; they are as large as one another, but for a block."""
    return max(1, -(-pairs // PAIRS_IN_WINDOW))


def window_indices(pairs: int, window: int, *, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The indices of the pairs in one window, ascending: those of all windows are each index once."""
    windows = count_windows(pairs)
    if windows == 1:
        return np.arange(pairs)
    # A stream of its own, so that blocks are not drawn by the numbers that order the pairs in a window.
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch], spawn_key=(1,))))
    drawn = np.array_split(random.permutation(-(-pairs // PAIRS_IN_BLOCK)), windows)[window]
    indices = (np.sort(drawn)[:, None] * PAIRS_IN_BLOCK + np.arange(PAIRS_IN_BLOCK)).ravel()
    return indices[indices < pairs]
