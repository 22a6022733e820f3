"""The one place that chooses among the searches."""

import math
from collections.abc import Generator, Sequence
from itertools import takewhile

import torch
from torch import Tensor

from glassformer.decoding.search.beam import SearchState
from glassformer.decoding.search.beam_search import beam_steps
from glassformer.decoding.search.greedy import greedy_search, is_greedy
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output, run_to_end
from glassformer.decoding.search.sampling import SampleState, sample_steps
from glassformer.decoding.search.steps import Steps, pad_ids
from glassformer.trace import is_tracing, note


def search_steps(steps: Steps, job: SearchJob) -> Generator[SearchState | SampleState, None, list[list[Output]]]:
    """A state a step; returns each source's candidates, best first."""
    return sample_steps(steps, job) if job.options.sample else beam_steps(steps, job)


def search(steps: Steps, job: SearchJob) -> list[list[Output]]:
    """Each source's candidates as ``rank_outputs`` orders them; ``steps`` has a row a source.

    A trace records greedy search as a beam search with beam 1, which gives the same. ``InputError`` for impossible
    constraints, and for required phrases with sampling.
    """
    if is_greedy(job) and not is_tracing():
        return greedy_search(steps, job)
    found = run_to_end(search_steps(steps, job))
    if is_tracing():
        for name, value in result_tensors(found, steps.config.pad_id, steps.device).items():
            note(f"search.{name}", value, "batch n_best tgt" if name == "results" else "batch n_best")
    return found


def result_tensors(found: Sequence[Sequence[Output]], pad_id: int, device: torch.device) -> dict[str, Tensor]:
    """Each source's outputs: ids (batch n_best tgt), log_probs, scores, whether they ended.

    Missing ones have padding, -inf and False.
    """
    most = max(map(len, found))
    nothing = Output([], -math.inf, -math.inf, truncated=True)
    flat = [one for of_source in found for one in (*of_source, *[nothing] * (most - len(of_source)))]
    values = {
        "results": pad_ids([one.ids for one in flat], pad_id, device),
        "result_log_probs": torch.tensor([one.log_prob for one in flat], device=device),
        "result_scores": torch.tensor([one.score for one in flat], device=device),
        "result_ended": torch.tensor([not one.truncated for one in flat], device=device),
    }
    return {name: value.view(len(found), most, *value.shape[1:]) for name, value in values.items()}


class CertainPrefix:
    """The ids with which all hypotheses of a one-source job begin."""

    def __init__(self) -> None:
        self._samples: dict[int, list[int]] = {}

    def update(self, state: SearchState | SampleState) -> list[int]:
        """The shared ids after a step; after eos there may be padding."""
        if isinstance(state, SampleState):  # finished samples leave the state, but count
            self._samples |= zip(state.samples.tolist(), state.ids.tolist(), strict=True)
            hypotheses = list(self._samples.values())
        else:  # n_best finished ones suffice
            exists = torch.cat([state.ranking[0], state.finished_scores[0]]) > -math.inf
            hypotheses = torch.cat([state.ids[0], state.finished_ids[0]])[exists].tolist()
        columns = takewhile(lambda ids: len(set(ids)) == 1, zip(*hypotheses, strict=False))
        return [first for first, *_ in columns]
