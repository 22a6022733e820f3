"""The stories of layers: feed-forward, Add & Norm, encoder and decoder. Sections 3.1 and 3.3 of the paper."""

from glassformer.explain.stories.entry import Story, Table, Variant

_NORM = "3.1; Ba et al. 2016"

_FEED_FORWARD: Table = {
    "inner": Story(
        "Widened", "Each position on its own is mapped from d_model up to d_ff numbers.", "z = x W₁ + b₁", "3.3"
    ),
    "activated": Story("Activated", "Negative numbers become zero, the others stay.", "a = max(0, z)", "3.3"),
    "output": Story(
        "Narrowed again", "Back to d_model, ready to be added to the way round.", "FFN(x) = a W₂ + b₂", "3.3"
    ),
}

_ADD_NORM: Table = {
    "residual": Story(
        "Residual sum",
        "What the sublayer found is added to what went round it, so nothing is lost on the way.",
        "x + Sublayer(x)",
        "3.1",
    ),
}

_NORM_TABLE: Table = {
    "mean": Story(
        "Mean of the vector", "One mean for each position, over its d_model numbers.", "μ = mean(x)", _NORM
    ),
    "variance": Story(
        "Variance of the vector", "How far the numbers lie from their mean, squared.", "σ² = mean((x − μ)²)", _NORM
    ),
    "normalised": Story(
        "Centred and scaled",
        "Each vector gets mean zero and variance one; ε keeps the root from zero.",
        "(x − μ) / √(σ² + ε)",
        _NORM,
    ),
    "output": Story(
        "Layer norm's output",
        "A learned gain and bias for each of the d_model numbers.",
        "γ (x − μ) / √(σ² + ε) + β",
        _NORM,
    ),
}

LAYERS: dict[str, Table] = {
    "feed_forward": _FEED_FORWARD,
    "add_norm": _ADD_NORM,
    "norm": _NORM_TABLE,
    "encoder_layer": {
        "output": Story(
            "Encoder layer's output",
            "Each source position has looked at the others and thought for itself; the next layer goes on from here.",
            "x ← EncoderLayer(x)",
            "3.1",
        )
    },
    "decoder_layer": {
        "output": Story(
            "Decoder layer's output",
            "Each target position has looked at the target so far, at the source, and thought for itself.",
            "x ← DecoderLayer(x, M)",
            "3.1",
        )
    },
    "encoder": {
        "memory": Story(
            "Memory",
            "The encoder's last word on each source position; every decoder layer reads it.",
            "M = x after layer N",
            "3.1",
        )
    },
    "decoder": {
        "output": Story(
            "Decoder's output",
            "One vector for each target position, from which its next token is predicted.",
            "x after layer N",
            "3.1",
        )
    },
}

LAYERS_VARIANTS: tuple[Variant, ...] = (
    Variant(
        ("feed_forward",),
        "activated",
        "activation",
        "gelu",
        "a = z Φ(z)",
        "GELU: each number times the chance that a standard normal one is smaller.",
    ),
    Variant(
        ("feed_forward",),
        "activated",
        "activation",
        "swish",
        "a = z σ(z)",
        "Swish: each number times its logistic sigmoid.",
    ),
    Variant(("add_norm",), "residual", "norm", "pre", "x + Sublayer(LayerNorm(x))"),
    Variant(("encoder",), "memory", "norm", "pre", "M = LayerNorm(x after layer N)"),
    Variant(("decoder",), "output", "norm", "pre", "LayerNorm(x after layer N)"),
)
