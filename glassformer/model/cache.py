"""The keys and values that decoding need not compute again: appended for self-attention, kept for cross-attention.

A cache is an argument of ``Transformer.decode`` and changes with each call. Knows nothing of search.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


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
        """Sentences whose keys and values are held, or None before the first."""
        return None if self._k is None else self._k.shape[0]

    @property
    def complete(self) -> bool:
        """Whether the keys and values are there already and need not be computed."""
        return not self.grows and self._k is not None

    @property
    def k(self) -> Float[Tensor, "batch heads key d_k"]:
        """The keys so far."""
        return self._filled(self._k)

    @property
    def v(self) -> Float[Tensor, "batch heads key d_v"]:
        """The values so far."""
        return self._filled(self._v)

    def append(self, k: Float[Tensor, "batch heads new d_k"], v: Float[Tensor, "batch heads new d_v"]) -> None:
        """Take new positions behind the old ones."""
        new = self.length + k.shape[2]
        self._k = _written(self._k, k, self.length, new)
        self._v = _written(self._v, v, self.length, new)
        self.length = new

    def reorder(self, rows: Int[Tensor, "new_batch"]) -> None:
        """Row i becomes what row ``rows[i]`` was; rows may be dropped or repeated."""
        if self._k is not None and self._v is not None:
            self._k, self._v = self._k.index_select(0, rows), self._v.index_select(0, rows)

    def _filled(self, buffer: Tensor | None) -> Tensor:
        assert buffer is not None, "an empty cache has no keys"
        return buffer[:, :, : self.length]


def _written(buffer: Tensor | None, new: Tensor, start: int, stop: int) -> Tensor:
    if buffer is None:
        return new
    if torch.is_grad_enabled() and new.requires_grad:
        return torch.cat([buffer[:, :, :start], new], dim=2)  # what backward needs must not be written over
    if stop > buffer.shape[2]:
        grown = buffer.new_empty(*buffer.shape[:2], 2 * stop, buffer.shape[3])
        grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer[:, :, start:stop] = new
    return buffer


class LayerCache:
    """The two caches of one decoder layer."""

    def __init__(self) -> None:
        self.self_attention = AttentionCache(grows=True)
        self.cross_attention = AttentionCache(grows=False)


class DecoderCache:
    """The caches of all decoder layers; ``length`` target positions have been decoded."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.layers[0].self_attention.length

    @property
    def rows(self) -> int | None:
        """Sentences whose keys and values are held, or None before the first step."""
        return self.layers[0].self_attention.rows

    def reorder(self, rows: Int[Tensor, "new_batch"]) -> None:
        """Follow a search: row i becomes what row ``rows[i]`` was, in every layer."""
        for layer in self.layers:
            layer.self_attention.reorder(rows)
            layer.cross_attention.reorder(rows)
