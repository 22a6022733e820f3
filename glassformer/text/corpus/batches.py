"""Batches of pairs of similar length, and windows of large corpora.

A window holds blocks of neighbouring pairs from all over the corpus, others in each epoch. Batches follow from
lengths, seed and epoch.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from glassformer.text.corpus.dataset import EncodedPairs, Sides
from glassformer.text.tokenizer.tokenizer import BOS_ID, PAD_ID

if TYPE_CHECKING:  # preparing text does not load PyTorch
    import torch
    from torch import Tensor

Lengths = npt.NDArray[np.integer[Any]]
Indices = npt.NDArray[np.int64]

PAIRS_IN_WINDOW = 2**20
PAIRS_IN_BLOCK = 2**10


@dataclass(frozen=True)
class Batch:
    """src_ids (batch src), tgt_in_ids, tgt_out_ids (batch tgt), int64, right-padded.

    ``tgt_in_ids``: <s> and the target; ``tgt_out_ids``: the target and </s>.
    """

    src_ids: "Tensor"
    tgt_in_ids: "Tensor"
    tgt_out_ids: "Tensor"

    @property
    def target_tokens(self) -> int:
        """Tokens to predict, without padding."""
        return int((self.tgt_out_ids != PAD_ID).sum())

    def to(self, device: "torch.device | str") -> Self:
        """The batch on ``device``."""
        ids = (self.src_ids, self.tgt_in_ids, self.tgt_out_ids)
        return type(self)(*(tensor.to(device, non_blocking=True) for tensor in ids))


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
    """The indices of all pairs, once each, in batches, in order of training.

    A batch has at most ``batch_tokens`` positions a side, or one longer pair. Pairs are sorted by length, rounded
    down to multiples of ``bucket`` tokens: 1 pads least, more mixes better. ``seed``, ``epoch`` and ``window``
    determine the rest.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch, window]))
    order = _by_length(np.asarray(src_lengths) // bucket, np.asarray(tgt_lengths) // bucket, random)
    longest = np.maximum(src_lengths, tgt_lengths)[order]
    starts = _batch_starts(longest, batch_tokens)
    batches = np.split(order, starts[1:]) if starts else []
    return [batches[place] for place in random.permutation(len(batches))]


def _by_length(src_lengths: Lengths, tgt_lengths: Lengths, random: np.random.Generator) -> Indices:
    """Indices by target length, then source length, ties at random."""
    shuffled = random.permutation(len(tgt_lengths))
    src, tgt = src_lengths[shuffled].astype(np.int64), tgt_lengths[shuffled].astype(np.int64)
    # Source lengths alternately rise and fall with target length, so that neighbours
    # stay similar.
    zigzag = np.where(tgt % 2 == 0, src, (2**31 - 1) - src)
    return shuffled[np.argsort((tgt << 32) | zigzag, kind="stable")]


def _batch_starts(longest: Lengths, batch_tokens: int) -> list[int]:
    """Where batches start; ``longest``: the longer sides."""
    starts, start = [], 0
    while start < len(longest):
        starts.append(start)
        window = longest[start : start + max(1, batch_tokens // max(1, int(longest[start])))]
        cells = np.maximum.accumulate(window).astype(np.int64) * np.arange(1, len(window) + 1)
        start += max(1, int(np.searchsorted(cells, batch_tokens, side="right")))
    return starts


def padding_fraction(src_lengths: Lengths, tgt_lengths: Lengths, plan: list[Indices]) -> float:
    """The share of padding in the plan's batches, both sides together."""
    cells = sum(len(batch) * int(side[batch].max()) for batch in plan for side in (src_lengths, tgt_lengths))
    tokens = sum(int(side[batch].sum()) for batch in plan for side in (src_lengths, tgt_lengths))
    return 1.0 - tokens / cells if cells else 0.0


def collate(pairs: EncodedPairs | Sides, indices: Indices) -> Batch:
    """The padded batch of the pairs at ``indices``."""
    import torch

    tgt_out = pairs.tgt_side.pad(indices, PAD_ID)
    shifted = np.concatenate([np.full((len(indices), 1), BOS_ID), tgt_out[:, :-1]], axis=1)
    # A shorter target's </s> is now padding.
    tgt_in = np.where(tgt_out == PAD_ID, PAD_ID, shifted)
    src = pairs.src_side.pad(indices, PAD_ID)
    return Batch(*(torch.from_numpy(ids) for ids in (src, tgt_in, tgt_out)))


def count_windows(pairs: int) -> int:
    """Windows of an epoch; sizes differ by about a block."""
    return max(1, -(-pairs // PAIRS_IN_WINDOW))


def window_indices(pairs: int, window: int, *, seed: int, epoch: int) -> Indices:
    """The indices in one window, ascending; each is in exactly one."""
    windows = count_windows(pairs)
    if windows == 1:
        return np.arange(pairs)
    # Other random numbers than those within a window.
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch], spawn_key=(1,))))
    blocks = np.array_split(random.permutation(-(-pairs // PAIRS_IN_BLOCK)), windows)[window]
    indices = (np.sort(blocks)[:, None] * PAIRS_IN_BLOCK + np.arange(PAIRS_IN_BLOCK)).ravel()
    return indices[indices < pairs]
