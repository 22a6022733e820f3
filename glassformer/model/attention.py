"""Attention: equation 1 and figure 2 of the paper, line for line.

How a batch is laid out enters by mask, positions and cache, which are arguments. Section 3.2.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from glassformer.model.cache import AttentionCache
from glassformer.model.masks import Mask
from glassformer.model.packing import PackedRows
from glassformer.model.positions import AlibiPositions, Positions, RelativePositions, RotaryPositions
from glassformer.settings import ModelConfig
from glassformer.trace import is_tracing, tap

Queries = Float[Tensor, "batch heads query d_k"]
Keys = Float[Tensor, "batch heads key d_k"]
Values = Float[Tensor, "batch heads key d_v"]


def split_heads(x: Float[Tensor, "batch position width"], n_heads: int) -> Float[Tensor, "batch position heads d"]:
    """Cut the last axis into ``n_heads`` pieces."""
    return x.view(*x.shape[:-1], n_heads, x.shape[-1] // n_heads)


def merge_heads(x: Float[Tensor, "batch position heads d"]) -> Float[Tensor, "batch position width"]:
    """Lay the heads side by side, the paper's Concat: the inverse of ``split_heads``."""
    return x.flatten(-2)


def mask_scores(scores: Float[Tensor, "batch heads query key"], mask: Mask) -> Float[Tensor, "batch heads query key"]:
    """-inf where a query may not attend, so that softmax gives 0; 0 where it may attend to nothing.

    A row of -inf alone has no softmax: it would be NaN, forward and backward.
    """
    if not mask.hides:
        return scores
    if not mask.has_empty_rows:
        return torch.where(mask.visible, scores, -math.inf)
    hidden = torch.where(mask.visible.any(dim=-1, keepdim=True), -math.inf, 0.0)
    return torch.where(mask.visible, scores, hidden.to(scores.dtype))


def softmax(scores: Float[Tensor, "batch heads query key"], mask: Mask) -> Float[Tensor, "batch heads query key"]:
    """Softmax over the keys; a query that may attend to none gets zeros."""
    weights = scores.softmax(dim=-1)
    if not mask.has_empty_rows:
        return weights
    return weights.masked_fill(~mask.visible.any(dim=-1, keepdim=True), 0.0)


def fused_attention(q: Queries, k: Keys, v: Values, mask: Mask) -> Float[Tensor, "batch heads query d_v"]:
    """Equation 1 in torch's own kernel, which keeps no weights; a query without keys gets zeros.

    Such a query is given every key and its result is dropped, since kernels differ in what they make of it.
    """
    if not mask.hides:
        return _attention_in_one(q, k, v)
    if not mask.has_empty_rows:
        return _attention_in_one(q, k, v, mask.visible)
    is_empty = ~mask.visible.any(dim=-1, keepdim=True)
    return _attention_in_one(q, k, v, mask.visible | is_empty).masked_fill(is_empty, 0.0)


