"""The decoder, one target position at a time: ids in, log-probabilities of the next id out.

Keeps the memory and the cache of a batch and lets their rows be dropped, repeated and reordered. Knows nothing
of how the next id is chosen. ``Steps`` is all that a search asks of it, so that one search runs over the plain
model and over whatever else can say what follows.

Several models that decide together: each next id by the mean of their probabilities.

All of them read the same source and write the same target, each with its own memory and cache. Knows nothing of
text; that their vocabularies are one is checked where they are loaded.

``Steps`` over the decoder without taps: as many ids a second as there can be, the same log-probabilities.

``DecoderSteps`` is the plain walk that these must equal, and what a trace records. Knows nothing of how the next id
is chosen.
"""

import math
from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.errors import ConfigError
from glassformer.model import Transformer
from glassformer.model.cache import BeamCache, DecoderCache, RowOrder
from glassformer.model.masks import Mask
from glassformer.trace import capture, is_tracing, note


def pad_ids(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Int[Tensor, "batch longest"]:
    """The rows as one int64 tensor, with ``pad_id`` to the right of the shorter ones."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], dtype=torch.int64, device=device)


def token_log_probs(logits: Float[Tensor, "... vocab"], config: ModelConfig) -> Float[Tensor, "... vocab"]:
    """The model's log-probabilities, in float32, with -inf for padding and bos, which no output may hold.

    The others keep their softmax values, so that they equal those of the loss and of a trace.
    """
    log_probs = logits.log_softmax(dim=-1, dtype=torch.float32)
    log_probs[..., config.pad_id] = -math.inf
    log_probs[..., config.bos_id] = -math.inf
    return log_probs


def mean_of_heads(weights: Float[Tensor, "rows heads tgt src"]) -> Float[Tensor, "rows src"]:
    """Where the last position looked, in float32: each row sums to 1."""
    return weights[:, :, -1].float().mean(dim=1)


class Steps(Protocol):
    """What a search asks of a model: the next id's log-probabilities, and rows that follow the search.

    It begins with one row for each source; the first step wants bos in every row.
    """

    @property
    def config(self) -> ModelConfig:
        """The model's configuration, for its control ids and its vocabulary."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the ids are read and the log-probabilities come back."""
        ...

    @property
    def fills_gaps(self) -> bool:
        """Whether it costs less when the last rows take the places of those that are dropped; else order is kept."""
        ...

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """What may follow once ``ids`` stand at the next position of each row: float32, -inf at pad and bos."""
        ...

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; rows may be dropped or repeated."""
        ...

    def exchange(self, rows: Int[Tensor, "rows"]) -> None:
        """The same where the number of rows stays, and each row keeps its source."""
        ...


@runtime_checkable
class AttendingSteps(Steps, Protocol):
    """Steps that tell where the decoder looked, for scores that count coverage."""

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are no padding."""
        ...

    def attention(self) -> Float[Tensor, "rows src"]:
        """The last layer's cross-attention at the last step, the mean of its heads, in float32."""
        ...


def require_attention(steps: Steps) -> AttendingSteps:
    """The same steps, known to tell where they look; raises ``ConfigError`` when they do not."""
    if not isinstance(steps, AttendingSteps):
        raise ConfigError(
            f"decode.coverage_penalty: found {type(steps).__name__}, expected steps that tell where the decoder "
            "looks, as DecoderSteps do. Use them, or set coverage_penalty to 0."
        )
    return steps


class DecoderSteps:
    """A batch on its way through the decoder of one model, each hypothesis a row.

    With ``cached=False`` every step decodes all positions again, which the cache must equal. ``attends`` keeps where
    each step looked, for ``attention``.
    """

    fills_gaps = False

    def __init__(
        self, model: Transformer, src_ids: Int[Tensor, "rows src"], *, cached: bool = True, attends: bool = False
    ) -> None:
        self._model, self._attends = model, attends
        self._last_attention = model.get_submodule(
            f"decoder.layers.{model.config.n_decoder_layers - 1}.cross_attention"
        )
        self._weights: list[Tensor] = []
        self._memory, src_mask = _encode(model, src_ids)
        self._memory_mask = Mask.of(src_mask)
        self._cache = self._new_cache() if cached else None
        self._prefix = src_ids.new_empty(len(src_ids), 0)

    @classmethod
    def of(cls, model: Transformer, src_ids: Int[Tensor, "rows src"], options: DecodeConfig) -> Self:
        """With what the options ask of the decoder. ``src_ids`` end with eos and are padded on the right."""
        return cls(model, src_ids, cached=options.cache, attends=options.coverage_penalty > 0.0)

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self._model.config

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._memory.device

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """What may follow once ``ids`` stand at the next position of each row."""
        read = ids[:, None]
        if self._cache is None:
            read = self._prefix = torch.cat([self._prefix, read], dim=1)
        note("search.tgt_in_ids", read, "batch tgt")
        log_probs = token_log_probs(self._decode(read)[:, -1], self._model.config)
        note("search.next_log_probs", log_probs, "batch vocab")
        return log_probs

    def _new_cache(self) -> DecoderCache:
        return self._model.new_cache()

    def _decode(self, read: Int[Tensor, "batch tgt"]) -> Float[Tensor, "batch tgt vocab"]:
        if not self._attends:
            return self._model.decode(read, self._memory, self._memory_mask, self._cache)
        with capture(self._last_attention, "weights") as self._weights:
            return self._model.decode(read, self._memory, self._memory_mask, self._cache)

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are no padding."""
        return self._memory_mask.visible[:, 0, 0]

    def attention(self) -> Float[Tensor, "rows src"]:
        """Where the last step looked; raises ``ConfigError`` when its weights were not kept."""
        attention = mean_of_heads(self._last_weights())
        note("search.attention", attention, "batch src")
        return attention

    def _last_weights(self) -> Float[Tensor, "batch heads tgt src"]:
        if not self._weights:
            raise ConfigError(
                "decode.coverage_penalty: the attention weights of the last step are not there, expected them for "
                "the score. Make the steps with attends=True, and call model.use_fused_attention without in_traces."
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

    def exchange(self, rows: Int[Tensor, "rows"]) -> None:
        """The same for rows that each stay with their source, so that what is known of sources need not move."""
        note("search.rows", rows, "batch")
        self._prefix = self._prefix.index_select(0, rows)
        if self._cache is not None:
            for layer in self._cache.layers:
                layer.self_attention.reorder(rows)


class BeamSteps(DecoderSteps):
    """The same with the hypotheses of a source as slots of one row: following a search copies no keys.

    For a search in which every source has equally many hypotheses, and the rows of a source stand together.
    """

    fills_gaps = True

    _cache: BeamCache

    def _new_cache(self) -> BeamCache:
        return self._model.new_beam_cache()

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """What may follow once ``ids`` stand at the next position of each row."""
        logits = self._decode(ids.view(len(self._memory), -1))
        return token_log_probs(logits.flatten(0, 1), self._model.config)

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are no padding."""
        return super().source_mask.repeat_interleave(self._cache.slots, dim=0)

    def attention(self) -> Float[Tensor, "rows src"]:
        """Where the last step looked; raises ``ConfigError`` when its weights were not kept."""
        return self._last_weights().float().mean(dim=1).flatten(0, 1)

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; each source keeps the same number of rows, or none."""
        if not len(rows):
            return
        slots, before = self._cache.slots, len(self._memory)
        sources: Tensor = torch.unique_consecutive(rows // slots)
        if len(sources) < before:
            order = RowOrder(sources, before)
            self._memory = order.of(self._memory)
            self._memory_mask = self._memory_mask.reorder(sources)
            self._cache.reorder_sources(order)
        self._cache.reorder((rows % slots).view(len(sources), -1))

    def exchange(self, rows: Int[Tensor, "rows"]) -> None:
        """The same where the number of rows stays, and each row keeps its source."""
        self._cache.reorder((rows % self._cache.slots).view(len(self._memory), -1))


def mean_log_probs(log_probs: Float[Tensor, "models ..."]) -> Float[Tensor, "..."]:
    """The logarithm of the mean of the models' probabilities; -inf where all of them say so."""
    return log_probs.logsumexp(dim=0) - math.log(len(log_probs))


class EnsembleSteps:
    """``Steps`` of several models as one. The ids, the rows and the device are the same for all."""

    def __init__(self, members: Sequence[Steps]) -> None:
        self._members = members

    @property
    def config(self) -> ModelConfig:
        """That of the first; all have its vocabulary and control ids."""
        return self._members[0].config

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self._members[0].device

    @property
    def fills_gaps(self) -> bool:
        """As the first says."""
        return self._members[0].fills_gaps

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """What may follow once ``ids`` stand at the next position of each row."""
        return mean_log_probs(torch.stack([member.next_log_probs(ids) for member in self._members]))

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are no padding."""
        return require_attention(self._members[0]).source_mask

    def attention(self) -> Float[Tensor, "rows src"]:
        """The mean of where the models looked at the last step."""
        return torch.stack([require_attention(member).attention() for member in self._members]).mean(dim=0)

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was, in each model."""
        for member in self._members:
            member.select(rows)

    def exchange(self, rows: Int[Tensor, "rows"]) -> None:
        """The same where the number of rows stays, and each row keeps its source."""
        for member in self._members:
            member.exchange(rows)


def _encode(
    model: Transformer, src_ids: Int[Tensor, "sources src"]
) -> tuple[Float[Tensor, "sources src d_model"], Bool[Tensor, "sources 1 1 src"]]:
    """What ``encode`` returns; on a CPU of some sources at a time, so that what lies between stays in its cache."""
    at_once = max(1, _POSITIONS // max(1, src_ids.shape[1]))
    if src_ids.device.type != "cpu" or len(src_ids) <= at_once or is_tracing():
        return model.encode(src_ids)
    memories, masks = zip(*map(model.encode, torch.split(src_ids, at_once)), strict=True)
    return torch.cat(memories), torch.cat(masks)


_POSITIONS = 512
