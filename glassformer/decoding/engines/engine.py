"""The engine protocol: what translating asks of whatever runs a model, from source ids to candidates."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output
from glassformer.errors import ConfigError
from glassformer.settings import ModelConfig
from glassformer.text.corpus.workers import available_cores, most_workers

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@dataclass(frozen=True)
class SearchResult:
    """The candidates of each source, best first, and if it was wanted the cross-attention of the best."""

    candidates: list[list[Output]]
    attention: "Sequence[Float[Tensor, 'layers heads tgt src']]"
    engine: str = "torch"
    """What searched: torch or ctranslate2."""


class Engine(Protocol):
    """Runs a model, or an ensemble. Its options, ids and results are plain values."""

    config: ModelConfig
    """The model's configuration; of an ensemble the first model's, with the shortest maximum length."""
    mean_attention: bool
    """Whether attention is the mean of the last layer's heads, with one layer and one head."""

    @property
    def workers(self) -> int:
        """The processes or threads that share the batches of one call of ``search``."""

    @property
    def max_efficient_sources(self) -> int | None:
        """The sources of a batch from which on a larger one is slower; None if there is no such number."""

    def search(self, jobs: Sequence[SearchJob]) -> Iterator[tuple[int, SearchResult]]:
        """The result of each job with the job's number, in any order."""

    def stream(self, job: SearchJob) -> Generator[list[int], None, list[Output]]:
        """For a job of one source: the ids that are certain after each step; returns the candidates."""

    def attention(
        self, job: SearchJob, outputs: Sequence[Sequence[int]]
    ) -> "list[Float[Tensor, 'layers heads tgt src']]":
        """The cross-attention with which the first model writes each given output."""

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of each id of each target, given its source."""

    def close(self) -> None:
        """Release what the engine holds, such as worker processes."""


def check_workers(workers: int) -> int:
    """The number of workers; raises ``ConfigError`` if it is no whole number, or none that helps here."""
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= most_workers():
        raise ConfigError(
            f"workers: found {workers!r}, expected a whole number from 1 to {most_workers()}. Here "
            f"{available_cores()} would use every core."
        )
    return workers
