"""The whole Transformer: figure 1 of the paper. Knows nothing of text, training or search. Section 3."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.errors import ConfigError, check_type
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.cache import BeamCache, DecoderCache
from glassformer.model.checks import check_cache, check_ids, check_memory, check_pair
from glassformer.model.embedding import Embedding, OutputProjection
from glassformer.model.layers import DecoderLayer, EncoderLayer
from glassformer.model.masks import Mask, padding_mask
from glassformer.model.norm import LayerNorm
from glassformer.model.packing import PackedRows, Packing
from glassformer.model.positions import Positions
from glassformer.settings import ModelConfig
from glassformer.trace import tap


class Encoder(nn.Module):
    """N encoder layers, and a last norm when norms come first."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.final_norm = LayerNorm(config) if config.norm == "pre" else None

    def forward(
        self, x: Float[Tensor, "batch src d_model"], src_mask: Mask, positions: Positions | None = None
    ) -> Float[Tensor, "batch src d_model"]:
        """The memory that cross-attention reads."""
        for layer in self.layers:
            x = layer(x, src_mask, positions)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return tap(self, "memory", x, "batch src d_model")


class Decoder(nn.Module):
    """N decoder layers, and a last norm when norms come first."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        self.final_norm = LayerNorm(config) if config.norm == "pre" else None

    def forward(  # noqa: PLR0917  # the stream, what it reads, and the layout
        self,
        x: Float[Tensor, "batch tgt d_model"],
        memory: Float[Tensor, "batch src d_model"],
        causal_mask: Mask | None,
        memory_mask: Mask,
        positions: Positions | None = None,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch tgt d_model"]:
        """What the output projection turns into logits."""
        for index, layer in enumerate(self.layers):
            x = layer(x, memory, causal_mask, memory_mask, positions, cache.layers[index] if cache else None)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return tap(self, "output", x, "batch tgt d_model")


class _NoInitialValues(TorchFunctionMode):
    """Leaves tensors as they are where ``torch.nn.init`` would fill them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        # xavier_uniform_ does not come by: the tensor's own function does, which it calls.
        if getattr(func, "__module__", None) == "torch.nn.init" or func is Tensor.uniform_:
            return keywords["tensor"] if "tensor" in keywords else args[0]
        return func(*args, **keywords)


