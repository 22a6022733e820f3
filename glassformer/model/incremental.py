"""The decoder one position at a time, for translating: the sums of ``layers`` and ``attention``, without their taps.

Besides, what is dear when a step computes one position only is not done. The hypotheses of a source stand abreast:
those of one position are columns of the source's row, each sees the columns that it descends from, and a search that
reorders them changes a mask, not keys and values. When sources are done, only what fills their places is moved.
``Transformer.decode`` is the plain walk that this must equal, and what a trace records. Knows nothing of search.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.errors import InputError
from glassformer.model.attention import MultiHeadAttention, split_heads
from glassformer.model.layers import DecoderLayer
from glassformer.model.norm import AddAndNorm, LayerNorm
from glassformer.model.positions import RotaryPositions
from glassformer.model.transformer import Transformer

Rows = Float[Tensor, "rows d_model"]  # each hypothesis of each source is one row


class IncrementalDecoder:
    """A batch of sources on their way through the decoder of one model, to be called with gradients off.

    It takes the modules' weights and calls no hook that was registered on them: for looking inside there are traces,
    which take the plain walk. Every source has equally many hypotheses: one at first, later as many as ``follow``
    said; and each has a position that the mask does not hide, or there would be nothing to weigh (``InputError``).
    """

    def __init__(
        self, model: Transformer, memory: Float[Tensor, "batch src d_model"], mask: Bool[Tensor, "batch 1 1 src"]
    ) -> None:
        self._batch, self.abreast, self._columns = len(memory), 1, _Columns(memory.device)
        self._embedding = model.tgt_embedding
        all_seen = bool(mask.all())
        if not all_seen and not bool(mask.any(dim=-1).all()):
            raise InputError(
                "memory_mask: hides all of a source, expected a position to look at in each, such as </s>."
            )
        # Added to the scores: -inf at padding.
        self._hidden = None if all_seen else torch.where(mask, 0.0, -math.inf)
        self._layers = [_Layer(layer, memory) for layer in model.decoder.layers if isinstance(layer, DecoderLayer)]
        self._final_norm = model.decoder.final_norm
        self._to_logits = model.output_projection.linear.forward

    @torch.no_grad()
    def __call__(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """The logits of what follows ``ids``, which stand at the next position: a source's hypotheses together."""
        lineage = self._columns.extended(self._batch, self.abreast)
        x = torch.embedding(self._embedding.tokens.weight, ids).mul_(self._embedding.scale)
        if self._embedding.positions is not None:
            x += self._embedding.positions(self._columns.position, self._columns.position + 1)
        for layer in self._layers:
            x = layer(x, self.abreast, self._columns, lineage, self._hidden)
        if self._final_norm is not None:
            x = _normed(self._final_norm, x)
        return self._to_logits(x)

    @property
    def looked(self) -> Float[Tensor, "rows heads src"]:
        """Where the last layer's cross-attention looked at the last step."""
        weights = self._layers[-1].cross.weights
        return weights.view(self._batch, -1, *weights.shape[1:]).transpose(1, 2).flatten(0, 1)

    def follow(self, parents: Int[Tensor, "batch new_abreast"]) -> None:
        """Hypothesis i of each source now continues what hypothesis ``parents[i]`` of it was."""
        self._columns.follow(parents)
        self.abreast = parents.shape[1]

    def exchange(self, rows: Int[Tensor, "batch"]) -> None:
        """Row i continues what row ``rows[i]``, a hypothesis of the same source, was; with one hypothesis a row."""
        order = _Order(rows, self._batch)
        for layer in self._layers:
            layer.own.reorder(order)

    def reorder(self, sources: Int[Tensor, "new_batch"]) -> None:
        """Source i becomes what source ``sources[i]`` was; they may be dropped or repeated."""
        order = _Order(sources, self._batch)
        self._batch = len(sources)
        self._columns.reorder(order)
        if self._hidden is not None:
            self._hidden = order.of(self._hidden)
        for layer in self._layers:
            layer.own.reorder(order)
            layer.cross.reorder(order)


