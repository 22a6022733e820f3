"""Greedy search, for when nothing but the best id of each step is asked for: what beam search does with a beam of 1.

Nothing is looked at besides and nothing is recorded, so that a step costs little more than the model. Knows nothing
of text.
"""

from collections.abc import Sequence

import torch

from glassformer.config import DecodeConfig
from glassformer.decoding.beam import closed_up
from glassformer.decoding.candidates import Candidate, best, length_penalty, ranked
from glassformer.decoding.constraints import Demands
from glassformer.decoding.filters import has_rules
from glassformer.decoding.steps import Steps


def is_greedy(options: DecodeConfig, demands: Sequence[Demands] | None) -> bool:
    """Whether ``greedy_search`` finds what ``beam_search`` does: no rule, no demand, no score besides the sum."""
    if options.beam > 1 or options.sample or options.coverage_penalty > 0.0 or has_rules(options, None):
        return False
    return demands is None or all(one == Demands() for one in demands)


def greedy_search(steps: Steps, limits: Sequence[int], options: DecodeConfig) -> list[list[Candidate]]:
    """The one candidate of each source; ``steps``, ``limits`` and what is raised are those of ``beam_search``."""
    eos_id = steps.config.eos_id
    outputs: list[list[int]] = [[] for _ in limits]
    log_probs = [0.0 for _ in limits]
    living = list(range(len(limits)))  # the source of each row
    ids = torch.full((len(limits),), steps.config.bos_id, dtype=torch.int64, device=steps.device)
    while living:
        greatest, chosen = best(steps.next_log_probs(ids), 2)  # of equals, the one that beam search takes
        for source, new, log_prob in zip(living, chosen[:, 0].tolist(), greatest[:, 0].tolist(), strict=True):
            outputs[source].append(new)
            log_probs[source] += log_prob
        lives = [outputs[source][-1] != eos_id and len(outputs[source]) < limits[source] for source in living]
        ids = chosen[:, 0]
        if not all(lives):
            kept = closed_up(torch.tensor(lives, device=steps.device))
            living = [living[row] for row in kept.tolist()]
            steps.select(kept)
            ids = ids.index_select(0, kept)
    return [
        ranked([_candidate(output, log_prob, eos_id, options)], 1)
        for output, log_prob in zip(outputs, log_probs, strict=True)
    ]


def _candidate(ids: list[int], log_prob: float, eos_id: int, options: DecodeConfig) -> Candidate:
    score = log_prob / length_penalty(len(ids), options.length_penalty)
    return Candidate(ids, log_prob, score, truncated=ids[-1] != eos_id)
