"""Decoding one target position at a time: ids in, log-probabilities out.

``DecoderSteps``: a row for each hypothesis, as traced; ``BeamSteps``: a source's hypotheses as slots of one row;
``EnsembleSteps``: the mean of several models.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.decoding.search.job import check_wanted
from glassformer.errors import ConfigError
from glassformer.model import Transformer
from glassformer.model.cache import BeamCache, RowOrder
from glassformer.model.masks import Mask
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.trace import capture, is_tracing, note

_POSITIONS_AT_ONCE = 512  # of the encoder on a CPU


def pad_ids(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Int[Tensor, "batch longest"]:
    """The rows as one int64 tensor, padded on the right with ``pad_id``."""
    longest = max(map(len, rows))
    padded = [[*row, *[pad_id] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.int64, device=device)


def token_log_probs(logits: Float[Tensor, "... vocab"], config: ModelConfig) -> Float[Tensor, "... vocab"]:
    """Float32 log-probabilities, with -inf for padding and bos."""
    log_probs = logits.log_softmax(dim=-1, dtype=torch.float32)
    log_probs[..., config.pad_id] = -math.inf
    log_probs[..., config.bos_id] = -math.inf
    return log_probs


class Steps(Protocol):
    """What a search needs of a model: first a row a source, and bos."""

    config: ModelConfig
    """The model's configuration."""
    device: torch.device
    """Where ids and log-probabilities are."""
    fills_gaps: bool
    """Whether last rows fill the places of dropped ones."""

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """Log-probabilities after ``ids``: float32, -inf for padding and bos."""

    def select(self, rows: Int[Tensor, "new_rows"], *, same_sources: bool = False) -> None:
        """Row i becomes row ``rows[i]``; ``same_sources``: of its source."""

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are not padding."""

    def attention(self) -> Float[Tensor, "rows src"]:
        """The last layer's mean cross-attention at the last step, float32."""


class DecoderSteps:
    """One model's decoder over a batch, a row for each hypothesis.

    Without ``cache`` each step decodes all positions. A coverage penalty keeps attention.
    """

    fills_gaps = False
    _new_cache = staticmethod(Transformer.new_cache)

    def __init__(
        self, model: Transformer, src_ids: Int[Tensor, "rows src"], options: DecodeConfig | None = None
    ) -> None:
        """``src_ids`` end with eos and are padded on the right."""
        options = options or DecodeConfig()
        self._model, self._attends, self.config = model, options.coverage_penalty > 0.0, model.config
        last = model.config.n_decoder_layers - 1
        self._last_attention = model.get_submodule(f"decoder.layers.{last}.cross_attention")
        self._weights: list[Tensor] = []
        self._memory, src_mask = _encode(model, src_ids)
        self.device = self._memory.device
        self._memory_mask = Mask.from_visible(src_mask)
        self._cache = self._new_cache(model) if options.cache else None
        self._prefix = src_ids.new_empty(len(src_ids), 0)

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """See ``Steps``."""
        read = ids[:, None]
        if self._cache is None:
            read = self._prefix = torch.cat([self._prefix, read], dim=1)
        note("search.tgt_in_ids", read, "batch tgt")
        log_probs = token_log_probs(self._decode(read)[:, -1], self.config)
        note("search.next_log_probs", log_probs, "batch vocab")
        return log_probs

    def _decode(self, read: Int[Tensor, "batch tgt"]) -> Float[Tensor, "batch tgt vocab"]:
        check_wanted()
        if not self._attends:
            return self._model.decode(read, self._memory, self._memory_mask, self._cache)
        with capture(self._last_attention, "weights") as self._weights:
            return self._model.decode(read, self._memory, self._memory_mask, self._cache)

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """See ``Steps``."""
        return self._memory_mask.visible[:, 0, 0]

    def attention(self) -> Float[Tensor, "rows src"]:
        """See ``Steps``; ``ConfigError`` if no attention was kept."""
        attention = self._last_weights()[:, :, -1].float().mean(dim=1)
        note("search.attention", attention, "batch src")
        return attention

    def _last_weights(self) -> Float[Tensor, "batch heads tgt src"]:
        if not self._weights:
            raise ConfigError(
                "decode.coverage_penalty: the attention weights of the last step are missing, expected them for the "
                "score. Make the steps with these options, and call model.use_fused_attention without in_traces."
            )
        return self._weights[-1]

    def select(self, rows: Int[Tensor, "new_rows"], *, same_sources: bool = False) -> None:
        """See ``Steps``."""
        note("search.rows", rows, "batch")
        self._prefix = self._prefix.index_select(0, rows)
        if not same_sources:
            self._memory = self._memory.index_select(0, rows)
            self._memory_mask = self._memory_mask.reorder(rows)
            if self._cache is not None:
                self._cache.reorder(rows)
        elif self._cache is not None:
            for layer in self._cache.layers:
                layer.autoregressive.reorder(rows)