def _attention_in_one(
    q: Queries, k: Keys, v: Values, visible: Bool[Tensor, "#batch #heads #query #key"] | None = None
) -> Float[Tensor, "batch heads query d_v"]:
    """On a GPU by the kernel that takes masks and is fast for sentences."""
    attention = nn.functional.scaled_dot_product_attention
    if q.device.type == "cpu":
        return attention(q, k, v, attn_mask=visible)
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        return attention(q, k, v, attn_mask=visible)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1 ... head_h) W_O, head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i).

    ``uses_positions`` gives self-attention its relative, rotary or ALiBi positions, when the configuration has them.
    ``fused`` and ``fused_in_traces`` are set by ``Transformer.use_fused_attention``.
    """

    fused = False
    fused_in_traces = False

    def __init__(self, config: ModelConfig, *, uses_positions: bool) -> None:
        super().__init__()
        self.n_heads, self.d_k, self.uses_positions = config.n_heads, config.d_k, uses_positions
        # On the CPU, where it is a number to every device. A Python number is made into a tensor at each use.
        self.sqrt_d_k = torch.tensor(math.sqrt(config.d_k), dtype=torch.float64, device="cpu")
        self.widths = [config.heads_d_k, config.heads_d_k, config.heads_d_v]
        self.w_qkv: nn.Module | None = None
        self.w_q = nn.Linear(config.d_model, config.heads_d_k, bias=config.attention_bias)
        self.w_k = nn.Linear(config.d_model, config.heads_d_k, bias=config.attention_bias)
        self.w_v = nn.Linear(config.d_model, config.heads_d_v, bias=config.attention_bias)
        self.w_o = nn.Linear(config.heads_d_v, config.d_model, bias=config.attention_bias)
        self.relative = RelativePositions(config) if uses_positions and config.positions == "relative" else None
        self.rotary = RotaryPositions(config) if uses_positions and config.positions == "rotary" else None
        self.alibi = AlibiPositions(config) if uses_positions and config.positions == "alibi" else None

    def forward(
        self,
        query: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch memory d_model"],
        mask: Mask,
        positions: Positions | None = None,
        cache: AttentionCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Let each query position gather from the positions of ``memory`` that ``mask`` allows (True = may attend).

        In self-attention ``memory`` is ``query``, and ``positions`` says where queries and keys stand, for relative
        and rotary positions. With a cache, the keys and values of earlier calls take part. A mask with a packing
        tells that ``query`` and ``memory`` are packed rows.
        """
        query_rows, key_rows = mask.packing or (None, None)
        # x W_Q, x W_K and x W_V from one product, where ``for_inference`` has laid the three side by side.
        stacked = None if self.w_qkv is None else self.w_qkv(query).split_with_sizes(self.widths, -1)
        x_q, x_k, x_v = stacked or (None, None, None)
        q = self._queries(query, x_q, query_rows, positions)
        if cache is None:
            k, v = self._keys(memory, x_k, key_rows, positions), self._values(memory, x_v, key_rows)
        else:
            if not cache.complete:
                cache.append(self._keys(memory, x_k, None, positions), self._values(memory, x_v, None))
            k = tap(self, "k_cached", cache.k, "batch heads key d_k")
            v = tap(self, "v_cached", cache.v, "batch heads key d_v")
        heads = fused_attention(q, k, v, mask) if self._is_fused() else self.attend(q, k, v, mask, positions)
        heads = tap(self, "heads", heads, "batch heads query d_v")
        return self._join(heads, query_rows)

    def attend(
        self, q: Queries, k: Keys, v: Values, mask: Mask, positions: Positions | None = None
    ) -> Float[Tensor, "batch heads query d_v"]:
        """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, equation 1."""
        products = q @ k.transpose(-2, -1)
        products = tap(self, "products", products, "batch heads query key")
        if self.relative is not None:
            assert positions is not None, "relative positions: say where queries and keys stand"
            products = products + self.relative.products(q, positions)
        biases = None if self.alibi is None or positions is None else self.alibi(positions)
        scores = products / self.sqrt_d_k
        if biases is not None:
            scores = scores + biases
        scores = tap(self, "scores", scores, "batch heads query key")
        scores = mask_scores(scores, mask)
        scores = tap(self, "masked_scores", scores, "batch heads query key")
        weights = softmax(scores, mask)
        weights = tap(self, "weights", weights, "batch heads query key")
        heads = weights @ v
        if self.relative is not None and positions is not None:
            heads = tap(self, "weighted_values", heads, "batch heads query d_v")
            heads = heads + self.relative.heads(weights, positions)
        return heads

    def _queries(
        self, query: Tensor, projected: Tensor | None, rows: PackedRows | None, positions: Positions | None
    ) -> Queries:
        """query W_Q, cut into heads."""
        q = self.w_q(query) if projected is None else projected
        q = tap(self, "q_projected", q, "batch query heads_d_k")
        q = split_heads(q, self.n_heads)
        q = tap(self, "q_split", q, "batch query heads d_k")
        q = _heads_first(q, rows)
        q = tap(self, "q", q, "batch heads query d_k")
        if self.rotary is not None:
            assert positions is not None, "rotary positions: say where queries and keys stand"
            q = self.rotary(q, positions.queries)
            q = tap(self, "q_rotated", q, "batch heads query d_k")
        return q

    def _keys(
        self, memory: Tensor, projected: Tensor | None, rows: PackedRows | None, positions: Positions | None
    ) -> Keys:
        """memory W_K, cut into heads. In self-attention new keys stand where the queries stand."""
        k = self.w_k(memory) if projected is None else projected
        k = tap(self, "k_projected", k, "batch key heads_d_k")
        k = split_heads(k, self.n_heads)
        k = tap(self, "k_split", k, "batch key heads d_k")
        k = _heads_first(k, rows)
        k = tap(self, "k", k, "batch heads key d_k")
        if self.rotary is not None and positions is not None:
            k = self.rotary(k, positions.queries)
            k = tap(self, "k_rotated", k, "batch heads key d_k")
        return k

    def _values(self, memory: Tensor, projected: Tensor | None, rows: PackedRows | None) -> Values:
        """memory W_V, cut into heads."""
        v = self.w_v(memory) if projected is None else projected
        v = tap(self, "v_projected", v, "batch key heads_d_v")
        v = split_heads(v, self.n_heads)
        v = tap(self, "v_split", v, "batch key heads d_v")
        v = _heads_first(v, rows)
        return tap(self, "v", v, "batch heads key d_v")

    def _join(self, heads: Tensor, rows: PackedRows | None) -> Float[Tensor, "batch query d_model"]:
        """Concat(head_1 ... head_h) W_O."""
        split = heads.transpose(1, 2) if rows is None else rows.pack_heads(heads)
        split = tap(self, "heads_by_position", split, "batch query heads d_v")
        merged = merge_heads(split)
        merged = tap(self, "heads_merged", merged, "batch query heads_d_v")
        output = self.w_o(merged)
        return tap(self, "output", output, "batch query d_model")

    def _is_fused(self) -> bool:
        """Whether ``fused_attention`` stands in: not while a trace records, unless that is wanted.

        It has no relative or ALiBi positions, and passes no scores and weights.
        """
        if not self.fused or self.relative is not None or self.alibi is not None:
            return False
        return self.fused_in_traces or not is_tracing()


def _heads_first(x: Float[Tensor, "batch position heads d"], rows: PackedRows | None) -> Tensor:
    """Heads before positions; packed rows become a padded batch."""
    return x.transpose(1, 2) if rows is None else rows.pad_heads(x)