class Transformer(nn.Module):
    """Source ids and target ids in, one logit for each entry of the target vocabulary out.

    ``model(src_ids, tgt_in_ids)`` with src_ids (batch src) and tgt_in_ids (batch tgt), padded on the right with
    ``config.pad_id``, returns logits (batch tgt vocab): position i predicts the token after tgt_in_ids[:, i].
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_type("config", config, ModelConfig, "a ModelConfig: ModelConfig.tiny()", ConfigError)
        self.config = config
        self.src_embedding = Embedding(config, config.src_vocab)
        self.tgt_embedding = Embedding(config, config.tgt_vocab)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output_projection = OutputProjection(config)
        self._initialise()
        self._tie()

    @classmethod
    def without_values(cls, config: ModelConfig, device: torch.device | str = "meta") -> "Transformer":
        """A model whose weights have names and shapes, but no values: those of a checkpoint are to be copied into it.

        On the device meta they take no memory, and nothing is computed, because PyTorch imports its compiler for
        that, which takes a second. Elsewhere tables of positions have their values. No random number is drawn.
        """
        with torch.device(device), _NoInitialValues():
            return cls(config)

    def forward(
        self, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt vocab"]:
        """Teacher forcing: the logits of every target position at once."""
        hidden = self.hidden(src_ids, tgt_in_ids)
        return self.output_projection(hidden)  # type: ignore[no-any-return]  # nn.Module.__call__ is untyped

    def hidden(
        self, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt d_model"]:
        """The decoder's output before the output projection."""
        check_pair(src_ids, tgt_in_ids)
        memory, src_mask = self.encode(src_ids)
        return self.decode_hidden(tgt_in_ids, memory, src_mask)

    def hidden_rows(
        self,
        src_ids: Int[Tensor, "batch src"],
        tgt_in_ids: Int[Tensor, "batch tgt"],
        kept: Bool[Tensor, "batch tgt"],
    ) -> Float[Tensor, "one row d_model"]:
        """The ``hidden`` of the target positions that are ``kept``, one after the other, computed without padding.

        Up to rounding it is the same. In every row the first positions are kept, up to some length; each batch
        holds at least one source token and one kept position.
        """
        check_pair(src_ids, tgt_in_ids)
        check_ids("src_ids", src_ids, self.src_embedding.tokens, self.config)
        check_ids("tgt_in_ids", tgt_in_ids, self.tgt_embedding.tokens, self.config)
        src, tgt = PackedRows(src_ids != self.config.pad_id), PackedRows(kept)
        src_positions = Positions.from_length(src_ids.shape[1], src_ids.device)
        positions, causal_mask = self.new_cache().extend(len(tgt_in_ids), tgt_in_ids.shape[1], tgt_in_ids.device)
        src_mask = Mask.from_visible(padding_mask(src_ids, self.config.pad_id))
        x = src.pack(self.src_embedding(src_ids, src_positions.queries))
        memory = self.encoder(x, src_mask._replace(packing=Packing(src, src)), src_positions)
        if causal_mask is not None:
            causal_mask = causal_mask._replace(packing=Packing(tgt, tgt))
        memory_mask = src_mask._replace(packing=Packing(tgt, src))
        x = tgt.pack(self.tgt_embedding(tgt_in_ids, positions.queries))
        return self.decoder(x, memory, causal_mask, memory_mask, positions)  # type: ignore[no-any-return]  # as above

    def encode(
        self, src_ids: Int[Tensor, "batch src"]
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """The memory of each source position, and the mask that hides padding in it."""
        check_ids("src_ids", src_ids, self.src_embedding.tokens, self.config)
        src_mask = padding_mask(src_ids, self.config.pad_id)
        src_mask = tap(self, "src_mask", src_mask, "batch one one src")
        positions = Positions.from_length(src_ids.shape[1], src_ids.device)
        x = self.src_embedding(src_ids, positions.queries)
        return self.encoder(x, Mask.from_visible(src_mask), positions), src_mask

    def decode(
        self,
        tgt_in_ids: Int[Tensor, "batch tgt"],
        memory: Float[Tensor, "batch src d_model"],
        memory_mask: Bool[Tensor, "batch 1 1 src"] | Mask,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch tgt vocab"]:
        """The logits of the given target positions; with a cache they follow those of the calls before.

        With a ``BeamCache`` a row of ``tgt_in_ids`` holds the next id of each hypothesis of a source. For many
        calls, pass ``Mask.from_visible(memory_mask)``, so that the mask is examined once.
        """
        hidden = self.decode_hidden(tgt_in_ids, memory, memory_mask, cache)
        return self.output_projection(hidden)  # type: ignore[no-any-return]  # nn.Module.__call__ is untyped

    def decode_hidden(
        self,
        tgt_in_ids: Int[Tensor, "batch tgt"],
        memory: Float[Tensor, "batch src d_model"],
        memory_mask: Bool[Tensor, "batch 1 1 src"] | Mask,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch tgt d_model"]:
        """The output of ``decode`` before the output projection."""
        check_cache(cache, self.config)
        check_ids("tgt_in_ids", tgt_in_ids, self.tgt_embedding.tokens, self.config, cache)
        check_memory(tgt_in_ids, memory, memory_mask, cache, self.config)
        extended = self.new_cache() if cache is None else cache
        positions, mask = extended.extend(len(tgt_in_ids), tgt_in_ids.shape[1], tgt_in_ids.device)
        if mask is not None:
            visible = tap(self, "causal_mask", mask.visible, extended.mask_axes)
            if visible is not mask.visible:  # an edit
                mask = Mask.from_visible(visible)
        if not isinstance(memory_mask, Mask):
            memory_mask = Mask.from_visible(memory_mask)
        x = self.tgt_embedding(tgt_in_ids, positions.queries)
        return self.decoder(x, memory, mask, memory_mask, positions, cache)  # type: ignore[no-any-return]  # as above

    def new_cache(self) -> DecoderCache:
        """An empty cache for one batch of translations."""
        return DecoderCache(self.config.n_decoder_layers, self.config.autoregressive_sublayer)

    def new_beam_cache(self) -> BeamCache:
        """An empty cache for one batch of sources, whose hypotheses are slots of one row."""
        return BeamCache(self.config.n_decoder_layers, self.config.autoregressive_sublayer)

    def use_fused_attention(self, on: bool = True, *, in_traces: bool = False) -> None:
        """Let one kernel of torch's own, which keeps no weights, compute equation 1, or the plain lines again.

        Outputs and gradients are the same up to rounding. Relative and ALiBi self-attention stays plain, as does a
        trace, so that scores and weights can be seen, unless ``in_traces`` records what the kernel does.
        """
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                module.fused, module.fused_in_traces = on, in_traces

    def _initialise(self) -> None:
        """Xavier uniform for matrices, zeros for biases; embeddings of variance 1 once scaled.

        Queries, keys and values begin as Xavier has them for the three as one matrix, as in
        torch.nn.MultiheadAttention and fairseq: 1/√2 as large. With larger ones, a post-norm encoder that learned at
        a high rate made its outputs at all positions equal.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, MultiHeadAttention):
                    for projection in (module.w_q, module.w_k, module.w_v):
                        projection.weight.mul_(math.sqrt(0.5))
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