class BeamSteps(DecoderSteps):
    """Each source's hypotheses as slots of one row: no keys are copied."""

    fills_gaps = True
    _new_cache = staticmethod(Transformer.new_beam_cache)
    _cache: BeamCache

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """See ``Steps``."""
        logits = self._decode(ids.view(len(self._memory), -1))
        return token_log_probs(logits.flatten(0, 1), self.config)

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """See ``Steps``."""
        return super().source_mask.repeat_interleave(self._cache.slots, dim=0)

    def attention(self) -> Float[Tensor, "rows src"]:
        """See ``Steps``; ``ConfigError`` if no attention was kept."""
        return self._last_weights().float().mean(dim=1).flatten(0, 1)

    def select(self, rows: Int[Tensor, "new_rows"], *, same_sources: bool = False) -> None:
        """See ``Steps``; each source keeps the same number of rows, or none."""
        if not len(rows):
            return
        slots, before = self._cache.slots, len(self._memory)
        if not same_sources:
            sources: Tensor = torch.unique_consecutive(rows // slots)
            if len(sources) < before:
                order = RowOrder(sources, before)
                self._memory = order.apply(self._memory)
                self._memory_mask = self._memory_mask.reorder(sources)
                self._cache.reorder_sources(order)
        self._cache.reorder((rows % slots).view(len(self._memory), -1))


def mean_log_probs(log_probs: Float[Tensor, "models ..."]) -> Float[Tensor, "..."]:
    """The log of the models' mean probability; -inf where all are."""
    return log_probs.logsumexp(dim=0) - math.log(len(log_probs))


class EnsembleSteps:
    """Several models as one, with the same ids, rows and device."""

    def __init__(self, members: Sequence[Steps]) -> None:
        self._members, first = members, members[0]
        # All share vocabulary, control ids, device and kind.
        self.config, self.device, self.fills_gaps = first.config, first.device, first.fills_gaps

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """See ``Steps``."""
        return mean_log_probs(torch.stack([member.next_log_probs(ids) for member in self._members]))

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """See ``Steps``."""
        return self._members[0].source_mask

    def attention(self) -> Float[Tensor, "rows src"]:
        """The mean of the models' attention at the last step."""
        return torch.stack([member.attention() for member in self._members]).mean(dim=0)

    def select(self, rows: Int[Tensor, "new_rows"], *, same_sources: bool = False) -> None:
        """See ``Steps``."""
        for member in self._members:
            member.select(rows, same_sources=same_sources)


def _encode(
    model: Transformer, src_ids: Int[Tensor, "sources src"]
) -> tuple[Float[Tensor, "sources src d_model"], Bool[Tensor, "sources 1 1 src"]]:
    """``encode``; on a CPU in parts that fit its cache."""
    width = src_ids.shape[1]
    at_once = max(1, _POSITIONS_AT_ONCE // max(1, width))
    if src_ids.device.type != "cpu" or len(src_ids) <= at_once or is_tracing():
        return model.encode(src_ids)
    lengths = (src_ids != model.config.pad_id).sum(dim=1)
    parts = zip(torch.split(src_ids, at_once), torch.split(lengths, at_once), strict=True)
    encoded = [model.encode(ids[:, : max(1, int(longest.max()))]) for ids, longest in parts]
    memories, masks = zip(*encoded, strict=True)
    return (
        torch.cat([pad(memory, (0, 0, 0, width - memory.shape[1])) for memory in memories]),
        torch.cat([pad(mask, (0, width - mask.shape[-1])) for mask in masks]),
    )
