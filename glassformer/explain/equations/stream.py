"""Which recorded tensor enters a sublayer, a norm or a layer: figure 1, followed backwards by address.

Norms first or last, dropout or none: the answer is always one address. Knows no arithmetic.
"""

from glassformer.explain.equations.scope import Scope

_SUBLAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}


def sublayer_input(scope: Scope, layer: str, sublayer: str) -> str:
    """What the sublayer is given: the stream itself, or its norm where norms come first."""
    if scope.config.norm == "pre":
        return f"{layer}.{sublayer}_add_norm.norm.output"
    return stream_before(scope, layer, sublayer)


def stream_before(scope: Scope, layer: str, sublayer: str) -> str:
    """What goes round the sublayer: the sum, or its norm, of the sublayer before, or what entered the layer."""
    order = _SUBLAYERS[layer.partition(".")[0]]
    if sublayer == order[0]:
        return layer_input(scope, layer)
    return after_sublayer(scope, layer, order[order.index(sublayer) - 1])


def after_sublayer(scope: Scope, layer: str, sublayer: str) -> str:
    """What Add & Norm makes of the sublayer."""
    add_norm = f"{layer}.{sublayer}_add_norm"
    return f"{add_norm}.residual" if scope.config.norm == "pre" else f"{add_norm}.norm.output"


def layer_input(scope: Scope, layer: str) -> str:
    """The output of the layer before, or the embedding."""
    stack, _, index = layer.split(".")
    return f"{stack}.layers.{int(index) - 1}.output" if int(index) else embedding_output(scope, stack)


def embedding_output(scope: Scope, stack: str) -> str:
    """The last step of a side's embedding."""
    embedding = "src_embedding" if stack == "encoder" else "tgt_embedding"
    if scope.setting.drops:
        return f"{embedding}.dropout.output"
    positioned = scope.config.positions in ("sinusoidal", "learned")
    return f"{embedding}.with_positions" if positioned else f"{embedding}.scaled"


def last_layer_output(scope: Scope, stack: str) -> str:
    """What the last layer of a stack gives."""
    layers = scope.config.n_encoder_layers if stack == "encoder" else scope.config.n_decoder_layers
    return f"{stack}.layers.{layers - 1}.output"


def norm_input(scope: Scope) -> str:
    """What the layer norm that the step belongs to is given."""
    stack, _, rest = scope.module.partition(".")
    if rest == "final_norm":
        return last_layer_output(scope, stack)
    layer, _, sublayer = scope.module.removesuffix("_add_norm.norm").rpartition(".")
    if scope.config.norm == "pre":
        return stream_before(scope, layer, sublayer)
    return f"{layer}.{sublayer}_add_norm.residual"


def dropout_input(scope: Scope) -> str:
    """What the dropout that the step belongs to is given."""
    if scope.module.endswith("_embedding.dropout"):
        embedding = scope.module.removesuffix(".dropout")
        positioned = scope.config.positions in ("sinusoidal", "learned")
        return f"{embedding}.with_positions" if positioned else f"{embedding}.scaled"
    return f"{scope.module.removesuffix('_add_norm.dropout')}.output"
