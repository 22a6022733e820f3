"""Decoding one target position at a time: ids in, log-probabilities of the next id out.

One search runs over any ``Steps``: ``DecoderSteps``, a row for each hypothesis, which a trace records; ``BeamSteps``,
the hypotheses of a source as slots of one row; ``EnsembleSteps``, several models whose probabilities are averaged.
"""

import math
from collections.abc import Sequence
from typing import Protocol, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glassformer.decoding.search.job import check_wanted
from glassformer.errors import ConfigError
from glassformer.model import Transformer
from glassformer.model.cache import BeamCache, DecoderCache, RowOrder
from glassformer.model.masks import Mask
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.trace import capture, is_tracing, note


def pad_ids(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Int[Tensor, "batch longest"]:
    """The rows as one int64 tensor, with ``pad_id`` to the right of the shorter ones."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], dtype=torch.int64, device=device)


def token_log_probs(logits: Float[Tensor, "... vocab"], config: ModelConfig) -> Float[Tensor, "... vocab"]:
    """The model's log-probabilities, in float32, with -inf for padding and bos and nothing else changed."""
    log_probs = logits.log_softmax(dim=-1, dtype=torch.float32)
    log_probs[..., config.pad_id] = -math.inf
    log_probs[..., config.bos_id] = -math.inf
    return log_probs


class Steps(Protocol):
    """What a search needs of a model: the log-probabilities of the next id, and rows that follow the search.

    There is one row for each source at the start; the ids of the first step are bos.
    """

    config: ModelConfig
    """The model's configuration, for its control ids and its vocabulary."""
    device: torch.device
    """The device of the ids and the log-probabilities."""
    fills_gaps: bool
    """Whether dropping rows is cheaper if the last rows take their places; otherwise the order is kept."""

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities after ``ids`` at the next position of each row: float32, -inf for padding and bos."""

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; rows may be dropped or repeated."""

    def reorder_within_sources(self, rows: Int[Tensor, "rows"]) -> None:
        """The same where the number of rows stays, and each row keeps its source."""

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are not padding."""

    def attention(self) -> Float[Tensor, "rows src"]:
        """The last layer's cross-attention at the last step, the mean of its heads, in float32."""


class DecoderSteps:
    """The decoder of one model over a batch, with a row for each hypothesis.

    With ``cached=False`` every step decodes all positions again, with the same result. ``attends`` keeps the
    attention weights of each step, for ``attention``.
    """

    fills_gaps = False

    def __init__(
        self, model: Transformer, src_ids: Int[Tensor, "rows src"], *, cached: bool = True, attends: bool = False
    ) -> None:
        self._model, self._attends, self.config = model, attends, model.config
        last = model.config.n_decoder_layers - 1
        self._last_attention = model.get_submodule(f"decoder.layers.{last}.cross_attention")
        self._weights: list[Tensor] = []
        self._memory, src_mask = _encode(model, src_ids)
        self.device = self._memory.device
        self._memory_mask = Mask.from_visible(src_mask)
        self._cache = self._new_cache() if cached else None
        self._prefix = src_ids.new_empty(len(src_ids), 0)

    @classmethod
    def from_sources(cls, model: Transformer, src_ids: Int[Tensor, "rows src"], options: DecodeConfig) -> Self:
        """As the options need it. ``src_ids`` end with eos and are padded on the right."""
        return cls(model, src_ids, cached=options.cache, attends=options.coverage_penalty > 0.0)

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities after ``ids`` at the next position of each row."""
        read = ids[:, None]
        if self._cache is None:
            read = self._prefix = torch.cat([self._prefix, read], dim=1)
        note("search.tgt_in_ids", read, "batch tgt")
        log_probs = token_log_probs(self._decode(read)[:, -1], self.config)
        note("search.next_log_probs", log_probs, "batch vocab")
        return log_probs

    def _new_cache(self) -> DecoderCache:
        return self._model.new_cache()

    def _decode(self, read: Int[Tensor, "batch tgt"]) -> Float[Tensor, "batch tgt vocab"]:
        check_wanted()
        if not self._attends:
            return self._model.decode(read, self._memory, self._memory_mask, self._cache)
        with capture(self._last_attention, "weights") as self._weights:
            return self._model.decode(read, self._memory, self._memory_mask, self._cache)

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are not padding."""
        return self._memory_mask.visible[:, 0, 0]

    def attention(self) -> Float[Tensor, "rows src"]:
        """The last step's attention; raises ``ConfigError`` if its weights were not kept."""
        attention = self._last_weights()[:, :, -1].float().mean(dim=1)
        note("search.attention", attention, "batch src")
        return attention

    def _last_weights(self) -> Float[Tensor, "batch heads tgt src"]:
        if not self._weights:
            raise ConfigError(
                "decode.coverage_penalty: the attention weights of the last step are missing, expected them for the "
                "score. Make the steps with attends=True, and call model.use_fused_attention without in_traces."
            )
        return self._weights[-1]

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; rows may be dropped or repeated."""
        note("search.rows", rows, "batch")
        self._memory = self._memory.index_select(0, rows)
        self._memory_mask = self._memory_mask.reorder(rows)
        self._prefix = self._prefix.index_select(0, rows)
        if self._cache is not None:
            self._cache.reorder(rows)

    def reorder_within_sources(self, rows: Int[Tensor, "rows"]) -> None:
        """The same where each row keeps its source, so that memory and cross-attention stay as they are."""
        note("search.rows", rows, "batch")
        self._prefix = self._prefix.index_select(0, rows)
        if self._cache is not None:
            for layer in self._cache.layers:
                layer.autoregressive.reorder(rows)


class BeamSteps(DecoderSteps):
    """The hypotheses of each source, equally many, as slots of one row: reordering them copies no keys."""

    fills_gaps = True

    _cache: BeamCache

    def _new_cache(self) -> BeamCache:
        return self._model.new_beam_cache()

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities after ``ids`` at the next position of each row."""
        logits = self._decode(ids.view(len(self._memory), -1))
        return token_log_probs(logits.flatten(0, 1), self.config)

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are not padding."""
        return super().source_mask.repeat_interleave(self._cache.slots, dim=0)

    def attention(self) -> Float[Tensor, "rows src"]:
        """The last step's attention; raises ``ConfigError`` if its weights were not kept."""
        return self._last_weights().float().mean(dim=1).flatten(0, 1)

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; each source keeps the same number of rows, or none."""
        if not len(rows):
            return
        slots, before = self._cache.slots, len(self._memory)
        sources: Tensor = torch.unique_consecutive(rows // slots)
        if len(sources) < before:
            order = RowOrder(sources, before)
            self._memory = order.apply(self._memory)
            self._memory_mask = self._memory_mask.reorder(sources)
            self._cache.reorder_sources(order)
        self._cache.reorder((rows % slots).view(len(sources), -1))

    def reorder_within_sources(self, rows: Int[Tensor, "rows"]) -> None:
        """The same where the number of rows stays, and each row keeps its source."""
        self._cache.reorder((rows % self._cache.slots).view(len(self._memory), -1))


def mean_log_probs(log_probs: Float[Tensor, "models ..."]) -> Float[Tensor, "..."]:
    """The logarithm of the mean of the models' probabilities; -inf where all of them are."""
    return log_probs.logsumexp(dim=0) - math.log(len(log_probs))


class EnsembleSteps:
    """``Steps`` of several models as one. The ids, the rows and the device are the same for all."""

    def __init__(self, members: Sequence[Steps]) -> None:
        self._members, first = members, members[0]
        # All have the same vocabulary and control ids, are on one device and of one kind.
        self.config, self.device, self.fills_gaps = first.config, first.device, first.fills_gaps

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities after ``ids`` at the next position of each row."""
        return mean_log_probs(torch.stack([member.next_log_probs(ids) for member in self._members]))

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are not padding."""
        return self._members[0].source_mask

    def attention(self) -> Float[Tensor, "rows src"]:
        """The mean of the models' attention at the last step."""
        return torch.stack([member.attention() for member in self._members]).mean(dim=0)

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was, in each model."""
        for member in self._members:
            member.select(rows)

    def reorder_within_sources(self, rows: Int[Tensor, "rows"]) -> None:
        """The same where the number of rows stays, and each row keeps its source."""
        for member in self._members:
            member.reorder_within_sources(rows)


def _encode(
    model: Transformer, src_ids: Int[Tensor, "sources src"]
) -> tuple[Float[Tensor, "sources src d_model"], Bool[Tensor, "sources 1 1 src"]]:
    """What ``encode`` returns; on a CPU some sources at a time, so that intermediate values fit its cache.

    Each part is encoded as wide as its own longest source; the mask hides what pads its memory.
    """
    width = src_ids.shape[1]
    at_once = max(1, _POSITIONS // max(1, width))
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


_POSITIONS = 512
