"""Attention: equation 1 and figure 2 of the paper, line for line.

Knows nothing of layers, of padding or of time: masks, memory and cache are arguments. Section 3.2.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.model.cache import AttentionCache
from glassformer.model.packing import Packed, Rows
from glassformer.model.positions import RelativePositions, RotaryPositions
from glassformer.trace import is_tracing, tap

Queries = Float[Tensor, "batch heads query d_k"]
Keys = Float[Tensor, "batch heads key d_k"]
Values = Float[Tensor, "batch heads key d_v"]
Mask = Bool[Tensor, "#batch 1 #query #key"] | None  # None hides nothing
_PROJECTIONS = {"q": ("query", "d_k"), "k": ("key", "d_k"), "v": ("key", "d_v")}


def split_heads(x: Float[Tensor, "batch position width"], n_heads: int) -> Float[Tensor, "batch position heads d"]:
    """Cut the last axis into ``n_heads`` pieces: (batch position heads·d) to (batch position heads d)."""
    return x.view(*x.shape[:-1], n_heads, x.shape[-1] // n_heads)


def merge_heads(x: Float[Tensor, "batch position heads d"]) -> Float[Tensor, "batch position width"]:
    """Lay the heads side by side again, the paper's Concat: the inverse of ``split_heads``."""
    return x.flatten(-2)


def masked(scores: Float[Tensor, "batch heads query key"], mask: Mask) -> Float[Tensor, "batch heads query key"]:
    """-inf where a query may not attend, so that softmax gives 0 there; 0 where it may attend to nothing at all.

    A row of -inf alone has no softmax: it would turn into NaN, forward and backward.
    """
    if mask is None:
        return scores
    may_attend_to_any = mask.any(dim=-1, keepdim=True)
    hidden = torch.where(may_attend_to_any, -math.inf, 0.0)
    return torch.where(mask, scores, hidden.to(scores.dtype))


