"""The taps of attention, section 3.2. X is the sublayer's input, M the memory."""

import math

import torch
from torch import Tensor

from glassformer.explain.entries.derivatives import linear, softmax
from glassformer.explain.entries.entry import ENTRIES, NOT_IN_PAPER, add, change, entry, vary
from glassformer.explain.entries.scope import Scope, sublayer_input

_SELF = "encoder_self_attention|decoder_self_attention"
_ALL = f"{_SELF}|cross_attention"
_SPLIT = "The row of all heads is cut into h pieces, one for each head; no number changes."
_HEADS_FIRST = "The axis of heads moves in front of the positions, so that each head multiplies its own matrices."


def _project(scope: Scope) -> Tensor:
    """X W + b; keys and values of cross-attention come from the memory."""
    layer, _, sublayer = scope.module.rpartition(".")
    name = scope.step.name.removesuffix("_projected")
    from_memory = sublayer == "cross_attention" and name != "q"
    x = scope.at_rows("encoder.memory") if from_memory else scope.at(sublayer_input(scope, layer, sublayer))
    return linear(x, scope.weight(f"w_{name}.weight"), scope.bias(f"w_{name}"))


def _split(scope: Scope) -> Tensor:
    row = scope.here(scope.step.name.replace("_split", "_projected"))
    return row.reshape(*row.shape[:-1], scope.config.n_heads, -1)


def _heads_first(scope: Scope) -> Tensor:
    return scope.here(f"{scope.step.name}_split").transpose(1, 2)


def _append(scope: Scope) -> Tensor:
    """Keys and values of earlier steps, in the rows that the search kept, then the new ones."""
    name = scope.step.name.removesuffix("_cached")
    rotated = f"{name}_rotated" if scope.has_here(f"{name}_rotated") else name
    parts = [scope.at_rows(scope.step.address)] if scope.has(scope.step.address) else []
    if scope.has_here(rotated):
        parts.append(scope.here(rotated))
    return torch.cat(parts, dim=2)


def _latest(scope: Scope, name: str) -> Tensor:
    """Queries, keys or values from the cache, else rotated, else as they are."""
    for variant in (f"{name}_cached", f"{name}_rotated"):
        if scope.has_here(variant) or (name != "q" and scope.has(f"{scope.module}.{variant}")):
            return scope.here(variant)
    return scope.here(name)


def _mask(scope: Scope) -> Tensor:
    if scope.module.startswith("encoder"):
        return scope.at("src_mask")
    return scope.at_rows("src_mask") if scope.module.endswith("cross_attention") else scope.at("causal_mask")


for _name, _what, _sentence in (
    ("q", "Queries", "Each position computes one query for each of the h heads, side by side in one row."),
    ("k", "Keys", "Each position computes one key for each head, with which the queries are compared."),
    ("v", "Values", "What each position passes on to the positions that attend to it."),
):
    _letter = _name.upper()
    _equation = f"{_letter} = X W_{_letter}"
    add(f"{_ALL}.{_name}_projected", f"{_what} of all heads", _sentence, _equation, "3.2.2", compute=_project)
    _pieces = f"{_letter} → {_letter}₁ … {_letter}_h"
    add(f"{_ALL}.{_name}_split", f"{_what} cut into heads", _SPLIT, _pieces, "3.2.2", compute=_split)
    _first = f"{_letter}_i, heads first"
    add(f"{_ALL}.{_name}", f"{_what} of each head", _HEADS_FIRST, _first, "3.2.2", compute=_heads_first)


@entry(f"{_ALL}.products", "Query times key", "Q Kᵀ", "3.2.1")
def _products(scope: Scope) -> Tensor:
    """One number for each query and key: how well the two vectors agree."""
    return _latest(scope, "q") @ _latest(scope, "k").transpose(-2, -1)


@entry(f"{_ALL}.scores", "Scaled scores", "scores = Q Kᵀ / √d_k", "3.2.1")
def _scores(scope: Scope) -> Tensor:
    """A sum of d_k products grows with √d_k; dividing by it keeps the softmax where its gradient is not tiny."""
    products = scope.here("products")
    if scope.has_here("relative.relative_products"):
        products = products + scope.here("relative.relative_products")
    scores = products / math.sqrt(scope.config.d_k)
    return scores + scope.here("alibi.biases") if scope.has_here("alibi.biases") else scores


@entry(f"{_ALL}.masked_scores", "Scores without padding", "−∞ where src_mask is 0", "3.2.3")
def _masked_scores(scope: Scope) -> Tensor:
    """A key that is padding gets −∞, which the softmax turns into a weight of zero."""
    mask, scores = _mask(scope), scope.here("scores")
    hidden = torch.where(mask.any(dim=-1, keepdim=True), -math.inf, 0.0)
    return torch.where(mask, scores, hidden.to(scores.dtype))


