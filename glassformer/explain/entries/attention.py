"""The taps of attention: self-attention of the encoder and of the decoder, and cross-attention. Section 3.2.

In the equations X is the sublayer's input and M the encoder's memory.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import linear

from glassformer.explain.entries.entry import Compute, Entries, TapEntry, Variant, add, entry
from glassformer.explain.entries.scope import Scope, sublayer_input

_NOT_IN_PAPER = "not in the paper"
_SPLIT = "The row of all heads is cut into h pieces, one for each head; no number changes."
_HEADS_FIRST = "The axis of heads moves in front of the positions, so that each head multiplies its own matrices."


def _project(name: str) -> Compute:
    def equation(scope: Scope) -> Tensor:
        """X W + b, where X is the sublayer's input; keys and values of cross-attention come from the memory."""
        layer, _, sublayer = scope.module.rpartition(".")
        from_memory = sublayer == "cross_attention" and name != "q"
        x = scope.at_rows("encoder.memory") if from_memory else scope.at(sublayer_input(scope, layer, sublayer))
        return linear(x, scope.weight(f"w_{name}.weight"), scope.bias(f"w_{name}"))

    return equation


def _split(name: str) -> Compute:
    def equation(scope: Scope) -> Tensor:
        row = scope.here(f"{name}_projected")
        return row.reshape(*row.shape[:-1], scope.config.n_heads, -1)

    return equation


def _heads_first(name: str) -> Compute:
    return lambda scope: scope.here(f"{name}_split").transpose(1, 2)


def _append(name: str) -> Compute:
    def equation(scope: Scope) -> Tensor:
        """Keys and values of the steps before, in the rows that the search kept, and then the new ones."""
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
    return scope.at_rows("src_mask") if scope.module.endswith("cross_attention") else scope.at("causal_mask")


def _masked_scores(scope: Scope) -> Tensor:
    mask, scores = _mask(scope), scope.here("scores")
    hidden = torch.where(mask.any(dim=-1, keepdim=True), -math.inf, 0.0)
    return torch.where(mask, scores, hidden.to(scores.dtype))


def _weighted_values(scope: Scope) -> Tensor:
    return scope.here("weights") @ _latest(scope, "v")


def _with_bias(equation: str) -> tuple[Variant, ...]:
    return (Variant("attention_bias", True, equation),)


_PARTS: Entries = {}

add(
    _PARTS,
    "shared.q_projected",
    "Queries of all heads",
    "Each position computes one query for each of the h heads, side by side in one row.",
    "Q = X W_Q",
    "3.2.2",
    compute=_project("q"),
    variants=_with_bias("Q = X W_Q + b_Q"),
)

add(_PARTS, "shared.q_split", "Queries cut into heads", _SPLIT, "Q → Q₁ … Q_h", "3.2.2", compute=_split("q"))

add(_PARTS, "shared.q", "Queries of each head", _HEADS_FIRST, "Q_i, heads first", "3.2.2", compute=_heads_first("q"))

add(
    _PARTS,
    "shared.k_projected",
    "Keys of all heads",
    "Each position computes one key for each head, with which the queries are compared.",
    "K = X W_K",
    "3.2.2",
    compute=_project("k"),
    variants=_with_bias("K = X W_K + b_K"),
)

add(_PARTS, "shared.k_split", "Keys cut into heads", _SPLIT, "K → K₁ … K_h", "3.2.2", compute=_split("k"))

add(_PARTS, "shared.k", "Keys of each head", _HEADS_FIRST, "K_i, heads first", "3.2.2", compute=_heads_first("k"))

add(
    _PARTS,
    "shared.v_projected",
    "Values of all heads",
    "What each position passes on to the positions that attend to it.",
    "V = X W_V",
    "3.2.2",
    compute=_project("v"),
    variants=_with_bias("V = X W_V + b_V"),
)

add(_PARTS, "shared.v_split", "Values cut into heads", _SPLIT, "V → V₁ … V_h", "3.2.2", compute=_split("v"))

add(_PARTS, "shared.v", "Values of each head", _HEADS_FIRST, "V_i, heads first", "3.2.2", compute=_heads_first("v"))


@entry(_PARTS, "shared.products", "Query times key", "Q Kᵀ", "3.2.1")
def _products(scope: Scope) -> Tensor:
    """One number for each query and key: how well the two vectors agree."""
    return _latest(scope, "q") @ _latest(scope, "k").transpose(-2, -1)


@entry(_PARTS, "shared.scores", "Scaled scores", "scores = Q Kᵀ / √d_k", "3.2.1")
def _scores(scope: Scope) -> Tensor:
    """A sum of d_k products grows with √d_k; dividing by it keeps the softmax where its gradient is not tiny."""
    products = scope.here("products")
    if scope.has_here("relative.relative_products"):
        products = products + scope.here("relative.relative_products")
    scores = products / math.sqrt(scope.config.d_k)
    return scores + scope.here("alibi.biases") if scope.has_here("alibi.biases") else scores


@entry(_PARTS, "shared.weights", "Attention weights", "A = softmax(scores)", "3.2.1")
def _weights(scope: Scope) -> Tensor:
    """For each query, weights over the keys that sum to one."""
    return scope.here("masked_scores").softmax(dim=-1).masked_fill(~_mask(scope).any(dim=-1, keepdim=True), 0.0)


@entry(_PARTS, "shared.heads", "Output of each head", "head_i = A_i V_i", "3.2.1")
def _heads(scope: Scope) -> Tensor:
    """The mean of the values, weighted by the attention weights."""
    if scope.has_here("relative.relative_heads"):
        return scope.here("weighted_values") + scope.here("relative.relative_heads")
    return _weighted_values(scope)


