"""From ids to vectors, and from vectors to the vocabulary. Sections 3.4 and 3.5."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.model.dropout import Dropout
from glassformer.model.positions import LearnedPositions, SinusoidalPositions
from glassformer.settings import ModelConfig
from glassformer.trace import show, tap


class Embedding(nn.Module):
    """Look up each id's vector, scale it by √d_model, add its position's vector, drop out.

    Relative and rotary positions enter in self-attention instead, and nothing is added here.
    """

    def __init__(self, config: ModelConfig, vocab: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, config.d_model, padding_idx=config.pad_id)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.positions: SinusoidalPositions | LearnedPositions | None = None
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, ids: Int[Tensor, "batch position"], positions: Int[Tensor, "position"] | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        """The vectors that enter the first layer; columns stand at ``positions``, or at 0, 1, ..."""
        x = self.tokens(ids)
        x = tap(self, "embedded", x, "batch position d_model")
        x = x * self.scale
        x = tap(self, "scaled", x, "batch position d_model")
        if self.positions is not None:
            if positions is None:
                positions = torch.arange(ids.shape[1], device=ids.device)
            vectors = self.positions(positions)
            vectors = tap(self, "position_vectors", vectors, "position d_model")
            x = x + vectors
            x = tap(self, "with_positions", x, "batch position d_model")
        return self.dropout(x)  # type: ignore[no-any-return]  # nn.Module.__call__ is untyped


class OutputProjection(nn.Module):
    """The linear map to one logit for each entry of the vocabulary (figure 1, top)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.d_model, config.tgt_vocab, bias=config.output_bias)

    def forward(self, x: Float[Tensor, "batch tgt d_model"]) -> Float[Tensor, "batch tgt vocab"]:
        """Logits; training and search take their softmax, which a trace shows."""
        logits = self.linear(x)
        logits = tap(self, "logits", logits, "batch tgt vocab")
        show(self, "probabilities", lambda: logits.softmax(-1), "batch tgt vocab")
        return logits