@entry(f"{_ALL}.weights", "Attention weights", "A = softmax(scores)", "3.2.1")
def _weights(scope: Scope) -> Tensor:
    """For each query, weights over the keys that sum to one."""
    return softmax(scope.here("masked_scores"), -1).masked_fill(~_mask(scope).any(dim=-1, keepdim=True), 0.0)


@entry(f"{_SELF}.weighted_values", "Weighted values", "A_i V_i", "3.2.1")
def _weighted_values(scope: Scope) -> Tensor:
    """The mean of the values, weighted by the attention weights, before the vectors of the distances are added."""
    return scope.here("weights") @ _latest(scope, "v")


@entry(f"{_ALL}.heads", "Output of each head", "head_i = A_i V_i", "3.2.1")
def _heads(scope: Scope) -> Tensor:
    """The mean of the values, weighted by the attention weights."""
    if scope.has_here("relative.relative_heads"):
        return scope.here("weighted_values") + scope.here("relative.relative_heads")
    return _weighted_values(scope)


@entry(f"{_ALL}.heads_by_position", "Heads of each position", "head_i per position", "3.2.2")
def _heads_by_position(scope: Scope) -> Tensor:
    """The axis of positions moves back in front of the heads."""
    return scope.here("heads").transpose(1, 2)


@entry(f"{_ALL}.heads_merged", "Heads side by side", "Concat(head₁ … head_h)", "3.2.2")
def _heads_merged(scope: Scope) -> Tensor:
    """The h outputs of a position become one row again, and are not mixed yet."""
    return scope.here("heads_by_position").flatten(-2)


@entry(f"{_ALL}.output", "Attention's output", "Concat(head₁ … head_h) W_O", "3.2.2")
def _output(scope: Scope) -> Tensor:
    """W_O mixes the outputs of the heads into one vector."""
    return linear(scope.here("heads_merged"), scope.weight("w_o.weight"), scope.bias("w_o"))


vary(f"{_SELF}.products", "positions", "rotary", "Q′ K′ᵀ")
vary(f"{_SELF}.scores", "positions", "rotary", "scores = Q′ K′ᵀ / √d_k")
vary(f"{_SELF}.scores", "positions", "relative", "(Q Kᵀ + S_rel) / √d_k")
vary(f"{_SELF}.scores", "positions", "alibi", "scores = Q Kᵀ / √d_k + B")
_WITH_DISTANCES = "The mean of the values and of the distances' vectors, weighted by the attention weights."
vary(f"{_SELF}.heads", "positions", "relative", "head_i = A_i V_i + A_i · a_V", _WITH_DISTANCES)

_LATER = (
    "A key after the query gets −∞, so no position sees the token that it is to predict. Padding comes last, so this "
    "hides it as well."
)
_TITLE, _HIDDEN = "Scores without the future", "−∞ where key > query"
change("decoder_self_attention.masked_scores", title=_TITLE, sentence=_LATER, equation=_HIDDEN)

for _name, _what in (("k", "keys"), ("v", "values")):
    _letter = _name.upper()
    _title, _equation = f"{_what.capitalize()} so far", f"{_letter} = [{_letter}_past; {_letter}_new]"
    _sentence = f"The {_what} of earlier decoding steps, then the new ones; none is computed twice."
    add(f"decoder_self_attention.{_name}_cached", _title, _sentence, _equation, NOT_IN_PAPER, compute=_append)
    _title, _equation = f"The source's {_what}, kept", f"{_letter} of the first step"
    _sentence = f"The memory does not change while the target grows, so its {_what} are computed once."
    add(f"cross_attention.{_name}_cached", _title, _sentence, _equation, NOT_IN_PAPER, compute=_append)
    change(f"cross_attention.{_name}", title=f"The source's {_what} of each head")

_ONE = "Each target position computes one query for each head."
change("cross_attention.q_projected", title="The target's queries", sentence=_ONE, section="3.2.3")
_ONE = "Each source position of the encoder's memory computes one key for each head."
change("cross_attention.k_projected", title="The source's keys", sentence=_ONE, equation="K = M W_K", section="3.2.3")
_ONE = "What each source position passes on to the target."
change(
    "cross_attention.v_projected", title="The source's values", sentence=_ONE, equation="V = M W_V", section="3.2.3"
)
_AGREES = "One number for each target and source position: how well query and key agree."
change("cross_attention.products", title="Target times source", sentence=_AGREES)
_PADDING = "A source position that is padding gets −∞; every target position sees every source token."
change("cross_attention.masked_scores", title="Scores without source padding", sentence=_PADDING)
_SHARES = "For each target position, weights over the source tokens that sum to one."
change("cross_attention.weights", title="Where the target looks", sentence=_SHARES)
_TAKEN = "The mean of the source's values, weighted by the attention weights."
change("cross_attention.heads", title="What each head takes from the source", sentence=_TAKEN)

for _kind in _ALL.split("|"):
    for _name in ("q_projected", "k_projected", "v_projected", "output"):
        _letter = _name[0].upper()
        vary(f"{_kind}.{_name}", "attention_bias", True, f"{ENTRIES[_kind][_name].equation} + b_{_letter}")
