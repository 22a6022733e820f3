"""A cache for hypotheses abreast: all that descend from one source are columns of one row.

What a row of the plain cache is to one hypothesis, a row here is to a whole beam. Each call of ``Transformer.decode``
takes one new id of each hypothesis, so that all columns stand at one position; the mask says from which earlier
columns each descends. A search reorders its hypotheses by changing that mask: no key and no value is ever copied for
it, and the memory of a source is held once. Knows nothing of search.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glassformer.model.cache import AttentionCache, DecoderCache


class AbreastAttentionCache(AttentionCache):
    """Keys and values of all columns of all positions, one call after the other."""

    def __init__(self) -> None:
        super().__init__(grows=True)
        self._columns: list[int] = []

    def span(self, new: int) -> tuple[int, int]:
        """The one position that all new columns stand at."""
        return len(self._columns), len(self._columns) + 1

    @property
    def standing(self) -> Int[Tensor, "key"] | None:
        """The position of each key."""
        counts = torch.tensor(self._columns, device=self.k.device)
        return torch.arange(len(counts), device=counts.device).repeat_interleave(counts)

    def append(self, k: Tensor, v: Tensor) -> None:
        """Take the new columns behind the old ones."""
        super().append(k, v)
        self._columns.append(k.shape[2])


class BeamCache(DecoderCache):
    """The caches of all decoder layers, and from which keys each hypothesis descends."""

    def __init__(self, n_layers: int) -> None:
        super().__init__(n_layers)
        for layer in self.layers:
            layer.self_attention = AbreastAttentionCache()
        self._lineage: Tensor | None = None  # (batch hypotheses key)

    def look_ahead(self, new: int) -> Bool[Tensor, "batch 1 query key"] | None:
        """Each new column sees those that its hypothesis descends from, and itself."""
        if self._lineage is None:
            return None  # one hypothesis, which is empty: the causal mask is right
        own = torch.eye(new, dtype=torch.bool, device=self._lineage.device).expand(len(self._lineage), -1, -1)
        self._lineage = torch.cat([self._lineage, own], dim=2)
        return self._lineage[:, None]

    def follow(self, parents: Int[Tensor, "batch new_hypotheses"]) -> None:
        """Hypothesis i of each row now continues what hypothesis ``parents[i]`` of it was."""
        lineage = self._lineage
        if lineage is None:
            lineage = torch.ones(len(parents), 1, self.length, dtype=torch.bool, device=parents.device)
        self._lineage = lineage.gather(1, parents[:, :, None].expand(-1, -1, lineage.shape[2]))

    def reorder(self, rows: Int[Tensor, "new_batch"]) -> None:
        """Keep these rows: the sources whose search goes on."""
        super().reorder(rows)
        if self._lineage is not None:
            self._lineage = self._lineage.index_select(0, rows)
