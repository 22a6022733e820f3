"""The pairs of an epoch cut into tokens of their own, by BPE-dropout: the same ones whenever the epoch is made."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from glassformer.config import RunConfig
from glassformer.text.bpe_dropout import BpeDropout, text_keys
from glassformer.text.encoded import EncodedPairs, EncodedSide, Rows, Sides
from glassformer.text.prepare import PreparedText

_TEXTS_AT_A_TIME = 2**15


@dataclass(frozen=True)
class Cutting:
    """How sources and targets are cut anew, from one seed."""

    dropouts: tuple[BpeDropout, BpeDropout]
    seed: int

    @classmethod
    def of(cls, config: RunConfig, text: PreparedText) -> Self | None:
        """None where every epoch has the same tokens."""
        p, longest = config.text.bpe_dropout, config.text.max_tokens + 1
        if not p:
            return None
        src = BpeDropout(text.src_tokenizer.json, p, longest)
        tgt = src if config.text.joint else BpeDropout(text.tgt_tokenizer.json, p, longest)
        return cls((src, tgt), config.train.seed)

    def sides(self, pairs: EncodedPairs, indices: npt.NDArray[np.int64], epoch: int) -> Sides:
        """The pairs at ``indices``, in that order and in memory, as this epoch has them."""
        both = (pairs.src_side, pairs.tgt_side)
        return Sides(*(self._side(side, number, indices, epoch) for number, side in enumerate(both)))

    def _side(self, side: EncodedSide, number: int, indices: npt.NDArray[np.int64], epoch: int) -> EncodedSide:
        parts = []
        for start in range(0, len(indices), _TEXTS_AT_A_TIME):
            some = indices[start : start + _TEXTS_AT_A_TIME]
            keys = text_keys(some, seed=self.seed, epoch=epoch, side=number)
            parts.append(self.dropouts[number].draw(side.rows(some), keys))
        ids, lengths = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
        return EncodedSide(Rows(ids, lengths))
