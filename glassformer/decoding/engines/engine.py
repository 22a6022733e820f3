"""The engine protocol: from source ids to candidates."""

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
    """Each source's candidates, best first, and the best's attention if wanted."""

    candidates: list[list[Output]]
    attention: "Sequence[Float[Tensor, 'layers heads tgt src']]"
    engine: str = "torch"
    """The engine that searched: torch or ctranslate2."""


class Engine(Protocol):
    """Runs a model or an ensemble; options, ids and results are plain values."""

    config: ModelConfig
    """The configuration; of an ensemble the first's, with the least max_length."""
    mean_attention: bool
    """Whether attention is the last layer's mean: one layer, one head."""

    @property
    def workers(self) -> int:
        """Processes or threads that share the batches of a ``search``."""

    @property
    def max_efficient_sources(self) -> int | None:
        """Sources of a batch beyond which a larger one is slower, if any."""

    def search(self, jobs: Sequence[SearchJob]) -> Iterator[tuple[int, SearchResult]]:
        """Each job's result with its number, in any order."""

    def stream(self, job: SearchJob) -> Generator[list[int], None, list[Output]]:
        """Of a one-source job: certain ids after each step; returns candidates."""

    def attention(
        self, job: SearchJob, outputs: Sequence[Sequence[int]], *, mean: bool = False
    ) -> "list[Float[Tensor, 'layers heads tgt src']]":
        """The first model's cross-attention for each given output; ``mean``: that of the last layer is enough."""

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of each id of each target, given its source."""

    def close(self) -> None:
        """Release what the engine holds, such as processes."""


def check_workers(workers: int) -> int:
    """The number of workers; ``ConfigError`` if wrong, or useless here."""
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= most_workers():
        raise ConfigError(
            f"workers: found {workers!r}, expected a whole number from 1 to {most_workers()}. Here "
            f"{available_cores()} would use every core."
        )
    return workers
