"""The strategies: greedy search, beam search and sampling. This is the one place that chooses among them."""

from collections.abc import Generator, Sequence

from glassformer.config import DecodeConfig
from glassformer.decoding.beam import SearchState
from glassformer.decoding.beam_search import beam_steps
from glassformer.decoding.candidates import Candidate, run_to_end
from glassformer.decoding.greedy import greedy_search, is_greedy
from glassformer.decoding.request import Constraints
from glassformer.decoding.sampling import SampleState, sample_steps
from glassformer.decoding.steps import Steps
from glassformer.trace import is_tracing


def search_steps(
    steps: Steps,
    limits: Sequence[int],
    options: DecodeConfig,
    sample_keys: Sequence[int],
    constraints: Sequence[Constraints] | None = None,
) -> Generator[SearchState | SampleState, None, list[list[Candidate]]]:
    """Beam search or sampling, one state a step; returns the candidates of each source, best first."""
    if options.sample:
        return sample_steps(steps, limits, options, sample_keys, constraints)
    return beam_steps(steps, limits, options, constraints)


def search(
    steps: Steps,
    limits: Sequence[int],
    options: DecodeConfig,
    sample_keys: Sequence[int],
    constraints: Sequence[Constraints] | None = None,
) -> list[list[Candidate]]:
    """The candidates of each source, best first; ``limits`` are the maximum lengths of the outputs.

    Greedy search has a shorter loop of its own, which a trace does not take: it records a beam search with beam 1,
    whose results are the same. Raises what ``beam_search`` and ``sample`` raise.
    """
    if is_greedy(options, constraints) and not is_tracing():
        return greedy_search(steps, limits, options)
    return run_to_end(search_steps(steps, limits, options, sample_keys, constraints))
