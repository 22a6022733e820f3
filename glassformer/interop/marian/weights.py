"""What our settings and weights are called in Marian, and a model's arrays by our names.

Layers that share weights get copies.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import CheckpointError, ConfigError
from glassformer.interop.imported_model import OUT, OUT_BIAS, SRC, TGT
from glassformer.interop.marian.model_file import SETTINGS
from glassformer.model.layers import ACTIVATIONS
from glassformer.model.transformer import Transformer
from glassformer.settings import ModelConfig

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


def name_weights(
    arrays: Mapping[str, Any], settings: Mapping[str, Any], config: ModelConfig, sizes: tuple[int, int], where: str
) -> tuple[str, dict[str, Tensor]]:
    """Which matrices are one, and the weights by our names; ``sizes`` are the entries, without <pad>.

    Raises ``CheckpointError`` for an array that is missing, of another shape, or not known.
    """
    rest = {name: array for name, array in arrays.items() if name != SETTINGS}
    tied_layers, used = _tied_layers(settings, config, where), set()
    tie, named = _vocabulary_weights(rest, sizes, where)
    for ours, parameter in Transformer.without_values(config).named_parameters():
        if not ours.startswith(("encoder", "decoder")):
            continue
        theirs = to_marian_name(_source_layer(ours, tied_layers), pre=config.norm == "pre")
        used.add(theirs)
        if theirs not in rest:
            raise CheckpointError(f"{where}: has no {theirs}, expected a weight for {ours}.")
        value = _tensor(rest[theirs], f"{where}: {theirs}")
        named[ours] = value.flatten()
        if ours.endswith("weight"):
            named[ours] = _matrix(value, f"{where}: {theirs}").t().contiguous()
        if ".feed_forward." in ours:
            named[ours] = _widen(named[ours], parameter)
    unknown = sorted(rest.keys() - used)
    if unknown:
        raise CheckpointError(
            f"{where}: holds {', '.join(unknown[:3])}{' and more' if len(unknown) > 3 else ''}, which no model of "
            "these settings has. Expected no other arrays."
        )
    return tie, named


def widest_ffn(arrays: Mapping[str, Any], width: Any) -> Any:
    """The width of the wider feed-forward network of encoder and decoder, if the arrays tell both."""
    found = [arrays.get(f"{side}_l1_ffn_b1") for side in ("encoder", "decoder")]
    widths = [bias.shape[-1] for bias in found if bias is not None and bias.ndim]
    return max([width, *widths]) if type(width) is int else width


def _tied_layers(settings: Mapping[str, Any], config: ModelConfig, where: str) -> list[int]:
    """For each layer of the decoder the layer, from 1, whose weights it has."""
    depth = config.n_decoder_layers
    found = settings.get("transformer-tied-layers") or list(range(1, depth + 1))
    if (
        not isinstance(found, list)
        or len(found) != depth
        or any(number not in range(1, depth + 1) for number in found)
    ):
        raise ConfigError(
            f"{where}: transformer-tied-layers: found {found!r:.100}, expected a layer from 1 to {depth} for each."
        )
    return found


def _source_layer(ours: str, tied_layers: list[int]) -> str:
    stack, layers, *rest = ours.split(".")
    if stack == "decoder" and layers == "layers":
        rest[0] = str(tied_layers[int(rest[0])] - 1)
    return ".".join([stack, layers, *rest])


def _widen(value: Tensor, like: Tensor) -> Tensor:
    """A feed-forward network with units of zeros behind its own, up to the width of the wider one."""
    if value.ndim != like.ndim or any(have > want for have, want in zip(value.shape, like.shape, strict=True)):
        return value
    wide = torch.zeros(like.shape)
    wide[tuple(map(slice, value.shape))] = value
    return wide


def _vocabulary_weights(rest: dict[str, Any], sizes: tuple[int, int], where: str) -> tuple[str, dict[str, Tensor]]:
    """Which matrices are one, and the weights with a row for each entry, taken out of ``rest``."""
    sides = [f"{side}_Wemb" if f"{side}_Wemb" in rest else "Wemb" for side in ("encoder", "decoder")]
    missing = [name for name in sides if name not in rest]
    if missing:
        raise CheckpointError(f"{where}: has no {missing[0]}, expected the embeddings.")
    src, tgt = (_rows(rest[name], size, f"{where}: {name}") for name, size in zip(sides, sizes, strict=True))
    for name in set(sides):
        del rest[name]
    tie, out = "all" if sides[0] == sides[1] else "target", tgt
    for name in (f"{OUT_NAME}t", OUT_NAME):
        if name in rest:
            array = rest.pop(name)
            tie, out = "none", _rows(array if name.endswith("Wt") else array.T, sizes[1], f"{where}: {name}")
    named = {SRC: src, TGT: tgt, OUT: out, OUT_BIAS: torch.zeros(len(tgt))}
    if OUT_BIAS_NAME in rest:
        bias = rest.pop(OUT_BIAS_NAME).reshape(-1, 1)
        named[OUT_BIAS] = _rows(bias, sizes[1], f"{where}: {OUT_BIAS_NAME}").flatten()
    return tie, named


def _rows(array: Any, size: int, where: str) -> Tensor:
    """A matrix with a row for each of ``size`` entries, and one of zeros for <pad>."""
    matrix = _matrix(_tensor(array, where), where)
    if len(matrix) != size:
        raise CheckpointError(
            f"{where}: found {len(matrix):,} rows, expected {size:,}, one for each entry of the vocabulary."
        )
    return torch.cat([matrix, torch.zeros(1, matrix.shape[1])])


def _matrix(value: Tensor, where: str) -> Tensor:
    if value.ndim != 2:
        raise CheckpointError(f"{where}: found the shape {tuple(value.shape)}, expected a matrix.")
    return value


def _tensor(array: Any, where: str) -> Tensor:
    """The array in float32; ``CheckpointError`` unless it holds real numbers with a fraction."""
    if array.dtype.kind != "f":
        raise CheckpointError(f"{where}: found numbers of type {array.dtype}, expected float16, float32 or float64.")
    with np.errstate(over="ignore"):  # what is infinite in float32 is refused with all that is not finite
        return torch.from_numpy(np.array(array, dtype=np.float32))
