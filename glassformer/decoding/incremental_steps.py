"""``Steps`` over the decoder without taps: as many ids a second as there can be, the same log-probabilities.

``DecoderSteps`` is the plain walk that these must equal, and what a trace records. Knows nothing of how the next id
is chosen.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.decoding.steps import token_log_probs
from glassformer.model import Transformer
from glassformer.model.incremental import IncrementalDecoder


class IncrementalSteps:
    """A batch of sources on their way through the decoder.

    ``abreast`` holds the hypotheses of a source as columns of one row: for a search in which every source keeps
    equally many, so that following it copies no key and no value. Else each hypothesis is a row of its own.
    """

    fills_gaps = True

    def __init__(self, model: Transformer, src_ids: Int[Tensor, "sources src"], *, abreast: bool) -> None:
        self._model, self._is_abreast = model, abreast
        memory, self._memory_mask = _encoded(model, src_ids)
        self._decoder = IncrementalDecoder(model, memory, self._memory_mask)

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self._model.config

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._memory_mask.device

    def next_log_probs(self, ids: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """What may follow once ``ids`` stand at the next position of each row."""
        return token_log_probs(self._decoder(ids), self._model.config)

    @property
    def source_mask(self) -> Bool[Tensor, "rows src"]:
        """Which source positions of each row are no padding."""
        return self._memory_mask[:, 0, 0].repeat_interleave(self._decoder.abreast, dim=0)

    def attention(self) -> Float[Tensor, "rows src"]:
        """Where the last step looked."""
        return self._decoder.looked.float().mean(dim=1)

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was; abreast of each source all or as many, and those together."""
        if not len(rows):
            return
        if not self._is_abreast:
            self._reorder(rows)
            return
        width = self._decoder.abreast
        sources: Tensor = torch.unique_consecutive(rows // width)
        parents = (rows % width).view(len(sources), -1)
        if len(sources) < len(self._memory_mask):
            self._reorder(sources)
        self._decoder.follow(parents)

    def exchange(self, rows: Int[Tensor, "rows"]) -> None:
        """The same for as many rows, each of which stays with its source."""
        if self._is_abreast:
            width = self._decoder.abreast
            self._decoder.follow((rows % width).view(-1, width))
        else:
            self._decoder.exchange(rows)

    def _reorder(self, sources: Int[Tensor, "new_sources"]) -> None:
        self._memory_mask = self._memory_mask.index_select(0, sources)
        self._decoder.reorder(sources)


def _encoded(
    model: Transformer, src_ids: Int[Tensor, "sources src"]
) -> tuple[Float[Tensor, "sources src d_model"], Bool[Tensor, "sources 1 1 src"]]:
    """What ``encode`` returns; on a CPU of some sources at a time, so that what lies between stays in its cache."""
    at_once = max(1, _POSITIONS // max(1, src_ids.shape[1]))
    if src_ids.device.type != "cpu" or len(src_ids) <= at_once:
        return model.encode(src_ids)
    memories, masks = zip(*map(model.encode, torch.split(src_ids, at_once)), strict=True)
    return torch.cat(memories), torch.cat(masks)


_POSITIONS = 512
