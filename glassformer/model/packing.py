"""Batches without padding: the tokens of all sentences end to end, as rows of one sequence.

What acts on each position alone, nearly all of the work, then has no padding. Attention copies its rows into the
padded form and back. Knows nothing of layers.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class PackedRows:
    """Where the ``kept`` positions of a padded batch stand without the others; at least one."""

    def __init__(self, kept: Bool[Tensor, "batch position"]) -> None:
        self.batch, self.positions = kept.shape
        flat = kept.flatten()
        self._cells = flat.nonzero().squeeze(1)  # of each row, among (batch position)
        self._left_out = (~flat).nonzero().squeeze(1)
        self._rows = (flat.cumsum(0) - 1).clamp_(min=0)  # of each cell; one that is left out has another's
        self._moves: dict[int, _Moves] = {}

    def pack(self, x: Float[Tensor, "batch position width"]) -> Float[Tensor, "one row width"]:
        """The rows of ``x``."""
        return x.flatten(0, 1).index_select(0, self._cells)[None]

    def pad_heads(self, x: Float[Tensor, "one row heads d"]) -> Float[Tensor, "batch heads position d"]:
        """The heads of each row at its place in the padded batch.

        Where a position was left out stands another's vector: as a key a mask must hide it, and as a query
        ``pack_heads`` drops it.
        """
        moves = self._moves_of(x.shape[2])
        heads = _move(x.flatten(0, 2), moves.out, moves.back, None)
        return heads.view(self.batch, x.shape[2], self.positions, x.shape[3])

    def pack_heads(self, heads: Float[Tensor, "batch heads position d"]) -> Float[Tensor, "one row heads d"]:
        """The inverse: the heads of each row side by side."""
        moves = self._moves_of(heads.shape[1])
        vectors = _move(heads.flatten(0, 2), moves.back, moves.out, moves.left_out)
        return vectors.view(1, len(self._cells), heads.shape[1], heads.shape[3])

    def _moves_of(self, n_heads: int) -> "_Moves":
        if n_heads not in self._moves:
            head = torch.arange(n_heads, device=self._rows.device)
            out = self._rows.view(self.batch, 1, self.positions) * n_heads + head[:, None]
            back, left_out = (self._places(cells, head) for cells in (self._cells, self._left_out))
            self._moves[n_heads] = _Moves(out.flatten(), back, left_out)
        return self._moves[n_heads]

    def _places(self, cells: Tensor, head: Tensor) -> Int[Tensor, " place"]:
        """The index in (batch heads position) of each vector of ``cells``, by (cell head)."""
        sentence, position = cells[:, None] // self.positions, cells[:, None] % self.positions
        return ((sentence * len(head) + head) * self.positions + position).flatten()


class Packing(NamedTuple):
    """Which packed rows are an attention's queries, and which its keys."""

    queries: PackedRows
    keys: PackedRows


@dataclass(frozen=True)
class _Moves:
    """Where each padded vector comes ``out`` of the rows, and the way ``back``."""

    out: Tensor
    back: Tensor
    left_out: Tensor


def _move(x: Tensor, gather_index: Tensor, scatter_index: Tensor, dropped: Tensor | None) -> Tensor:
    # torch leaves apply without types
    return _MoveVectors.apply(x, gather_index, scatter_index, dropped)  # type: ignore[no-any-return,no-untyped-call]


class _MoveVectors(torch.autograd.Function):
    """Moves whole vectors, forward and backward, and adds none to another."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gather_index: Tensor, scatter_index: Tensor, dropped: Tensor | None) -> Tensor:
        """Vector i of the result is number ``gather_index[i]`` of ``x``."""
        ctx.scatter_index, ctx.dropped = scatter_index, dropped
        return x.index_select(0, gather_index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Number i of ``x`` went to ``scatter_index[i]``; the gradient of those that ``dropped`` is zero."""
        gradient = grads[0].index_select(0, ctx.scatter_index)
        if ctx.dropped is not None:
            gradient.index_fill_(0, ctx.dropped, 0.0)
        return gradient, None, None, None
