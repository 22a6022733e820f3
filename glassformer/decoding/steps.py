"""The decoder, one target position at a time: ids in, log-probabilities of the next id out.

Keeps the memory and the cache of a batch and lets their rows be dropped, repeated and reordered. Knows nothing
of how the next id is chosen.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.model import Transformer
from glassformer.trace import note


def token_log_probs(logits: Float[Tensor, "... vocab"], config: ModelConfig) -> Float[Tensor, "... vocab"]:
    """The model's log-probabilities, in float32, with -inf for padding and bos, which no output may hold.

    The others keep what the softmax gave them, so that they say the same as the loss and a trace do.
    """
    log_probs = logits.log_softmax(dim=-1, dtype=torch.float32)
    log_probs[..., config.pad_id] = -math.inf
    log_probs[..., config.bos_id] = -math.inf
    return log_probs


class DecoderSteps:
    """A batch on its way through the decoder; the first step wants bos in every row.

    With ``cached=False`` every step decodes all positions again: the plain walk, which the cache must equal.
    """

    def __init__(self, model: Transformer, src_ids: Int[Tensor, "rows src"], *, cached: bool = True) -> None:
        self._model = model
        self._memory, self._memory_mask = model.encode(src_ids)
        self._cache = model.new_cache() if cached else None
        self._prefix = src_ids.new_empty(len(src_ids), 0)

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """What may follow once ``ids`` stand at the next position of each row."""
        read = ids[:, None]
        if self._cache is None:
            read = self._prefix = torch.cat([self._prefix, read], dim=1)
        note("search.tgt_in_ids", lambda: read, "batch tgt")
        logits = self._model.decode(read, self._memory, self._memory_mask, self._cache)
        log_probs = token_log_probs(logits[:, -1], self._model.config)
        note("search.next_log_probs", lambda: log_probs, "batch vocab")
        return log_probs

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; rows may be dropped or repeated."""
        note("search.rows", lambda: rows, "batch")
        self._memory = self._memory.index_select(0, rows)
        self._memory_mask = self._memory_mask.index_select(0, rows)
        self._prefix = self._prefix.index_select(0, rows)
        if self._cache is not None:
            self._cache.reorder(rows)

    def exchange(self, rows: Int[Tensor, "rows"]) -> None:
        """The same for rows that each stay with their source, so that what is known of sources need not move."""
        note("search.rows", lambda: rows, "batch")
        self._prefix = self._prefix.index_select(0, rows)
        if self._cache is not None:
            for layer in self._cache.layers:
                layer.self_attention.reorder(rows)
