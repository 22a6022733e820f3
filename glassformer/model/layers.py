"""The feed-forward network and the encoder and decoder layers of figure 1. Sections 3.1 and 3.3."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.model.attention import MultiHeadAttention
from glassformer.model.cache import LayerCache
from glassformer.model.masks import Mask
from glassformer.model.norm import AddAndNorm
from glassformer.model.positions import Positions
from glassformer.model.ssru import SSRU
from glassformer.settings import ModelConfig
from glassformer.trace import tap


@dataclass(frozen=True)
class Activation:
    """A function between the two feed-forward maps, and its names in other programs.

    Transformers may have several; an export writes the first. CTranslate2 numbers its activations.
    """

    function: Callable[[Tensor], Tensor]
    transformers_names: tuple[str, ...] = ()
    marian_name: str | None = None
    ctranslate2_number: int | None = None


# The register: `model.activation` names one of these.
ACTIVATIONS = {
    "relu": Activation(torch.relu, ("relu",), "relu", 0),
    "gelu": Activation(nn.functional.gelu, ("gelu",), "gelu", 3),
    "swish": Activation(nn.functional.silu, ("swish", "silu"), "swish", 2),
}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, equation 2, at each position alone.

    Differs from the paper: ``activation`` may be gelu or swish instead of relu.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.w_1 = nn.Linear(config.d_model, config.d_ff)
        self.w_2 = nn.Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation].function

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Widen to d_ff, activate, narrow to d_model."""
        inner = self.w_1(x)
        inner = tap(self, "inner", inner, "batch position d_ff")
        activated = self.activation(inner)
        activated = tap(self, "activated", activated, "batch position d_ff")
        output = self.w_2(activated)
        return tap(self, "output", output, "batch position d_model")


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside Add & Norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, uses_positions=True)
        self.self_attention_add_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_add_norm = AddAndNorm(config)

    def forward(
        self, x: Float[Tensor, "batch src d_model"], src_mask: Mask, positions: Positions | None = None
    ) -> Float[Tensor, "batch src d_model"]:
        """One pass through the left half of figure 1."""
        query = self.self_attention_add_norm.before(x)
        x = self.self_attention_add_norm.after(x, self.self_attention(query, query, src_mask, positions))
        inner = self.feed_forward_add_norm.before(x)
        x = self.feed_forward_add_norm.after(x, self.feed_forward(inner))
        return tap(self, "output", x, "batch src d_model")


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward, each inside Add & Norm.

    Differs from the paper: ``autoregressive_sublayer`` may be an SSRU in place of self-attention.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.autoregressive_sublayer == "ssru":
            self.ssru = SSRU(config)
            self.ssru_add_norm = AddAndNorm(config)
        else:
            self.self_attention = MultiHeadAttention(config, uses_positions=True)
            self.self_attention_add_norm = AddAndNorm(config)
        self.cross_attention = MultiHeadAttention(config, uses_positions=False)
        self.cross_attention_add_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_add_norm = AddAndNorm(config)

    def forward(  # noqa: PLR0917  # the stream, what it reads, and the layout
        self,
        x: Float[Tensor, "batch tgt d_model"],
        memory: Float[Tensor, "batch src d_model"],
        causal_mask: Mask | None,
        memory_mask: Mask,
        positions: Positions | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch tgt d_model"]:
        """One pass through the right half of figure 1; without a causal mask by the SSRU."""
        own_cache, cross_cache = (cache.autoregressive, cache.cross_attention) if cache else (None, None)
        if causal_mask is None:
            rows = memory_mask.packing and memory_mask.packing.queries
            inner = self.ssru_add_norm.before(x)
            x = self.ssru_add_norm.after(x, self.ssru(inner, rows, own_cache))
        else:
            query = self.self_attention_add_norm.before(x)
            attended = self.self_attention(query, query, causal_mask, positions, own_cache)
            x = self.self_attention_add_norm.after(x, attended)
        query = self.cross_attention_add_norm.before(x)
        attended = self.cross_attention(query, memory, memory_mask, None, cross_cache)
        x = self.cross_attention_add_norm.after(x, attended)
        inner = self.feed_forward_add_norm.before(x)
        x = self.feed_forward_add_norm.after(x, self.feed_forward(inner))
        return tap(self, "output", x, "batch tgt d_model")
