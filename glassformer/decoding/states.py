"""Where a beam search stands: its living and ended hypotheses, and the continuations that it chooses from.

Frozen, and all sentences of a batch at once. What only some searches need is None in the others: ``sums`` where no
rule tells what ranks from what the model says, ``covered`` where no score asks for it. Knows nothing of models.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config import DecodeConfig
from glassformer.decoding.candidate import length_penalty
from glassformer.trace import note

_STATE_AXES = {
    "sentences": "batch", "limits": "batch", "last_penalty": "batch", "ids": "batch beam tgt",
    "log_probs": "batch beam", "ended": "batch", "ended_ids": "batch n_best tgt",
    "ended_log_probs": "batch n_best", "ended_scores": "batch n_best", "sums": "batch beam",
    "covered": "batch beam src",
}  # fmt: skip

DROPPED, LIVES, ENDS = range(3)


@dataclass(frozen=True)
class SearchState:
    """The hypotheses of the sentences that are not done, after ``step`` generated ids (bos is none of them).

    In a diverse search each group of a sentence is searched as a sentence is, and ``sentences`` counts groups.
    Places without a hypothesis have log_prob and score -inf.
    """

    sentences: Tensor  # (sentences)              the source's row in the batch, or row · groups + group
    limits: Tensor  # (sentences)                 most ids, eos included
    last_penalty: Tensor  # (sentences)           the length penalty at that limit
    ids: Tensor  # (sentences beam step)          living hypotheses, best first
    log_probs: Tensor  # (sentences beam)         by the model's own distribution
    ended: Tensor  # (sentences)                  how many have ended so far, kept below or not
    ended_ids: Tensor  # (sentences n_best step)  the best of them, best first, padded behind eos
    ended_log_probs: Tensor  # (sentences n_best)
    ended_scores: Tensor  # (sentences n_best)
    sums: Tensor | None = None  # (sentences beam)         of the log-probabilities that the rules left; ranks
    covered: Tensor | None = None  # (sentences beam src)  attention that each source position has had; padding 1

    @property
    def step(self) -> int:
        """Ids that each living hypothesis has."""
        return self.ids.shape[2]

    @property
    def ranking(self) -> Float[Tensor, "sentences beam"]:
        """The sums by which hypotheses are ranked."""
        return self.log_probs if self.sums is None else self.sums

    def select(self, keep: Int[Tensor, "kept"]) -> Self:
        """The state of some of the sentences."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(
            self, **{name: value.index_select(0, keep) for name, value in values.items() if value is not None}
        )

    def note(self) -> None:
        """Show in a trace where the search stands."""
        for name, axes in _STATE_AXES.items():
            value = getattr(self, name)
            if value is not None:
                note(f"search.{name}", value, axes)


def closed_up(living: Bool[Tensor, "sentences"]) -> Int[Tensor, "kept"]:
    """The sentences that live on; the last take the places of others, so that as few as can be are moved."""
    places = living.nonzero().flatten()
    kept = torch.arange(len(places), device=living.device)
    free = (~living[: len(places)]).nonzero().flatten()
    kept[free] = places[len(places) - len(free) :]
    return kept


def start(
    limits: Sequence[int],
    options: DecodeConfig,
    device: torch.device,
    *,
    has_sums: bool = False,
    covered: Float[Tensor, "sentences src"] | None = None,
) -> SearchState:
    """One living hypothesis for each sentence, which is empty and certain; none has ended."""
    batch = len(limits)
    penalties = [length_penalty(limit, options.length_penalty) for limit in limits]
    nothing = torch.full((batch, options.n_best), -math.inf, device=device)
    return SearchState(
        sentences=torch.arange(batch, device=device),
        limits=torch.tensor(limits, dtype=torch.int64, device=device),
        last_penalty=torch.tensor(penalties, dtype=torch.float32, device=device),
        ids=torch.empty(batch, 1, 0, dtype=torch.int64, device=device),
        log_probs=torch.zeros(batch, 1, device=device),
        ended=torch.zeros(batch, dtype=torch.int64, device=device),
        ended_ids=torch.empty(batch, options.n_best, 0, dtype=torch.int64, device=device),
        ended_log_probs=nothing,
        ended_scores=nothing,
        sums=torch.zeros(batch, 1, device=device) if has_sums else None,
        covered=None if covered is None else covered[:, None],
    )


@dataclass(frozen=True)
class Continuations:
    """The continuations that are looked at, in the order in which they take places: from which, with which id."""

    log_probs: Tensor  # (sentences candidates)
    parents: Tensor  # (sentences candidates)     place in the beam before
    ids: Tensor  # (sentences candidates)
    sums: Tensor | None = None  # (sentences candidates)  as in the state
    keys: Tensor | None = None  # (sentences candidates)  by which they were ordered, where it is not by sums

    @property
    def ranking(self) -> Float[Tensor, "sentences candidates"]:
        """The sums by which they are ranked; -inf where there is none."""
        return self.log_probs if self.sums is None else self.sums

    def at(self, ranks: Int[Tensor, "sentences chosen"]) -> Self:
        """Those at the given ranks of each sentence."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value.gather(1, ranks) for name, value in values.items() if value is not None})

    def note(self) -> None:
        """Show them in a trace."""
        for name in ("keys", "sums", "log_probs", "parents", "ids"):
            value = getattr(self, name)
            if value is not None:
                note(f"search.candidate_{name}", value, "batch candidate")

    def prefixed(self, prefixes: Int[Tensor, "sentences beam step"]) -> Int[Tensor, "sentences candidates longer"]:
        """All ids of each: those of its parent, and its own."""
        index = self.parents[:, :, None].expand(-1, -1, prefixes.shape[2])
        return torch.cat([prefixes.gather(1, index), self.ids[:, :, None]], dim=2)
