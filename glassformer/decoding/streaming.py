"""A search that is watched while it goes on: what is certain of its best output, step by step.

Certain is the beginning that all hypotheses of the source share, those that live and those that have ended. Knows
nothing of text.

Text that grows token by token: what of it is certain, whatever comes next.

A byte-level token may end in the midst of a character. What is there of it is held back until the character is
whole, or until nothing more comes. Knows nothing of models.
"""

import math
from collections.abc import Sequence

import torch

from glassformer.decoding.beam import SearchState
from glassformer.decoding.sampling import SampleState
from glassformer.text.tokenizer import Tokenizer


class Shared:
    """The ids that all hypotheses of one source begin with, kept up with the states of its search."""

    def __init__(self) -> None:
        self._hypotheses: dict[int, list[list[int]]] = {}

    def after(self, state: SearchState | SampleState) -> list[int]:
        """The shared ids after a step; behind eos there may be padding."""
        # Groups and samples that are done leave the state; what they came to still counts.
        self._hypotheses |= _of_samples(state) if isinstance(state, SampleState) else _of_beams(state)
        every = [ids for hypotheses in self._hypotheses.values() for ids in hypotheses]
        differs = (len(set(ids)) > 1 for ids in zip(*every, strict=False))
        return next(
            (every[0][:place] for place, found in enumerate(differs) if found), min(every, key=len, default=[])
        )


def _of_samples(state: SampleState) -> dict[int, list[list[int]]]:
    return {number: [ids] for number, ids in zip(state.samples.tolist(), state.ids.tolist(), strict=True)}


def _of_beams(state: SearchState) -> dict[int, list[list[int]]]:
    """Of those that have ended the kept are enough: one that fell behind them never becomes the best again."""
    ids = torch.cat([state.ids, state.ended_ids], dim=1)
    exists = torch.cat([state.ranking, state.ended_scores], dim=1) > -math.inf
    return {number: ids[place, exists[place]].tolist() for place, number in enumerate(state.sentences.tolist())}


_BROKEN = "\ufffd"


class GrowingText:
    """Gives the text of growing ids in pieces; joined they are ``tokenizer.to_text`` of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._given = ""

    def upto(self, ids: Sequence[int]) -> str:
        """What ``ids`` add to the text that was given so far; they begin with the ids of the call before."""
        # What looks broken at the end may be the beginning of a character; no text before it can change any more.
        return self._beyond(self._tokenizer.to_text(ids).rstrip(_BROKEN))

    def end(self, ids: Sequence[int]) -> str:
        """What is left, once ``ids`` are all."""
        return self._beyond(self._tokenizer.to_text(ids))

    def _beyond(self, text: str) -> str:
        piece = text[len(self._given) :]
        self._given += piece
        return piece
