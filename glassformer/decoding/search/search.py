"""The strategies: greedy search, beam search and sampling. This is the one place that chooses among them."""

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
    """Beam search or sampling, one state a step; returns the candidates of each source, best first."""
    return sample_steps(steps, job) if job.options.sample else beam_steps(steps, job)


def search(steps: Steps, job: SearchJob) -> list[list[Output]]:
    """The candidates of each source, as ``rank_outputs`` orders them; ``steps`` have a row for each source.

    Greedy search has a loop of its own; a trace records a beam search with beam 1, whose results are the same.
    Raises ``InputError`` for constraints that no output can meet, and for required phrases with sampling.
    """
    if is_greedy(job) and not is_tracing():
        return greedy_search(steps, job)
    found = run_to_end(search_steps(steps, job))
    if is_tracing():
        for name, value in result_tensors(found, steps.config.pad_id, steps.device).items():
            note(f"search.{name}", value, "batch n_best tgt" if name == "results" else "batch n_best")
    return found


def result_tensors(found: Sequence[Sequence[Output]], pad_id: int, device: torch.device) -> dict[str, Tensor]:
    """The ranked outputs of each source: ids (batch n_best tgt), and log_probs, scores and whether they ended.

    A place without an output has padding, -inf and False.
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
    """The ids that all hypotheses of the one source of a job begin with, updated after each step."""

    def __init__(self) -> None:
        self._samples: dict[int, list[int]] = {}

    def update(self, state: SearchState | SampleState) -> list[int]:
        """The shared ids after a step; after eos there may be padding."""
        if isinstance(state, SampleState):  # samples that are done leave the state, but still count
            self._samples |= zip(state.samples.tolist(), state.ids.tolist(), strict=True)
            hypotheses = list(self._samples.values())
        else:  # of the finished ones the n_best suffice: another one never becomes the best again
            exists = torch.cat([state.ranking[0], state.finished_scores[0]]) > -math.inf
            hypotheses = torch.cat([state.ids[0], state.finished_ids[0]])[exists].tolist()
        columns = takewhile(lambda ids: len(set(ids)) == 1, zip(*hypotheses, strict=False))
        return [first for first, *_ in columns]
