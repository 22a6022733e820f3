"""Several models that decide together: each next id by the mean of their probabilities.

All of them read the same source and write the same target, each with its own memory and cache. Knows nothing of
text; that their vocabularies are one is checked where they are loaded.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.decoding.steps import Steps, attending


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
        return attending(self._members[0]).source_mask

    def attention(self) -> Float[Tensor, "rows src"]:
        """The mean of where the models looked at the last step."""
        return torch.stack([attending(member).attention() for member in self._members]).mean(dim=0)

    def select(self, rows: Int[Tensor, "new_rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was, in each model."""
        for member in self._members:
            member.select(rows)

    def exchange(self, rows: Int[Tensor, "rows"]) -> None:
        """The same for as many rows, each of which stays with its source."""
        for member in self._members:
            member.exchange(rows)
