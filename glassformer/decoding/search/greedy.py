"""Greedy search: a beam search with beam 1 in a short loop, which keeps no state that a trace could show."""

import torch

from glassformer.decoding.search.beam import fill_gaps, top_k
from glassformer.decoding.search.filters import has_processors
from glassformer.decoding.search.job import Constraints, SearchJob
from glassformer.decoding.search.outputs import Output, rank_outputs
from glassformer.decoding.search.steps import Steps


def is_greedy(job: SearchJob) -> bool:
    """Whether ``greedy_search`` gives the result of ``beam_search``: no beam, processor, constraint or coverage."""
    options = job.options
    if options.beam > 1 or options.sample or options.coverage_penalty > 0.0 or has_processors(options, None):
        return False
    return job.constraints is None or all(one == Constraints() for one in job.constraints)


def greedy_search(steps: Steps, job: SearchJob) -> list[list[Output]]:
    """The one candidate of each source; arguments and errors are those of ``beam_search``."""
    eos_id, limits = steps.config.eos_id, job.limits
    outputs: list[list[int]] = [[] for _ in limits]
    log_probs = [0.0 for _ in limits]
    live = list(range(len(limits)))  # the source of each row
    ids = torch.full((len(limits),), steps.config.bos_id, dtype=torch.int64, device=steps.device)
    while live:
        greatest, chosen = top_k(steps.next_log_probs(ids), 2)  # of equals, the one that beam search takes
        best = torch.stack([chosen[:, 0].double(), greatest[:, 0].double()], dim=1)  # both are exact, read at once
        for source, (new, log_prob) in zip(live, best.tolist(), strict=True):
            outputs[source].append(int(new))
            log_probs[source] += log_prob
        lives = [outputs[source][-1] != eos_id and len(outputs[source]) < limits[source] for source in live]
        ids = chosen[:, 0]
        if not all(lives):
            kept = fill_gaps(torch.tensor(lives, device=steps.device))
            live = [live[row] for row in kept.tolist()]
            steps.select(kept)
            ids = ids.index_select(0, kept)
    return [
        rank_outputs([Output.from_log_prob(output, log_prob, job.options, eos_id)], 1)
        for output, log_prob in zip(outputs, log_probs, strict=True)
    ]
