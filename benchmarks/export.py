"""Copy a glassformer model to a Hugging Face MarianMT model with the same weights.

The MarianMT model exists in memory only: saving it drops its position table, and loading computes another one.

A setting that the target system does not support is refused by name. The position table is always copied, so that
sines and cosines stay interleaved as in the paper. Missing biases become zeros. bos starts the target, as it does
here. Ids that no output may contain (pad, bos and any that the caller bans) get such a low bias that none is ever
chosen.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.errors import ConfigError
from glassformer.model import Transformer

BANNED = -1e4
NORMS = {
    "self_attention_add_norm": "self_attn_layer_norm",
    "cross_attention_add_norm": "encoder_attn_layer_norm",
    "feed_forward_add_norm": "final_layer_norm",
}
ATTENTION = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}


def refuse(config: ModelConfig, system: str, **expected: Collection[Any]) -> None:
    """Raise ``ConfigError`` unless each of these settings has a value that ``system`` supports."""
    for name, values in expected.items():
        if getattr(config, name) not in values:
            known = " or ".join(map(repr, values))
            raise ConfigError(f"model.{name}: found {getattr(config, name)!r}, but {system} supports only {known}.")


def bias_of(model: Transformer, banned: Collection[int] = ()) -> Tensor:
    """The output bias, zeros if the model has none, and very low for pad, bos and ``banned``."""
    linear = model.output_projection.linear
    bias = torch.zeros(model.config.tgt_vocab) if linear.bias is None else linear.bias.detach().clone().float()
    bias[[model.config.pad_id, model.config.bos_id, *banned]] = BANNED
    return bias


def to_marian(model: Transformer, banned: Collection[int] = ()) -> Any:
    """A ``MarianMTModel`` in eval mode that computes the same as ``model``."""
    from transformers import MarianConfig, MarianMTModel

    config = model.config
    width = config.d_model // config.n_heads
    refuse(config, "MarianMT", norm=["post"], positions=["sinusoidal", "learned"], norm_eps=[1e-5], d_k=[width],
           d_v=[width], tie_embeddings=["all"], activation=["relu", "gelu", "swish"])  # fmt: skip
    marian = MarianMTModel(
        MarianConfig(
            vocab_size=config.tgt_vocab, decoder_vocab_size=config.tgt_vocab, d_model=config.d_model,
            encoder_layers=config.n_encoder_layers, decoder_layers=config.n_decoder_layers,
            encoder_attention_heads=config.n_heads, decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff, activation_function=config.activation,
            max_position_embeddings=config.max_length, scale_embedding=config.scale_embedding,
            share_encoder_decoder_embeddings=True, tie_word_embeddings=True, pad_token_id=config.pad_id,
            bos_token_id=config.bos_id, eos_token_id=config.eos_id, forced_eos_token_id=None,
            decoder_start_token_id=config.bos_id,
        )
    )  # fmt: skip
    marian.load_state_dict(_marian_state(model, banned), strict=True)
    return marian.eval()


def _marian_state(model: Transformer, banned: Collection[int]) -> dict[str, Tensor]:
    matrix = model.tgt_embedding.tokens.weight
    names = ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    state = {f"{name}.weight": matrix.detach() for name in names}
    state["final_logits_bias"] = bias_of(model, banned)[None]
    for side, embedding in (("encoder", model.src_embedding), ("decoder", model.tgt_embedding)):
        state[f"model.{side}.embed_positions.weight"] = embedding.positions.table.detach()
        for index, layer in enumerate(getattr(model, side).layers):
            for name, module in layer.named_modules():
                state |= _marian_part(f"model.{side}.layers.{index}", name, module)
    return state


def _marian_part(prefix: str, name: str, module: nn.Module) -> dict[str, Tensor]:
    """The weights of a layer's module under MarianMT's names; empty if it has no weights of its own."""
    block, _, leaf = name.partition(".")
    if leaf == "norm":
        place = NORMS[block]
        return {f"{prefix}.{place}.weight": module.gain.detach(), f"{prefix}.{place}.bias": module.bias.detach()}
    if not isinstance(module, nn.Linear):
        return {}
    if block == "feed_forward":
        place = {"w_1": "fc1", "w_2": "fc2"}[leaf]
    else:
        place = f"{'self_attn' if block == 'self_attention' else 'encoder_attn'}.{ATTENTION[leaf]}"
    return {f"{prefix}.{place}.weight": module.weight.detach(), f"{prefix}.{place}.bias": _bias(module)}


def _bias(linear: nn.Linear) -> Tensor:
    return torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach()
