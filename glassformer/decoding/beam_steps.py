"""``Steps`` for beams: the hypotheses of a source are columns of one row, and following the search copies nothing.

``DecoderSteps`` is the plain walk that these must equal, and what a trace records. Knows nothing of how the next id
is chosen.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.decoding.steps import token_log_probs
from glassformer.model import Transformer
from glassformer.model.beams import BeamCache


class BeamSteps:
    """A batch of sources on their way through the decoder, each with equally many hypotheses, at first one."""

    def __init__(self, model: Transformer, src_ids: Int[Tensor, "sources src"]) -> None:
        self._model = model
        self._memory, self._memory_mask = model.encode(src_ids)
        self._cache = BeamCache(model.config.n_decoder_layers)
        self._width = 1

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
        abreast = ids.view(-1, self._width)
        logits = self._model.decode(abreast, self._memory, self._memory_mask, self._cache)
        return token_log_probs(logits.flatten(0, 1), self._model.config)

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; of each source all or as many, and those of a source together."""
        if not len(rows):
            return
        sources: Tensor = torch.unique_consecutive(rows // self._width)
        parents = (rows % self._width).view(len(sources), -1)
        if len(sources) < len(self._memory):
            # Of the memory only the shape is looked at from here on: the cache holds its keys and values.
            self._memory = self._memory[: len(sources)]
            self._memory_mask = self._memory_mask.index_select(0, sources)
            self._cache.reorder(sources)
        self._follow(parents)

    def exchange(self, rows: Int[Tensor, "rows"]) -> None:
        """The same for as many rows, each of which stays with its source."""
        self._follow((rows % self._width).view(-1, self._width))

    def _follow(self, parents: Int[Tensor, "sources hypotheses"]) -> None:
        if parents.shape[1] > 1 or self._width > 1:
            self._cache.follow(parents)
        self._width = parents.shape[1]