class _Order:
    """New rows from old ones; where only places of dropped rows are filled, no other row is moved."""

    def __init__(self, rows: Int[Tensor, "new"], before: int) -> None:
        self._rows, self._moved = rows, None
        if len(rows) <= before:
            to = (rows != torch.arange(len(rows), device=rows.device)).nonzero().flatten()
            taken = rows.index_select(0, to)
            if bool((taken >= len(rows)).all()):
                self._moved = to, taken

    def of(self, values: Tensor, filled: int | None = None) -> Tensor:
        """``values`` in the new order, of which axis 2 is filled so far; they may be written over."""
        if self._moved is None:
            return values.index_select(0, self._rows)
        to, taken = self._moved
        if len(to):
            part = values if filled is None else values.narrow(2, 0, filled)
            part.index_copy_(0, to, part.index_select(0, taken))
        return values.narrow(0, 0, len(self._rows))


class _Columns:
    """The position of each key in the cache, and which keys each hypothesis descends from."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._counts: list[int] = []
        self.total = 0
        self._hidden: Tensor | None = None  # (batch abreast keys), 0 or -inf

    @property
    def position(self) -> int:
        """Of the last columns."""
        return len(self._counts) - 1

    def extended(self, batch: int, new: int) -> Float[Tensor, "batch 1 new keys"] | None:
        """Take ``new`` columns at the next position; what is added to the scores of the queries that stand there."""
        self._counts.append(new)
        self.total += new
        if self._hidden is None:
            return None
        own = torch.full((new, new), -math.inf, device=self._device).fill_diagonal_(0.0)
        self._hidden = torch.cat([self._hidden, own.expand(batch, -1, -1)], dim=2)
        return self._hidden[:, None]

    def follow(self, parents: Int[Tensor, "batch new_abreast"]) -> None:
        if self._hidden is None:
            if parents.shape[1] == 1:
                return
            self._hidden = torch.zeros(len(parents), 1, self.total, device=self._device)
        self._hidden = self._hidden.gather(1, parents[:, :, None].expand(-1, -1, self.total))

    def reorder(self, order: _Order) -> None:
        if self._hidden is not None:
            self._hidden = order.of(self._hidden)

    def distances(self) -> Int[Tensor, "keys"]:
        """From the position that now asks to each key."""
        counts = torch.tensor(self._counts, device=self._device)
        return torch.arange(1 - len(counts), 1, device=self._device).repeat_interleave(counts)


class _Layer:
    """One decoder layer with the keys and values of a batch."""

    def __init__(self, layer: DecoderLayer, memory: Float[Tensor, "batch src d_model"]) -> None:
        self.own = _SelfAttention(layer.self_attention, memory.dtype)
        self.cross = _CrossAttention(layer.cross_attention, memory)
        self._norms = layer.self_attention_add_norm, layer.cross_attention_add_norm, layer.feed_forward_add_norm
        self._w_1, self._w_2 = layer.feed_forward.w_1.forward, layer.feed_forward.w_2.forward
        self._activation = layer.feed_forward.activation

    def __call__(
        self, x: Rows, abreast: int, columns: _Columns, lineage: Tensor | None, hidden: Tensor | None
    ) -> Rows:
        first, second, third = self._norms
        x = _after(first, x, self.own(_before(first, x), abreast, columns, lineage))
        x = _after(second, x, self.cross(_before(second, x), abreast, hidden))
        return _after(third, x, self._w_2(self._activation(self._w_1(_before(third, x)))))


class _Attention:
    """What both attentions share: equation 1, where keys and values are (batch heads key d)."""

    def __init__(self, attention: MultiHeadAttention, dtype: torch.dtype) -> None:
        self._heads, self._d_k = attention.n_heads, attention.d_k
        # On the CPU, where it is a number to every device, and of one type with the scores, so that it is not cast.
        self._scale = torch.tensor(1 / math.sqrt(attention.d_k), dtype=dtype)
        self._w_o = attention.w_o.forward

    def _split(self, x: Float[Tensor, "rows heads_d"], abreast: int) -> Float[Tensor, "batch heads abreast d"]:
        return x.view(-1, abreast, self._heads, x.shape[1] // self._heads).transpose(1, 2)

    def _scores(self, q: Tensor, k: Tensor, hidden: Tensor | None) -> Float[Tensor, "batch_heads abreast key"]:
        scores = torch.bmm(q, k.transpose(1, 2)).mul_(self._scale)
        if hidden is not None:
            scores.view(-1, self._heads, *scores.shape[1:]).add_(hidden)
        return scores

    def _joined(self, heads: Float[Tensor, "batch_heads abreast d_v"]) -> Rows:
        _, abreast, d_v = heads.shape
        split = heads.view(-1, self._heads, abreast, d_v).transpose(1, 2)
        return self._w_o(split.reshape(-1, self._heads * d_v))


class _SelfAttention(_Attention):
    """Over the columns so far, whose buffers are doubled when full."""

    def __init__(self, attention: MultiHeadAttention, dtype: torch.dtype) -> None:
        super().__init__(attention, dtype)
        self._widths, self._stacked = attention.widths, attention.w_qkv
        self._parts = () if attention.w_qkv is not None else (attention.w_q, attention.w_k, attention.w_v)
        self._rotary, self._relative = attention.rotary, attention.relative
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._filled = 0

    def __call__(self, x: Rows, abreast: int, columns: _Columns, lineage: Tensor | None) -> Rows:
        q, k, v = (self._split(part, abreast) for part in self._project(x))
        if self._rotary is not None:
            q, k = _turned(self._rotary, columns.position, q, k)
        start, self._filled = self._filled, columns.total
        self._k, self._v = _written(self._k, k, start), _written(self._v, v, start)
        k, v = (part.flatten(0, 1).narrow(1, 0, self._filled) for part in (self._k, self._v))
        q = q.reshape(-1, abreast, self._d_k)
        scores = self._scores(q, k, lineage)
        if self._relative is not None:
            near = self._relative.entries(columns.distances())
            scores += (q @ self._relative.key_table[near].t()).mul_(self._scale)
        weights = scores.softmax(dim=-1)
        heads = weights @ v
        if self._relative is not None:
            heads += weights @ self._relative.value_table[near]
        return self._joined(heads)

    def _project(self, x: Rows) -> Sequence[Tensor]:
        """x W_Q, x W_K and x W_V: (rows heads_d) each."""
        if self._stacked is None:
            return [part.forward(x) for part in self._parts]
        return torch.split(self._stacked(x), self._widths, dim=-1)

    def reorder(self, order: _Order) -> None:
        if self._k is not None and self._v is not None:
            self._k, self._v = order.of(self._k, self._filled), order.of(self._v, self._filled)


def _turned(rotary: RotaryPositions, position: int, *parts: Tensor) -> Iterator[Tensor]:
    """Each (batch heads abreast d_k), whose columns all stand at ``position``."""
    return (rotary.at_once(part.flatten(0, 1)[:, :, None], position).squeeze(2).view(part.shape) for part in parts)


class _CrossAttention(_Attention):
    """Over the memory, which is projected once."""

    def __init__(self, attention: MultiHeadAttention, memory: Float[Tensor, "batch src d_model"]) -> None:
        super().__init__(attention, memory.dtype)
        self._w_q = attention.w_q.forward
        self._k, self._v = (
            split_heads(project(memory), self._heads).transpose(1, 2).contiguous()
            for project in (attention.w_k, attention.w_v)
        )
        self.weights = memory.new_empty(0)  # of the last step: (batch_heads abreast src)

    def __call__(self, x: Rows, abreast: int, hidden: Tensor | None) -> Rows:
        q = self._split(self._w_q(x), abreast).reshape(-1, abreast, self._d_k)
        self.weights = self._scores(q, self._k.flatten(0, 1), hidden).softmax(dim=-1)
        return self._joined(torch.bmm(self.weights, self._v.flatten(0, 1)))

    def reorder(self, order: _Order) -> None:
        self._k, self._v = order.of(self._k), order.of(self._v)


def _written(
    buffer: Float[Tensor, "batch heads room d"] | None, new: Float[Tensor, "batch heads columns d"], start: int
) -> Float[Tensor, "batch heads new_room d"]:
    """The buffer with new columns from ``start`` on, or a larger one."""
    stop = start + new.shape[2]
    if buffer is None or stop > buffer.shape[2]:
        grown = new.new_empty(*new.shape[:2], max(2 * stop, _LEAST_ROOM), new.shape[3])
        if buffer is not None:
            grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer.narrow(2, start, new.shape[2]).copy_(new)
    return buffer


def _normed(norm: LayerNorm, x: Rows) -> Rows:
    return torch.layer_norm(x, norm.gain.shape, norm.gain, norm.bias, norm.eps)


def _before(add_norm: AddAndNorm, x: Rows) -> Rows:
    return _normed(add_norm.norm, x) if add_norm.pre else x


def _after(add_norm: AddAndNorm, x: Rows, sublayer: Rows) -> Rows:
    """The residual connection; the sum takes the place of what the sublayer gave, unless autocast has narrowed it."""
    residual = sublayer.add_(x) if sublayer.dtype == x.dtype else x + sublayer
    return residual if add_norm.pre else _normed(add_norm.norm, residual)


_LEAST_ROOM = 16  # columns
