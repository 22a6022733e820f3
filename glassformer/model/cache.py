"""Keys and values that decoding reuses: appended to for self-attention, computed once for cross-attention.

A cache is an argument of ``Transformer.decode`` and changes with each call.
"""

from dataclasses import dataclass

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

    def write(self, values: Tensor) -> None:
        """Bring ``values`` into the new order where they are; no more of them are wanted than there are."""
        ordered = self.apply(values)
        if self._moved is None:
            values.narrow(0, 0, len(ordered)).copy_(ordered)


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


class LayerCache:
    """The two caches of one decoder layer."""

    def __init__(self) -> None:
        self.self_attention = AttentionCache(grows=True)
        self.cross_attention = AttentionCache(grows=False)


class DecoderCache:
    """The caches of all decoder layers, with a row for each hypothesis; ``length`` target positions are decoded."""

    mask_axes = "one one query key"

    def __init__(self, n_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.layers[0].self_attention.length

    @property
    def rows(self) -> int | None:
        """The number of sentences in the cache, or None before the first step."""
        return self.layers[0].self_attention.rows

    def length_with(self, n_new: int) -> int:
        """The target positions after ``n_new`` more columns."""
        return self.length + n_new

    def extend(self, batch: int, n_new: int, device: torch.device) -> tuple[Positions, Mask]:
        """The positions of the next ``n_new`` columns of ids, and the mask of the keys that each of them sees."""
        return next_positions_and_mask(self.length, n_new, device)

    def reorder(self, rows: Int[Tensor, "new_batch"]) -> None:
        """Row i becomes what row ``rows[i]`` was, in every layer."""
        for layer in self.layers:
            layer.self_attention.reorder(rows)
            layer.cross_attention.reorder(rows)


def next_positions_and_mask(start: int, n_new: int, device: torch.device) -> tuple[Positions, Mask]:
    """Consecutive positions from ``start``, one for each new column, and the causal mask."""
    keys = torch.arange(start + n_new, device=device)
    visible = causal_mask(n_new, start + n_new, device)
    return Positions(keys[start:], keys), Mask.from_known(visible, hides=n_new > 1)


class BeamCache(DecoderCache):
    """A row for each source; its hypotheses are slots, columns at one target position.

    The mask says from which earlier keys each hypothesis descends: reordering hypotheses changes the mask and copies
    no keys. The keys and values of a source's memory are stored once.
    """

    mask_axes = "batch one query key"

    def __init__(self, n_layers: int) -> None:
        super().__init__(n_layers)
        self.slots = 1
        self._steps = 0
        self._positions: Tensor | None = None  # of each key
        self._lineage: Tensor | None = None  # (batch slots key): what each hypothesis sees; None while it sees all

    def length_with(self, n_new: int) -> int:
        """The target positions after one more step, whose columns all have one position."""
        return self._steps + 1

    def extend(self, batch: int, n_new: int, device: torch.device) -> tuple[Positions, Mask]:
        """The position of the next column of each slot, and the mask of the keys that each of them sees."""
        queries = torch.full((n_new,), self._steps, device=device)
        self._positions = queries if self._positions is None else torch.cat([self._positions, queries])
        self._steps += 1
        positions = Positions(queries, self._positions)
        if self._lineage is None:
            visible = torch.ones(batch, 1, 1, len(self._positions), dtype=torch.bool, device=device)
            return positions, Mask.from_known(visible, hides=False)
        itself = torch.eye(n_new, dtype=torch.bool, device=device).expand(batch, -1, -1)
        self._lineage = torch.cat([self._lineage, itself], dim=2)
        return positions, Mask.from_known(self._lineage[:, None], hides=True)

    def reorder(self, parents: Int[Tensor, "batch slots"]) -> None:
        """Hypothesis i of each source becomes what its hypothesis ``parents[i]`` was."""
        if self._lineage is None and parents.shape[1] > 1:
            self._lineage = torch.ones(len(parents), 1, self.length, dtype=torch.bool, device=parents.device)
        if self._lineage is not None:
            self._lineage = self._lineage.gather(1, parents[:, :, None].expand(-1, -1, self._lineage.shape[2]))
        self.slots = parents.shape[1]

    def reorder_sources(self, order: RowOrder) -> None:
        """Reorder the sources in place, which may write over the buffers."""
        if self._lineage is not None:
            self._lineage = order.apply(self._lineage)
        for layer in self.layers:
            layer.self_attention.apply(order)
            layer.cross_attention.apply(order)


@dataclass
class StaticUse:
    """What a ``StaticCache`` has room for, and what of it the present step uses."""

    max_rows: int
    max_keys: int
    columns: Tensor  # (slots)  the index of the next key of each slot
    length: int = 0  # keys that earlier steps wrote
    rows: int = 0  # of the present pass
    keys: int = 0


class StaticAttentionCache(AttentionCache):
    """Keys and values at one place in memory, zeros at first; new ones are written at the columns of ``use``."""

    def __init__(self, use: StaticUse, *, grows: bool) -> None:
        super().__init__(grows=grows)
        self._use = use

    @property
    def complete(self) -> bool:
        """Whether the keys and values are already in the cache."""
        return not self.grows and self.length > 0

    def append(self, k: Float[Tensor, "batch heads new d_k"], v: Float[Tensor, "batch heads new d_v"]) -> None:
        """Write new positions; those that a step writes again take their places."""
        self._k, self._v = self._write(self._k, k), self._write(self._v, v)
        self.length = k.shape[2]

    def apply(self, order: RowOrder) -> None:
        """``reorder`` in place."""
        for buffer in (self._k, self._v):
            if buffer is not None:
                order.write(buffer.narrow(2, 0, self._use.length if self.grows else self.length))

    def reset(self) -> None:
        """Zeros again: a key that is masked has the weight 0, but 0 times what is not finite is not 0."""
        self.length = 0
        for buffer in (self._k, self._v):
            if buffer is not None:
                buffer.zero_()

    def _write(self, buffer: Tensor | None, new: Tensor) -> Tensor:
        _, heads, n_new, width = new.shape
        if buffer is None:
            keys = self._use.max_keys if self.grows else n_new
            buffer = new.new_zeros(self._use.max_rows, heads, keys, width)
        rows = buffer.narrow(0, 0, len(new))
        if self.grows:
            rows.index_copy_(2, self._use.columns[:n_new], new)
        else:
            rows.copy_(new)
        return buffer

    def _in_use(self, buffer: Tensor | None) -> Tensor:
        assert buffer is not None, "an empty cache has no keys"
        rows = buffer.narrow(0, 0, self._use.rows)
        return rows.narrow(2, 0, self._use.keys) if self.grows else rows


class StaticCache(BeamCache):
    """A ``BeamCache`` of fixed shapes at fixed places in memory, so that a pass can be captured once and replayed.

    It has room for ``rows`` rows, each of ``slots`` hypotheses and ``keys`` keys. What differs between two steps with
    equal shapes is in tensors, which ``advance`` changes after each step; a pass itself may be repeated. It reads the
    keys up to a power of two, of which the mask hides those that are not written yet.
    """

    def __init__(self, n_layers: int, rows: int, slots: int, keys: int, device: torch.device) -> None:
        super().__init__(n_layers)
        self._use = StaticUse(rows, keys, torch.arange(slots, device=device))
        self._caches: list[StaticAttentionCache] = []
        for layer in self.layers:
            layer.self_attention = own = StaticAttentionCache(self._use, grows=True)
            layer.cross_attention = cross = StaticAttentionCache(self._use, grows=False)
            self._caches += own, cross
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._key_positions = torch.zeros(keys, dtype=torch.int64, device=device)
        self._visible = torch.zeros(rows, slots, keys, dtype=torch.bool, device=device)
        self._itself = torch.eye(slots, dtype=torch.bool, device=device)

    @property
    def length(self) -> int:
        """Keys written so far."""
        return self._use.length

    @property
    def rows(self) -> None:
        """Any number of rows may follow."""

    def keys_with(self, n_new: int) -> int:
        """The number of keys that a pass with ``n_new`` more reads."""
        return min(self._use.max_keys, max(MIN_KEYS, 1 << (self.length + n_new - 1).bit_length()))

    def extend(self, batch: int, n_new: int, device: torch.device) -> tuple[Positions, Mask]:
        """The position of the next column of each slot, and the mask of the keys that each of them sees."""
        columns, queries = self._use.columns[:n_new], self._step.expand(n_new)
        visible, itself = self._visible[:batch, :n_new], self._itself[:n_new, :n_new]
        self._key_positions.index_copy_(0, columns, queries)
        visible.index_copy_(2, columns, itself.expand(batch, -1, -1))
        self._use.rows, self._use.keys = batch, self.keys_with(n_new)
        positions = Positions(queries, self._key_positions[: self._use.keys])
        return positions, Mask.from_known(visible[:, None, :, : self._use.keys], hides=True)

    def advance(self) -> None:
        """End a step: the next one writes and reads one position further."""
        self._steps, self._use.length = self._steps + 1, self.length + self.slots
        self._step.add_(1)
        self._use.columns.add_(self.slots)

    def reorder(self, parents: Int[Tensor, "batch slots"]) -> None:
        """Hypothesis i of each source becomes what its hypothesis ``parents[i]`` was."""
        rows, slots = parents.shape
        if max(slots, self.slots) > 1:
            visible = self._visible[:rows, :, : self.length]
            visible[:, :slots] = visible.gather(1, parents[:, :, None].expand(-1, -1, self.length))
        self.slots = slots

    def reorder_sources(self, order: RowOrder) -> None:
        """Reorder the sources in place; there are no more of them than before."""
        order.write(self._visible[:, :, : self.length])
        for cache in self._caches:
            cache.apply(order)

    def reset(self) -> None:
        """Empty it for another batch of sources of the same width."""
        self._steps, self._use.length, self.slots = 0, 0, 1
        self._step.zero_()
        torch.arange(len(self._use.columns), out=self._use.columns)
        self._visible.fill_(False)
        for cache in self._caches:
            cache.reset()


MIN_KEYS = 32  # the fewest that a pass reads, so that a search begins with one shape