@entry(_PARTS, "shared.heads_by_position", "Heads of each position", "head_i per position", "3.2.2")
def _heads_by_position(scope: Scope) -> Tensor:
    """The axis of positions moves back in front of the heads."""
    return scope.here("heads").transpose(1, 2)


@entry(_PARTS, "shared.heads_merged", "Heads side by side", "Concat(head₁ … head_h)", "3.2.2")
def _heads_merged(scope: Scope) -> Tensor:
    """The h outputs of a position become one row again, and are not mixed yet."""
    return scope.here("heads_by_position").flatten(-2)


@entry(
    _PARTS,
    "shared.output",
    "Attention's output",
    "Concat(head₁ … head_h) W_O",
    "3.2.2",
    variants=_with_bias("Concat(head₁ … head_h) W_O + b_O"),
)
def _output(scope: Scope) -> Tensor:
    """W_O mixes the outputs of the heads into one vector."""
    return linear(scope.here("heads_merged"), scope.weight("w_o.weight"), scope.bias("w_o"))


_SHARED = _PARTS["shared"]

_MASKED = TapEntry(
    "Scores without padding",
    "A key that is padding gets −∞, which the softmax turns into a weight of zero.",
    "−∞ where src_mask is 0",
    "3.2.3",
    compute=_masked_scores,
)

_SELF: dict[str, TapEntry] = {
    **_SHARED,
    "products": replace(_SHARED["products"], variants=(Variant("positions", "rotary", "Q′ K′ᵀ"),)),
    "scores": replace(
        _SHARED["scores"],
        variants=(
            Variant("positions", "rotary", "scores = Q′ K′ᵀ / √d_k"),
            Variant("positions", "relative", "(Q Kᵀ + S_rel) / √d_k"),
            Variant("positions", "alibi", "scores = Q Kᵀ / √d_k + B"),
        ),
    ),
    "weighted_values": TapEntry(
        "Weighted values",
        "The mean of the values, weighted by the attention weights, before the vectors of the distances are added.",
        "A_i V_i",
        "3.2.1",
        compute=_weighted_values,
    ),
    "heads": replace(
        _SHARED["heads"],
        variants=(
            Variant(
                "positions",
                "relative",
                "head_i = A_i V_i + A_i · a_V",
                "The mean of the values and of the distances' vectors, weighted by the attention weights.",
            ),
        ),
    ),
}

_DECODER_SELF: dict[str, TapEntry] = {
    **_SELF,
    "masked_scores": replace(
        _MASKED,
        title="Scores without the future",
        sentence="A key after the query gets −∞, so no position sees the token that it is to predict. Padding comes "
        "last, so this hides it as well.",
        equation="−∞ where key > query",
    ),
    "k_cached": TapEntry(
        "Keys so far",
        "The keys of earlier decoding steps, then the new ones; none is computed twice.",
        "K = [K_past; K_new]",
        _NOT_IN_PAPER,
        compute=_append("k"),
    ),
    "v_cached": TapEntry(
        "Values so far",
        "The values of earlier decoding steps, then the new ones; none is computed twice.",
        "V = [V_past; V_new]",
        _NOT_IN_PAPER,
        compute=_append("v"),
    ),
}

_CROSS: dict[str, TapEntry] = {
    **_SHARED,
    "q_projected": replace(
        _SHARED["q_projected"],
        title="The target's queries",
        sentence="Each target position computes one query for each head.",
        section="3.2.3",
    ),
    "k_projected": replace(
        _SHARED["k_projected"],
        title="The source's keys",
        sentence="Each source position of the encoder's memory computes one key for each head.",
        equation="K = M W_K",
        section="3.2.3",
        variants=_with_bias("K = M W_K + b_K"),
    ),
    "k": replace(_SHARED["k"], title="The source's keys of each head"),
    "v_projected": replace(
        _SHARED["v_projected"],
        title="The source's values",
        sentence="What each source position passes on to the target.",
        equation="V = M W_V",
        section="3.2.3",
        variants=_with_bias("V = M W_V + b_V"),
    ),
    "v": replace(_SHARED["v"], title="The source's values of each head"),
    "k_cached": TapEntry(
        "The source's keys, kept",
        "The memory does not change while the target grows, so its keys are computed once.",
        "K of the first step",
        _NOT_IN_PAPER,
        compute=_append("k"),
    ),
    "v_cached": TapEntry(
        "The source's values, kept",
        "The memory does not change while the target grows, so its values are computed once.",
        "V of the first step",
        _NOT_IN_PAPER,
        compute=_append("v"),
    ),
    "products": replace(
        _SHARED["products"],
        title="Target times source",
        sentence="One number for each target and source position: how well query and key agree.",
    ),
    "masked_scores": replace(
        _MASKED,
        title="Scores without source padding",
        sentence="A source position that is padding gets −∞; every target position sees every source token.",
    ),
    "weights": replace(
        _SHARED["weights"],
        title="Where the target looks",
        sentence="For each target position, weights over the source tokens that sum to one.",
    ),
    "heads": replace(
        _SHARED["heads"],
        title="What each head takes from the source",
        sentence="The mean of the source's values, weighted by the attention weights.",
    ),
}

ATTENTION: Entries = {
    "encoder_self_attention": {**_SELF, "masked_scores": _MASKED},
    "decoder_self_attention": _DECODER_SELF,
    "cross_attention": _CROSS,
}
