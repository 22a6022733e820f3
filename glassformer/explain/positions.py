"""What stands at each position of a batch: a token or padding. Knows no model and no values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from glassformer.explain.aligned import Aligned, grown
from glassformer.explain.notation import resolved_axes
from glassformer.trace import Step


@dataclass(frozen=True, eq=False)
class Positions:
    """What stands at the positions of a batch: whether a token or padding, and which.

    ``real`` maps src and tgt to (batch positions) of bool; ``labels`` maps them to the tokens of each row, and
    vocab to one row of tokens.
    """

    real: Mapping[str, Tensor]
    labels: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def counted(self, tap: Aligned) -> Tensor:
        """True at the cells of a tap that no padding takes part in, stretched over its other axes."""
        counted = torch.ones([1] * len(tap.axes), dtype=torch.bool)
        rows = tap.axes.index("batch") if "batch" in tap.axes else None
        for place, word in enumerate(_sides(tap)):
            real = self.real.get(word)
            if real is None or place == rows:
                continue
            if rows is None:
                real = real.any(dim=0, keepdim=True)
            elif len(real) != tap.shape[rows]:
                continue  # rows of a search are no sentences
            shape = [1] * len(tap.axes)
            shape[place] = tap.shape[place]
            if rows is not None:
                shape[rows] = len(real)
            counted = counted & grown(real[:, : tap.shape[place]], (len(real), tap.shape[place])).reshape(shape)
        return counted

    def tokens(self, tap: Aligned, cell: Sequence[int]) -> tuple[str | None, ...]:
        """The token at each index of a cell, None along axes that hold none, or none that is known."""
        row = cell[tap.axes.index("batch")] if "batch" in tap.axes else 0
        return tuple(self._token(word, row, index) for word, index in zip(_sides(tap), cell, strict=True))

    def _token(self, word: str, row: int, index: int) -> str | None:
        rows = self.labels.get(word, ())
        row = 0 if word == "vocab" else row
        return rows[row][index] if row < len(rows) and index < len(rows[row]) else None


def _sides(tap: Aligned) -> tuple[str, ...]:
    """The axis words with src and tgt settled."""
    return resolved_axes(Step(tap.address, tap.axes, tap.value, tap.call))
