"""The equations of attention, from recorded steps and weights alone. Section 3.2; Shaw et al.; Su et al."""

import math

import torch
from torch import Tensor
from torch.nn.functional import linear

from glassformer.explain.equations.entry import Equation
from glassformer.explain.equations.scope import Scope
from glassformer.explain.equations.stream import sublayer_input
from glassformer.model.attention import split_heads


def _projected(name: str) -> Equation:
    def equation(scope: Scope) -> Tensor:
        """X W + b, where X is the sublayer's input; the keys and values of cross-attention take the memory."""
        layer, _, sublayer = scope.module.rpartition(".")
        from_memory = sublayer == "cross_attention" and name != "q"
        x = scope.moved("encoder.memory") if from_memory else scope.at(sublayer_input(scope, layer, sublayer))
        return linear(x, scope.weight(f"w_{name}.weight"), scope.bias(f"w_{name}"))

    return equation


def _split(name: str) -> Equation:
    return lambda scope: split_heads(scope.here(f"{name}_projected"), scope.config.n_heads)


def _heads_first(name: str) -> Equation:
    return lambda scope: scope.here(f"{name}_split").transpose(1, 2)


def _rotated(name: str) -> Equation:
    def equation(scope: Scope) -> Tensor:
        """Each pair (2i, 2i + 1) turned by position · frequency i."""
        x = scope.here(name)
        start = _start(scope)
        cos = scope.weight("rotary.cos")[start : start + x.shape[2]]
        sin = scope.weight("rotary.sin")[start : start + x.shape[2]]
        if cos.dtype in (torch.float32, torch.float64):
            x = x.to(torch.promote_types(x.dtype, cos.dtype))
            pairs = torch.view_as_complex(x.contiguous().view(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    return equation


def _start(scope: Scope) -> int:
    """The position of the first new key: behind those in the cache."""
    cached = f"{scope.module}.k_cached"
    growing = scope.setting.decode.cache and scope.has("search.tgt_in_ids") and scope.module.startswith("decoder")
    return int(scope.at(cached).shape[2]) if growing and scope.has(cached) else 0


def _cached(name: str) -> Equation:
    def equation(scope: Scope) -> Tensor:
        """Keys and values of the steps before, in the rows that the search kept, and the new ones behind them."""
        rotated = f"{name}_rotated" if scope.has_here(f"{name}_rotated") else name
        new = scope.here(rotated) if scope.has_here(rotated) else None
        parts = [part for part in (scope.previous(), new) if part is not None]
        return torch.cat(parts, dim=2)

    return equation


def _latest(scope: Scope, name: str) -> Tensor:
    """Queries, keys or values as the products take them: from the cache, else rotated, else as they are."""
    for variant in (f"{name}_cached", f"{name}_rotated"):
        if scope.has_here(variant) or (name != "q" and scope.has(f"{scope.module}.{variant}")):
            return scope.here(variant)
    return scope.here(name)


def _mask(scope: Scope) -> Tensor:
    if scope.module.startswith("encoder"):
        return scope.at("src_mask")
    return scope.moved("src_mask") if scope.module.endswith("cross_attention") else scope.at("causal_mask")


def _products(scope: Scope) -> Tensor:
    return _latest(scope, "q") @ _latest(scope, "k").transpose(-2, -1)


def _scores(scope: Scope) -> Tensor:
    products = scope.here("products")
    if scope.has_here("relative.relative_products"):
        products = products + scope.here("relative.relative_products")
    return products / math.sqrt(scope.config.d_k)


def _masked_scores(scope: Scope) -> Tensor:
    mask, scores = _mask(scope), scope.here("scores")
    hidden = torch.where(mask.any(dim=-1, keepdim=True), -math.inf, 0.0)
    return torch.where(mask, scores, hidden.to(scores.dtype))


def _weights(scope: Scope) -> Tensor:
    return scope.here("masked_scores").softmax(dim=-1).masked_fill(~_mask(scope).any(dim=-1, keepdim=True), 0.0)


def _weighted_values(scope: Scope) -> Tensor:
    return scope.here("weights") @ _latest(scope, "v")


def _heads(scope: Scope) -> Tensor:
    if scope.has_here("relative.relative_heads"):
        return scope.here("weighted_values") + scope.here("relative.relative_heads")
    return _weighted_values(scope)


def _distance_vectors(table: str) -> Equation:
    def equation(scope: Scope) -> Tensor:
        """The table's row for each clipped distance from query to key; the last query stands at the last key."""
        attention, clip = scope.module.removesuffix(".relative"), scope.config.relative_clip
        n_queries, n_keys = scope.at(f"{attention}.products").shape[2:]
        keys = torch.arange(n_keys, device=scope.step.value.device)
        distances = (keys[None, :] - keys[n_keys - n_queries :][:, None]).clamp(-clip, clip) + clip
        return scope.weight(table)[distances]

    return equation


def _relative_products(scope: Scope) -> Tensor:
    q = scope.at(f"{scope.module.removesuffix('.relative')}.q")
    return torch.einsum("bhqd,qkd->bhqk", q, scope.here("relative_keys"))


def _relative_heads(scope: Scope) -> Tensor:
    weights = scope.at(f"{scope.module.removesuffix('.relative')}.weights")
    return torch.einsum("bhqk,qkd->bhqd", weights, scope.here("relative_values"))


_ALL: dict[str, Equation] = {
    **{f"{name}_projected": _projected(name) for name in "qkv"},
    **{f"{name}_split": _split(name) for name in "qkv"},
    **{name: _heads_first(name) for name in "qkv"},
    **{f"{name}_cached": _cached(name) for name in "kv"},
    **{f"{name}_rotated": _rotated(name) for name in "qk"},
    "products": _products,
    "scores": _scores,
    "masked_scores": _masked_scores,
    "weights": _weights,
    "weighted_values": _weighted_values,
    "heads": _heads,
    "heads_by_position": lambda scope: scope.here("heads").transpose(1, 2),
    "heads_merged": lambda scope: scope.here("heads_by_position").flatten(-2),
    "output": lambda scope: linear(scope.here("heads_merged"), scope.weight("w_o.weight"), scope.bias("w_o")),
}

ATTENTION: dict[str, dict[str, Equation]] = {
    **dict.fromkeys(("encoder_self_attention", "decoder_self_attention", "cross_attention"), _ALL),
    "relative": {
        "relative_keys": _distance_vectors("key_table"),
        "relative_products": _relative_products,
        "relative_values": _distance_vectors("value_table"),
        "relative_heads": _relative_heads,
    },
}
