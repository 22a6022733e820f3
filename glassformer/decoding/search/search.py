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
    """The candidates of each source, best first; ``steps`` are at the start, with a row for each source.

    Greedy search has a shorter loop of its own, which a trace does not take: it records a beam search with beam 1,
    whose results are the same. Raises what ``beam_search`` and ``sample`` raise.
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
    """The ids that all hypotheses of one source begin with, live and finished ones, updated after each step."""

    def __init__(self) -> None:
        self._hypotheses: dict[int, list[list[int]]] = {}

    def update(self, state: SearchState | SampleState) -> list[int]:
        """The shared ids after a step; after eos there may be padding."""
        # Samples that are done leave the state; their outputs still count.
        self._hypotheses |= _of_samples(state) if isinstance(state, SampleState) else _of_beams(state)
        every = [ids for hypotheses in self._hypotheses.values() for ids in hypotheses]
        columns = takewhile(lambda ids: len(set(ids)) == 1, zip(*every, strict=False))
        return [first for first, *_ in columns]


def _of_samples(state: SampleState) -> dict[int, list[list[int]]]:
    return {number: [ids] for number, ids in zip(state.samples.tolist(), state.ids.tolist(), strict=True)}


def _of_beams(state: SearchState) -> dict[int, list[list[int]]]:
    """Of the finished ones the n_best suffice: another one never becomes the best again."""
    ids = torch.cat([state.ids, state.finished_ids], dim=1)
    exists = torch.cat([state.ranking, state.finished_scores], dim=1) > -math.inf
    return {number: ids[place, exists[place]].tolist() for place, number in enumerate(state.sentences.tolist())}
