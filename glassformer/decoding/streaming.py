"""Streaming: the prefix of a translation that is already certain, and its text.

A prefix is certain once all hypotheses of the source share it, live and finished ones. A byte-level token may end in
the middle of a character: the detokenizer holds back an incomplete character until it is whole, or the output ends.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from glassformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from glassformer.decoding.beam import SearchState
    from glassformer.decoding.sampling import SampleState


class CertainPrefix:
    """The ids that all hypotheses of one source begin with, updated with each state of its search."""

    def __init__(self) -> None:
        self._hypotheses: dict[int, list[list[int]]] = {}

    def update(self, state: "SearchState | SampleState") -> list[int]:
        """The shared ids after a step; after eos there may be padding."""
        from glassformer.decoding.sampling import SampleState

        # Groups and samples that are done leave the state; their outputs still count.
        self._hypotheses |= _of_samples(state) if isinstance(state, SampleState) else _of_beams(state)
        every = [ids for hypotheses in self._hypotheses.values() for ids in hypotheses]
        differs = (len(set(ids)) > 1 for ids in zip(*every, strict=False))
        return next(
            (every[0][:place] for place, found in enumerate(differs) if found), min(every, key=len, default=[])
        )


def _of_samples(state: "SampleState") -> dict[int, list[list[int]]]:
    return {number: [ids] for number, ids in zip(state.samples.tolist(), state.ids.tolist(), strict=True)}


def _of_beams(state: "SearchState") -> dict[int, list[list[int]]]:
    """Of the finished ones the n_best suffice: another one never becomes the best again."""
    import torch

    ids = torch.cat([state.ids, state.ended_ids], dim=1)
    exists = torch.cat([state.ranking, state.ended_scores], dim=1) > -math.inf
    return {number: ids[place, exists[place]].tolist() for place, number in enumerate(state.sentences.tolist())}


_BROKEN = "\ufffd"


class StreamingDetokenizer:
    """Returns the text of growing ids in pieces; joined, they are ``tokenizer.to_text`` of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._returned = ""

    def put(self, ids: Sequence[int]) -> str:
        """The text that ``ids`` add to the previous pieces; they begin with the ids of the previous call."""
        # A broken character at the end may still be completed; the text before it cannot change any more.
        return self._rest(self._tokenizer.to_text(ids).rstrip(_BROKEN))

    def end(self, ids: Sequence[int]) -> str:
        """The rest of the text, once ``ids`` are complete."""
        return self._rest(self._tokenizer.to_text(ids))

    def _rest(self, text: str) -> str:
        piece = text[len(self._returned) :]
        self._returned += piece
        return piece
