"""What decoding reuses: keys and values, appended to for self-attention, computed once for cross-attention; a state.

A cache is an argument of ``Transformer.decode`` and changes with each call.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.model.masks import Mask, causal_mask
from glassformer.model.positions import Positions


class RowOrder:
    """A new order of rows; if it only fills the places of dropped rows, no other row is moved."""

    def __init__(self, rows: Int[Tensor, "new"], before: int) -> None:
        self._rows, self._moved = rows, None
        if len(rows) <= before:
            to = (rows != torch.arange(len(rows), device=rows.device)).nonzero().flatten()
            taken = rows.index_select(0, to)
            if bool((taken >= len(rows)).all()):
                self._moved = to, taken

    def apply(self, values: Tensor, filled: int | None = None) -> Tensor:
        """``values`` in the new order, which may be written over; ``filled`` is the length of axis 2 in use."""
        if self._moved is None:
            return values.index_select(0, self._rows)
        to, taken = self._moved
        if len(to):
            part = values if filled is None else values.narrow(2, 0, filled)
            part.index_copy_(0, to, part.index_select(0, taken))
        return values.narrow(0, 0, len(self._rows))


class AttentionCache:
    """Keys (batch heads key d_k) and values (batch heads key d_v) of one attention.

    One that grows takes the new positions of each step; one that does not is complete after the first.
    The buffers are doubled when full, so that a step costs the new positions and not all of them.
    """

    def __init__(self, *, grows: bool) -> None:
        self.grows = grows
        self.length = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None

    @property
    def rows(self) -> int | None:
        """The number of sentences in the cache, or None before the first step."""
        return None if self._k is None else self._k.shape[0]

    @property
    def complete(self) -> bool:
        """Whether the keys and values are already in the cache."""
        return not self.grows and self._k is not None

    @property
    def k(self) -> Float[Tensor, "batch heads key d_k"]:
        """The keys so far."""
        return self._in_use(self._k)

    @property
    def v(self) -> Float[Tensor, "batch heads key d_v"]:
        """The values so far."""
        return self._in_use(self._v)

    def append(self, k: Float[Tensor, "batch heads new d_k"], v: Float[Tensor, "batch heads new d_v"]) -> None:
        """Append new positions."""
        if not self.grows:
            k, v = k.contiguous(), v.contiguous()  # once, instead of at each step that reads them
        new = self.length + k.shape[2]
        self._k = _write(self._k, k, self.length, new)
        self._v = _write(self._v, v, self.length, new)
        self.length = new

    def reorder(self, rows: Int[Tensor, "new_batch"]) -> None:
        """Row i becomes what row ``rows[i]`` was; rows may be dropped or repeated."""
        if self._k is not None and self._v is not None:
            self._k, self._v = self._k.index_select(0, rows), self._v.index_select(0, rows)

    def apply(self, order: RowOrder) -> None:
        """``reorder`` in place, which may write over the buffers."""
        if self._k is not None and self._v is not None:
            self._k, self._v = order.apply(self._k, self.length), order.apply(self._v, self.length)

    def _in_use(self, buffer: Tensor | None) -> Tensor:
        assert buffer is not None, "an empty cache has no keys"
        return buffer if buffer.shape[2] == self.length else buffer.narrow(2, 0, self.length)


def _write(buffer: Tensor | None, new: Tensor, start: int, stop: int) -> Tensor:
    if buffer is None:
        return new
    if torch.is_grad_enabled() and new.requires_grad:
        return torch.cat([buffer[:, :, :start], new], dim=2)  # backward needs the old values
    if stop > buffer.shape[2]:
        grown = buffer.new_empty(*buffer.shape[:2], 2 * stop, buffer.shape[3])
        grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer.narrow(2, start, new.shape[2]).copy_(new)
    return buffer


class StateCache:
    """The last cell of a recurrence, (batch one d_model), or (batch slots d_model); None before the first step."""

    def __init__(self) -> None:
        self.state: Tensor | None = None

    def reorder(self, rows: Int[Tensor, "new_batch"]) -> None:
        """Row i becomes what row ``rows[i]`` was; rows may be dropped or repeated."""
        if self.state is not None:
            self.state = self.state.index_select(0, rows)

    def reorder_slots(self, parents: Int[Tensor, "batch slots"]) -> None:
        """Slot i of each row becomes what its slot ``parents[i]`` was."""
        if self.state is not None:
            self.state = self.state.gather(1, parents[:, :, None].expand(-1, -1, self.state.shape[2]))

    def apply(self, order: RowOrder) -> None:
        """``reorder`` in place, which may write over the state."""
        if self.state is not None:
            self.state = order.apply(self.state)


class LayerCache:
    """The two caches of one decoder layer: of its autoregressive sublayer, and of cross-attention."""

    def __init__(self, sublayer: str) -> None:
        self.autoregressive = StateCache() if sublayer == "ssru" else AttentionCache(grows=True)
        self.cross_attention = AttentionCache(grows=False)


class DecoderCache:
    """The caches of all decoder layers, with a row for each hypothesis; ``length`` target columns are decoded."""

    mask_axes = "one one query key"

    def __init__(self, n_layers: int, sublayer: str = "self_attention") -> None:
        self.sublayer, self.length = sublayer, 0
        self.layers = [LayerCache(sublayer) for _ in range(n_layers)]

    @property
    def rows(self) -> int | None:
        """The number of sentences in the cache, or None before the first step."""
        return self.layers[0].cross_attention.rows

    def length_with(self, n_new: int) -> int:
        """The target positions after ``n_new`` more columns."""
        return self.length + n_new

    def extend(self, batch: int, n_new: int, device: torch.device) -> tuple[Positions, Mask | None]:
        """The positions of the next ``n_new`` columns, and the mask of what each sees; a recurrence needs none."""
        start, self.length = self.length, self.length + n_new
        keys = torch.arange(self.length, device=device)
        positions = Positions(keys[start:], keys)
        if self.sublayer == "ssru":
            return positions, None
        return positions, Mask.from_known(causal_mask(n_new, self.length, device), hides=n_new > 1)

    def reorder(self, rows: Int[Tensor, "new_batch"]) -> None:
        """Row i becomes what row ``rows[i]`` was, in every layer."""
        for layer in self.layers:
            layer.autoregressive.reorder(rows)
            layer.cross_attention.reorder(rows)


class BeamCache(DecoderCache):
    """A row for each source; its hypotheses are slots, columns at one target position.

    The mask says from which earlier keys each hypothesis descends: reordering hypotheses changes the mask and copies
    no keys. The keys and values of a source's memory are stored once.
    """

    mask_axes = "batch one query key"

    def __init__(self, n_layers: int, sublayer: str = "self_attention") -> None:
        super().__init__(n_layers, sublayer)
        self.slots = 1
        self._steps = 0
        self._positions: Tensor | None = None  # of each key
        self._lineage: Tensor | None = None  # (batch slots key): what each hypothesis sees; None while it sees all

    def length_with(self, n_new: int) -> int:
        """The target positions after one more step, whose columns all have one position."""
        return self._steps + 1

    def extend(self, batch: int, n_new: int, device: torch.device) -> tuple[Positions, Mask | None]:
        """The position of the next column of each slot, and the mask of the keys that each of them sees."""
        queries = torch.full((n_new,), self._steps, device=device)
        self._steps += 1
        self.length += n_new
        if self.sublayer == "ssru":
            return Positions(queries, queries), None
        self._positions = queries if self._positions is None else torch.cat([self._positions, queries])
        positions = Positions(queries, self._positions)
        if self._lineage is None:
            visible = torch.ones(batch, 1, 1, len(self._positions), dtype=torch.bool, device=device)
            return positions, Mask.from_known(visible, hides=False)
        itself = torch.eye(n_new, dtype=torch.bool, device=device).expand(batch, -1, -1)
        self._lineage = torch.cat([self._lineage, itself], dim=2)
        return positions, Mask.from_known(self._lineage[:, None], hides=True)

    def reorder(self, parents: Int[Tensor, "batch slots"]) -> None:
        """Hypothesis i of each source becomes what its hypothesis ``parents[i]`` was."""
        self.slots = parents.shape[1]
        for layer in self.layers:
            if isinstance(layer.autoregressive, StateCache):
                layer.autoregressive.reorder_slots(parents)
        if self.sublayer == "ssru":
            return
        if self._lineage is None and parents.shape[1] > 1:
            self._lineage = torch.ones(len(parents), 1, self.length, dtype=torch.bool, device=parents.device)
        if self._lineage is not None:
            self._lineage = self._lineage.gather(1, parents[:, :, None].expand(-1, -1, self._lineage.shape[2]))

    def reorder_sources(self, order: RowOrder) -> None:
        """Reorder the sources in place, which may write over the buffers."""
        if self._lineage is not None:
            self._lineage = order.apply(self._lineage)
        for layer in self.layers:
            layer.autoregressive.apply(order)
            layer.cross_attention.apply(order)
