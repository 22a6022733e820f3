"""The whole Transformer: figure 1 of the paper. Knows nothing of text, training or search. Section 3."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.errors import InputError
from glassformer.model.cache import DecoderCache
from glassformer.model.embedding import Embedding, OutputProjection
from glassformer.model.layers import DecoderLayer, EncoderLayer
from glassformer.model.masks import causal_mask, padding_mask
from glassformer.model.norm import LayerNorm
from glassformer.trace import tap


class Encoder(nn.Module):
    """N encoder layers, and a last norm when norms come first."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.final_norm = LayerNorm(config) if config.norm == "pre" else None

    def forward(
        self, x: Float[Tensor, "batch src d_model"], src_mask: Bool[Tensor, "batch 1 1 src"]
    ) -> Float[Tensor, "batch src d_model"]:
        """The memory that cross-attention reads."""
        for layer in self.layers:
            x = layer(x, src_mask)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return tap(self, "memory", x, "batch src d_model")


class Decoder(nn.Module):
    """N decoder layers, and a last norm when norms come first."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        self.final_norm = LayerNorm(config) if config.norm == "pre" else None

    def forward(
        self,
        x: Float[Tensor, "batch tgt d_model"],
        memory: Float[Tensor, "batch src d_model"],
        causal_mask: Bool[Tensor, "1 1 tgt tgt_so_far"],
        memory_mask: Bool[Tensor, "batch 1 1 src"],
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch tgt d_model"]:
        """What the output projection turns into logits."""
        for index, layer in enumerate(self.layers):
            x = layer(x, memory, causal_mask, memory_mask, cache.layers[index] if cache else None)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return tap(self, "output", x, "batch tgt d_model")


class Transformer(nn.Module):
    """Source ids and target ids in, one logit for each entry of the target vocabulary out.

    ``model(src_ids, tgt_in_ids)`` with src_ids (batch src) and tgt_in_ids (batch tgt), padded on the right with
    ``config.pad_id``, returns logits (batch tgt vocab): position i predicts the token after tgt_in_ids[:, i].
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.src_embedding = Embedding(config, config.src_vocab)
        self.tgt_embedding = Embedding(config, config.tgt_vocab)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output_projection = OutputProjection(config)
        self._initialise()
        self._tie()

    def forward(
        self, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt vocab"]:
        """Teacher forcing: the logits of every target position at once."""
        memory, src_mask = self.encode(src_ids)
        return self.decode(tgt_in_ids, memory, src_mask)

    def encode(
        self, src_ids: Int[Tensor, "batch src"]
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """The memory of each source position, and the mask that hides padding from whoever reads it."""
        self._check_ids("src_ids", src_ids, self.config.src_vocab, 0)
        src_mask = padding_mask(src_ids, self.config.pad_id)
        src_mask = tap(self, "src_mask", src_mask, "batch one one src")
        x = self.src_embedding(src_ids)
        return self.encoder(x, src_mask), src_mask

    def decode(
        self,
        tgt_in_ids: Int[Tensor, "batch tgt"],
        memory: Float[Tensor, "batch src d_model"],
        memory_mask: Bool[Tensor, "batch 1 1 src"],
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch tgt vocab"]:
        """The logits of the given target positions; with a cache they follow those of the calls before."""
        start = cache.length if cache is not None else 0
        self._check_ids("tgt_in_ids", tgt_in_ids, self.config.tgt_vocab, start)
        self._check_rows(tgt_in_ids, memory, memory_mask, cache)
        n_tgt = tgt_in_ids.shape[1]
        look_ahead = causal_mask(n_tgt, start + n_tgt, tgt_in_ids.device)
        look_ahead = tap(self, "causal_mask", look_ahead, "one one query key")
        x = self.tgt_embedding(tgt_in_ids, start)
        x = self.decoder(x, memory, look_ahead, memory_mask, cache)
        return self.output_projection(x)  # type: ignore[no-any-return]  # nn.Module.__call__ is untyped

    def new_cache(self) -> DecoderCache:
        """An empty cache for one batch of translations."""
        return DecoderCache(self.config.n_decoder_layers)

    def _check_rows(
        self, tgt_in_ids: Tensor, memory: Tensor, memory_mask: Tensor, cache: DecoderCache | None
    ) -> None:
        """Everything that a decoding step is given must be about the same sentences."""
        rows = {"memory": memory.shape[0], "memory_mask": memory_mask.shape[0]}
        if cache is not None and cache.rows is not None:
            rows["cache"] = cache.rows
        for name, found in rows.items():
            if found != tgt_in_ids.shape[0]:
                raise InputError(
                    f"{name}: axis batch has {found} rows, tgt_in_ids has {tgt_in_ids.shape[0]}. "
                    "Give one target row for each source row, batch first; reorder cache, memory and mask together."
                )

    def _check_ids(self, name: str, ids: Tensor, vocab: int, start: int) -> None:
        """Refuse what would otherwise fail deep inside; ids' values are checked where looking costs no wait."""
        if not isinstance(ids, Tensor):
            raise InputError(f"{name}: found {type(ids).__name__}, expected a tensor (batch, positions) of ids.")
        if ids.ndim != 2 or ids.dtype not in (torch.int64, torch.int32):
            raise InputError(
                f"{name}: found {tuple(ids.shape)} {ids.dtype}, expected (batch, positions) of torch.int64 ids."
            )
        if start + ids.shape[1] > self.config.max_length:
            raise InputError(
                f"{name}: {start + ids.shape[1]} positions, but model.max_length is {self.config.max_length}. "
                "Shorten the text, or build the model with a larger max_length."
            )
        if torch.compiler.is_compiling() or ids.device.type != "cpu" or ids.numel() == 0:
            return
        low, high = (int(bound) for bound in ids.aminmax())
        if low < 0 or high >= vocab:
            raise InputError(
                f"{name}: found id {low if low < 0 else high}, expected ids from 0 to {vocab - 1}. "
                "The tokenizer and the model do not belong together, or source and target are exchanged."
            )

    def _initialise(self) -> None:
        """Xavier uniform for matrices, zeros for biases; embeddings of variance 1 once scaled."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        small = self.config.scale_embedding or self.config.tie_embeddings != "none"
        std = 1 / math.sqrt(self.config.d_model) if small else 1.0
        for embedding in (self.src_embedding, self.tgt_embedding):
            nn.init.normal_(embedding.tokens.weight, std=std)
            with torch.no_grad():
                embedding.tokens.weight[self.config.pad_id] = 0.0

    def _tie(self) -> None:
        """Share one matrix between embeddings and output projection, section 3.4."""
        if self.config.tie_embeddings == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight
        if self.config.tie_embeddings != "none":
            self.output_projection.linear.weight = self.tgt_embedding.tokens.weight
