"""The stories of attention: self-attention of the encoder and the decoder, cross-attention, relative positions.

In the equations X is what the sublayer is given and M the encoder's memory. Section 3.2 of the paper.
"""

from glassformer.explain.stories.entry import Story, Table, Variant

_NOT_IN_PAPER = "not in the paper"
_SHAW = "Shaw et al. 2018, 3.2"
_ROPE = "Su et al. 2021, 3.2"

_SPLIT = "The row of all heads is cut into h pieces, one for each head; no number changes."
_HEADS_FIRST = "Heads move in front of positions, so that each head multiplies matrices of its own."

_SHARED: Table = {
    "q_projected": Story(
        "Queries of all heads",
        "Each position asks h questions at once, side by side in one row.",
        "Q = X W_Q",
        "3.2.2",
    ),
    "q_split": Story("Queries cut into heads", _SPLIT, "Q → Q₁ … Q_h", "3.2.2"),
    "q": Story("Queries of each head", _HEADS_FIRST, "Q_i, heads first", "3.2.2"),
    "k_projected": Story(
        "Keys of all heads", "Each position offers h keys, which the queries are compared with.", "K = X W_K", "3.2.2"
    ),
    "k_split": Story("Keys cut into heads", _SPLIT, "K → K₁ … K_h", "3.2.2"),
    "k": Story("Keys of each head", _HEADS_FIRST, "K_i, heads first", "3.2.2"),
    "v_projected": Story(
        "Values of all heads", "What each position hands over to those who attend to it.", "V = X W_V", "3.2.2"
    ),
    "v_split": Story("Values cut into heads", _SPLIT, "V → V₁ … V_h", "3.2.2"),
    "v": Story("Values of each head", _HEADS_FIRST, "V_i, heads first", "3.2.2"),
    "products": Story(
        "Query times key", "One number for each query and key: how well the two vectors agree.", "Q Kᵀ", "3.2.1"
    ),
    "scores": Story(
        "Scaled scores",
        "Sums of d_k products grow with √d_k; dividing by it keeps softmax where it can still learn.",
        "scores = Q Kᵀ / √d_k",
        "3.2.1",
    ),
    "weights": Story(
        "Attention weights", "For each query, shares over the keys that sum to one.", "A = softmax(scores)", "3.2.1"
    ),
    "heads": Story(
        "What each head gathers",
        "The mean of the values, weighted by the attention weights.",
        "head_i = A_i V_i",
        "3.2.1",
    ),
    "heads_by_position": Story(
        "Heads beside each position", "Positions move back in front of heads.", "head_i per position", "3.2.2"
    ),
    "heads_merged": Story(
        "Heads side by side",
        "The h results of a position become one row again; they have not met yet.",
        "Concat(head₁ … head_h)",
        "3.2.2",
    ),
    "output": Story(
        "Attention's output", "W_O mixes what the heads found into one vector.", "Concat(head₁ … head_h) W_O", "3.2.2"
    ),
}

_SELF: Table = {
    **_SHARED,
    "q_rotated": Story(
        "Queries turned by their place",
        "Each pair of numbers is turned by an angle that grows with the position.",
        "Q′ = R(pos) Q",
        _ROPE,
    ),
    "k_rotated": Story(
        "Keys turned by their place",
        "Turned like the queries, so that a product depends on the distance alone.",
        "K′ = R(pos) K",
        _ROPE,
    ),
    "k_cached": Story(
        "Keys so far",
        "The keys of earlier decoding steps with the new ones behind them, none computed twice.",
        "K = [K_past; K_new]",
        _NOT_IN_PAPER,
    ),
    "v_cached": Story(
        "Values so far",
        "The values of earlier decoding steps with the new ones behind them, none computed twice.",
        "V = [V_past; V_new]",
        _NOT_IN_PAPER,
    ),
}

_ENCODER_SELF: Table = {
    **{name: story for name, story in _SELF.items() if not name.endswith("_cached")},
    "masked_scores": Story(
        "Scores without padding",
        "A key that is padding gets −∞, which softmax turns into a weight of zero.",
        "−∞ where src_mask is 0",
        "3.2.3",
    ),
}

_DECODER_SELF: Table = {
    **_SELF,
    "masked_scores": Story(
        "Scores without the future",
        "A key behind the query gets −∞: no position sees what it is to predict. Padding, being last, goes with it.",
        "−∞ where key > query",
        "3.2.3",
    ),
}

