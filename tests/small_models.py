"""A small configuration of the model, the grid of its options, and weights that are not at their start."""

from typing import Any

import torch

from glassformer.settings import ModelConfig

SSRU = {"autoregressive_sublayer": "ssru"}
BUNDLES: list[dict[str, Any]] = [
    {"tie_embeddings": "all", "tgt_vocab": 23},
    {"tie_embeddings": "target", "output_bias": True, **SSRU},
    {"tie_embeddings": "none", "attention_bias": True, "output_bias": True, "d_v": 7, "scale_embedding": False},
]
AXES = ModelConfig.choices("norm"), ModelConfig.choices("positions"), ModelConfig.choices("activation"), BUNDLES


def options_of(cell: tuple[int, ...]) -> dict[str, Any]:
    norm, positions, activation, bundle = (axis[at] for axis, at in zip(AXES, cell, strict=True))
    return {"norm": norm, "positions": positions, "activation": activation, **bundle}


def small_config(**changes: Any) -> ModelConfig:
    """A model of a few thousand parameters; no two widths are equal."""
    sizes: dict[str, Any] = {
        "src_vocab": 23, "tgt_vocab": 19, "tie_embeddings": "target", "d_model": 26, "n_heads": 3, "d_k": 10, "d_ff": 31,
        "n_encoder_layers": 2, "n_decoder_layers": 2, "max_length": 37, "relative_clip": 2, "dropout": 0.0,
    }  # fmt: skip
    return ModelConfig(**{**sizes, **changes})


def shake(module: torch.nn.Module) -> None:
    """Move every parameter off its start, so that no bias is zero and no gain is one."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