def softmax(scores: Float[Tensor, "batch heads query key"], mask: Mask) -> Float[Tensor, "batch heads query key"]:
    """Softmax over the keys; a query that may attend to none gets zeros."""
    weights = scores.softmax(dim=-1)
    return weights if mask is None else weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def fused_attention(q: Queries, k: Keys, v: Values, mask: Mask) -> Float[Tensor, "batch heads query d_v"]:
    """Equation 1 in one kernel of torch's own, which keeps no weights; a query that may attend to none gets zeros.

    Such a query is given every key and its result is dropped, since kernels differ in what they make of it.
    """
    if mask is None:
        return nn.functional.scaled_dot_product_attention(q, k, v)
    may_attend_to_any = mask.any(dim=-1, keepdim=True)
    heads = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask | ~may_attend_to_any)
    return heads.masked_fill(~may_attend_to_any, 0.0)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1 ... head_h) W_O, head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i).

    ``knows_order`` gives self-attention its relative or rotary positions, when the configuration has them.
    ``fused`` and ``fused_in_traces`` are set by ``Transformer.use_fused_attention``.
    """

    fused = False
    fused_in_traces = False

    def __init__(self, config: ModelConfig, *, knows_order: bool) -> None:
        super().__init__()
        self.n_heads, self.d_k, self.knows_order = config.n_heads, config.d_k, knows_order
        self.widths = [config.heads_d_k, config.heads_d_k, config.heads_d_v]
        self.w_qkv: nn.Module | None = None
        self.w_q = nn.Linear(config.d_model, config.heads_d_k, bias=config.attention_bias)
        self.w_k = nn.Linear(config.d_model, config.heads_d_k, bias=config.attention_bias)
        self.w_v = nn.Linear(config.d_model, config.heads_d_v, bias=config.attention_bias)
        self.w_o = nn.Linear(config.heads_d_v, config.d_model, bias=config.attention_bias)
        self.relative = RelativePositions(config) if knows_order and config.positions == "relative" else None
        self.rotary = RotaryPositions(config) if knows_order and config.positions == "rotary" else None

    def forward(
        self,
        query: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch memory d_model"],
        mask: Mask | Packed,
        cache: AttentionCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Let each query position gather from the positions of ``memory`` that ``mask`` allows (True = may attend).

        In self-attention ``memory`` is ``query``. With a cache, the keys and values of earlier calls take part.
        """
        if isinstance(mask, Packed):
            return self._attend_packed(query, memory, mask)
        start = cache.length if cache is not None else 0
        stacked = self._stacked(query)
        q = self._project("q", query, stacked)
        if self.rotary is not None:
            q = self.rotary(q, start)
            q = tap(self, "q_rotated", q, "batch heads query d_k")
        k, v = self._keys_and_values(memory, start, cache, stacked)
        heads = fused_attention(q, k, v, mask) if self._takes_one_kernel() else self.attend(q, k, v, mask)
        heads = tap(self, "heads", heads, "batch heads query d_v")
        return self._join(heads)

    def attend(self, q: Queries, k: Keys, v: Values, mask: Mask) -> Float[Tensor, "batch heads query d_v"]:
        """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, equation 1."""
        products = q @ k.transpose(-2, -1)
        products = tap(self, "products", products, "batch heads query key")
        if self.relative is not None:
            products = products + self.relative.products(q, k.shape[2])
        scores = products / math.sqrt(self.d_k)
        scores = tap(self, "scores", scores, "batch heads query key")
        scores = masked(scores, mask)
        scores = tap(self, "masked_scores", scores, "batch heads query key")
        weights = softmax(scores, mask)
        weights = tap(self, "weights", weights, "batch heads query key")
        heads = weights @ v
        if self.relative is not None:
            heads = tap(self, "weighted_values", heads, "batch heads query d_v")
            heads = heads + self.relative.heads(weights)
        return heads

    def _attend_packed(self, query: Tensor, memory: Tensor, packed: Packed) -> Float[Tensor, "one row d_model"]:
        """The same for rows without padding, with one product for all that is projected from the same rows."""
        if query is memory:
            q, k, v = self._heads_of_rows("qkv", query, packed.queries)
        else:
            (q,) = self._heads_of_rows("q", query, packed.queries)
            k, v = self._heads_of_rows("kv", memory, packed.keys)
        if self.rotary is not None:
            q, k = self.rotary.at_once(q, 0), self.rotary.at_once(k, 0)
        attend = fused_attention if self._takes_one_kernel() else self.attend
        merged = packed.queries.joined(attend(q, k, v, packed.mask))
        return self.w_o(merged)  # type: ignore[no-any-return]  # nn.Module.__call__ is untyped

    def _heads_of_rows(self, names: str, x: Tensor, rows: Rows) -> Sequence[Tensor]:
        """The projections of ``x`` that are named, cut into heads, in the padded form."""
        linears = [getattr(self, f"w_{name}") for name in names]
        weight = torch.cat([linear.weight for linear in linears])
        bias = torch.cat([linear.bias for linear in linears]) if linears[0].bias is not None else None
        product = nn.functional.linear(x, weight, bias)
        if self.widths[0] == self.widths[2]:
            return rows.heads(product, self.n_heads, len(names)).unbind()
        parts = torch.split(product, [len(linear.weight) for linear in linears], dim=-1)
        return [rows.heads(part, self.n_heads)[0] for part in parts]

    def _takes_one_kernel(self) -> bool:
        """Whether ``fused_attention`` stands in: not while a trace records, unless that is wanted.

        It knows nothing of relative positions, and passes no products, scores, masked scores and weights.
        """
        if not self.fused or self.relative is not None:
            return False
        return torch.compiler.is_compiling() or self.fused_in_traces or not is_tracing()

    def _keys_and_values(
        self, memory: Tensor, start: int, cache: AttentionCache | None, stacked: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Project the memory, or take what the cache holds of it."""
        if cache is None or not cache.complete:
            k = self._project("k", memory, stacked)
            if self.rotary is not None:
                k = self.rotary(k, start)
                k = tap(self, "k_rotated", k, "batch heads key d_k")
            v = self._project("v", memory, stacked)
            if cache is None:
                return k, v
            cache.append(k, v)
        k = tap(self, "k_cached", cache.k, "batch heads key d_k")
        v = tap(self, "v_cached", cache.v, "batch heads key d_v")
        return k, v

    def _stacked(self, x: Tensor) -> dict[str, Tensor]:
        """x W_Q, x W_K and x W_V from one product, where ``prepared`` has laid the three side by side."""
        if self.w_qkv is None:
            return {}
        return dict(zip(_PROJECTIONS, self.w_qkv(x).split(self.widths, dim=-1), strict=True))

    def _project(self, name: str, x: Tensor, stacked: dict[str, Tensor]) -> Tensor:
        """x W, cut into heads, heads before positions so that each head multiplies its own matrices."""
        axis, width = _PROJECTIONS[name]
        projected = stacked[name] if stacked else getattr(self, f"w_{name}")(x)
        projected = tap(self, f"{name}_projected", projected, f"batch {axis} heads_{width}")
        split = split_heads(projected, self.n_heads)
        split = tap(self, f"{name}_split", split, f"batch {axis} heads {width}")
        heads = split.transpose(1, 2)
        return tap(self, name, heads, f"batch heads {axis} {width}")

    def _join(self, heads: Float[Tensor, "batch heads query d_v"]) -> Float[Tensor, "batch query d_model"]:
        """Concat(head_1 ... head_h) W_O."""
        split = heads.transpose(1, 2)
        split = tap(self, "heads_by_position", split, "batch query heads d_v")
        merged = merge_heads(split)
        merged = tap(self, "heads_merged", merged, "batch query heads_d_v")
        output = self.w_o(merged)
        return tap(self, "output", output, "batch query d_model")