_CROSS: Table = {
    **_SHARED,
    "q_projected": Story(
        "The target's queries", "Each target position asks the source h questions.", "Q = X W_Q", "3.2.3"
    ),
    "k_projected": Story(
        "The source's keys", "Each source position of the encoder's memory offers h keys.", "K = M W_K", "3.2.3"
    ),
    "k": Story("The source's keys of each head", _HEADS_FIRST, "K_i, heads first", "3.2.2"),
    "v_projected": Story(
        "The source's values", "What each source position hands over to the target.", "V = M W_V", "3.2.3"
    ),
    "v": Story("The source's values of each head", _HEADS_FIRST, "V_i, heads first", "3.2.2"),
    "k_cached": Story(
        "The source's keys, kept",
        "The memory stays the same while a target grows: its keys are computed once.",
        "K of the first step",
        _NOT_IN_PAPER,
    ),
    "v_cached": Story(
        "The source's values, kept",
        "The memory stays the same while a target grows: its values are computed once.",
        "V of the first step",
        _NOT_IN_PAPER,
    ),
    "products": Story(
        "Target times source",
        "One number for each target and source position: how well query and key agree.",
        "Q Kᵀ",
        "3.2.1",
    ),
    "masked_scores": Story(
        "Scores without source padding",
        "A source position that is padding gets −∞; no target position is hidden from any source token.",
        "−∞ where src_mask is 0",
        "3.2.3",
    ),
    "weights": Story(
        "Where the target looks",
        "For each target position, shares over the source tokens that sum to one.",
        "A = softmax(scores)",
        "3.2.1",
    ),
    "heads": Story(
        "What each head brings over",
        "The mean of the source's values, weighted by where the target looks.",
        "head_i = A_i V_i",
        "3.2.1",
    ),
}

_RELATIVE: Table = {
    "relative_keys": Story(
        "A key for each distance",
        "A learned vector for how far the key stands from the query, the same for all heads.",
        "a_K[key − query]",
        _SHAW,
    ),
    "relative_products": Story(
        "Query times distance", "How well each query agrees with each distance.", "S_rel = Q · a_K", _SHAW
    ),
    "relative_values": Story(
        "A value for each distance",
        "A learned vector that is handed over with each value.",
        "a_V[key − query]",
        _SHAW,
    ),
    "relative_heads": Story(
        "What the distances add",
        "The mean of the distances' values, weighted like the values themselves.",
        "A · a_V",
        _SHAW,
    ),
}

# Tapped by self-attention itself, when distances add their part.
_BEFORE_DISTANCES: Table = {
    "weighted_values": Story(
        "What the weights gather",
        "The mean of the values, weighted by the attention weights, before distances have their say.",
        "A_i V_i",
        "3.2.1",
    ),
}

ATTENTION: dict[str, Table] = {
    "encoder_self_attention": _ENCODER_SELF | _BEFORE_DISTANCES,
    "decoder_self_attention": _DECODER_SELF | _BEFORE_DISTANCES,
    "cross_attention": _CROSS,
    "relative": _RELATIVE,
}

_SELF_KINDS = ("encoder_self_attention", "decoder_self_attention")
_ALL_KINDS = (*_SELF_KINDS, "cross_attention")


def _biased(kinds: tuple[str, ...], name: str, equation: str) -> Variant:
    return Variant(kinds, name, "attention_bias", True, equation)


ATTENTION_VARIANTS: tuple[Variant, ...] = (
    _biased(_ALL_KINDS, "q_projected", "Q = X W_Q + b_Q"),
    _biased(_SELF_KINDS, "k_projected", "K = X W_K + b_K"),
    _biased(_SELF_KINDS, "v_projected", "V = X W_V + b_V"),
    _biased(("cross_attention",), "k_projected", "K = M W_K + b_K"),
    _biased(("cross_attention",), "v_projected", "V = M W_V + b_V"),
    _biased(_ALL_KINDS, "output", "Concat(head₁ … head_h) W_O + b_O"),
    Variant(_SELF_KINDS, "products", "positions", "rotary", "Q′ K′ᵀ"),
    Variant(_SELF_KINDS, "scores", "positions", "rotary", "scores = Q′ K′ᵀ / √d_k"),
    Variant(_SELF_KINDS, "scores", "positions", "relative", "(Q Kᵀ + S_rel) / √d_k"),
    Variant(
        _SELF_KINDS,
        "heads",
        "positions",
        "relative",
        "head_i = A_i V_i + A_i · a_V",
        "The mean of the values and of the distances' values, weighted by the attention weights.",
    ),
)
