"""Outputs of two engines compared pair by pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from glassformer.decoding.batching import output_limit, plan_decoding
from glassformer.decoding.engines.engine import Engine
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output
from glassformer.settings import DecodeConfig

Candidates = list[list[Output]]
_ToTokens = Callable[[Sequence[int]], Sequence[Any]]


@dataclass(frozen=True)
class OutputPair:
    """Two engines' outputs of one rank for one source, with their tokens."""

    outputs: tuple[Output, Output]
    tokens: tuple[Sequence[Any], Sequence[Any]]

    @property
    def step(self) -> int | None:
        """The first step, from 0, at which tokens differ; None if none do."""
        return first_difference(*self.tokens)

    @property
    def gap(self) -> float:
        """The difference of the log-probabilities."""
        return abs(self.outputs[0].log_prob - self.outputs[1].log_prob)

    def is_tie(self, tolerance: float) -> bool:
        """Whether scores differ by at most ``tolerance`` · (1 + their size)."""
        one, other = self.outputs
        return are_tied(one.score, other.score, tolerance)


def are_tied(one: float, other: float, tolerance: float) -> bool:
    """Whether two scores differ by at most ``tolerance`` · (1 + their size)."""
    return one == other or abs(one - other) <= tolerance * (1 + abs(one))


def compare_outputs(
    first: Candidates, second: Candidates, to_tokens: tuple[_ToTokens, _ToTokens] = (list, list)
) -> list[list[OutputPair]]:
    """Each source's pairs, best first; ``to_tokens``: if ids differ in meaning."""
    read_first, read_second = to_tokens
    return [
        [OutputPair((a, b), (read_first(a.ids), read_second(b.ids))) for a, b in zip(*candidates, strict=True)]
        for candidates in zip(first, second, strict=True)
    ]


def search_sources(engine: Engine, sources: Sequence[Sequence[int]], options: DecodeConfig) -> Candidates:
    """Each source's candidates, searched in batches of similar length."""
    plan = plan_decoding(list(map(len, sources)), range(len(sources)), options.rows_per_source, options.batch_tokens)
    limits = [output_limit(ids, engine.config, options) for ids in sources]
    jobs = [SearchJob([sources[at] for at in batch], [limits[at] for at in batch], options, batch) for batch in plan]
    found: dict[int, list[Output]] = {}
    for number, result in engine.search(jobs):
        found |= zip(plan[number], result.candidates, strict=True)
    return [found[at] for at in range(len(sources))]


def first_difference(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """The first index at which two sequences differ; None if equal."""
    return next((at for at, pair in enumerate(zip_longest(one, other)) if pair[0] != pair[1]), None)
