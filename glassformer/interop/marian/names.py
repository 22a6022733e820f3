"""What our settings and weights are called in Marian."""

from typing import Any

from glassformer.model.layers import ACTIVATIONS

# What each of our parts is called there, and the attention's and the norm's own parts.
BLOCKS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn", "ssru": "rnn"}
NORMS = {"self_attention": "self_Wo", "cross_attention": "context_Wo", "feed_forward": "ffn_ffn", "ssru": "rnn_ffn"}
SUBLAYERS = {"self-attention": "self_attention", "rnn": "ssru"}
ACTIVATION_OF = {entry.marian_name: ours for ours, entry in ACTIVATIONS.items() if entry.marian_name}
# Our names of sizes, and theirs.
SIZES = {
    "d_model": "dim-emb", "n_heads": "transformer-heads", "d_ff": "transformer-dim-ffn",
    "n_encoder_layers": "enc-depth", "n_decoder_layers": "dec-depth",
}  # fmt: skip
EXPECTED: dict[str, Any] = {
    "type": "transformer", "transformer-no-projection": False, "transformer-rnn-projection": False,
    "transformer-ffn-depth": 2, "lemma-dim-emb": 0, "right-left": False, "ulr": False, "input-types": [],
    "transformer-disable-position-embeddings": False, "transformer-alibi-shift": False,
    "transformer-attention-mask": "default", "transformer-pool": False,
}  # fmt: skip
# The steps round a sublayer: "a" adds, "n" norms; "d", dropout, does nothing in a translation.
PLACES_OF_NORMS = {
    "post": {"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-top": ""},
    "pre": {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
}
OUT_BIAS_NAME, OUT_NAME = "decoder_ff_logit_out_b", "decoder_ff_logit_out_W"


def to_marian_name(ours: str, *, pre: bool) -> str:
    """What a weight of an encoder or decoder is called there."""
    stack, *middle, part, leaf = ours.split(".")
    if part == "final_norm":
        return f"{stack}_top_ln_{_norm_part(leaf)}"
    _, number, block = middle[:3]
    scope = f"{stack}_l{int(number) + 1}"
    if part == "norm":
        end = f"ln_{_norm_part(leaf)}{'_pre' if pre else ''}"
        return f"{scope}_{NORMS[block.removesuffix('_add_norm')]}_{end}"
    return f"{scope}_{BLOCKS[block]}_{'W' if leaf == 'weight' else 'b'}{part.removeprefix('w').removeprefix('_')}"


def _norm_part(leaf: str) -> str:
    return "scale" if leaf == "gain" else "bias"
