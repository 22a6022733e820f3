"""Worker processes that share the batches of one translator, and its weights in memory unless they are converted.

Two processes with one thread translate more than one process with two: small products do not divide well.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch
from numpy.typing import NDArray
from torch import multiprocessing

from glassformer.decoding.engines.engine import SearchResult
from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output
from glassformer.errors import WorkerError
from glassformer.model import Transformer
from glassformer.model.inference import Precision
from glassformer.text.corpus.workers import available_cores
from glassformer.trace import is_tracing

_Reply = tuple[list[list[Output]], list[NDArray[Any]]]


class WorkerPool(TorchEngine):
    """An engine whose batches are shared by ``workers`` processes, started at the first job, ended by ``close``."""

    def __init__(self, models: Sequence[Transformer], precision: Precision | None, workers: int) -> None:
        """Raises ``ConfigError`` for a precision that is not available here."""
        super().__init__(models, precision)
        self.workers = workers
        self._executor = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(list(models), precision, max(1, available_cores() // workers)),
        )

    def search(self, jobs: Sequence[SearchJob]) -> Iterator[tuple[int, SearchResult]]:
        """The result of each job with the job's number, in the order in which they end.

        One job, or one that a trace records, is done by this process. ``WorkerError`` if a worker ends too early.
        """
        if len(jobs) <= 1 or is_tracing():
            yield from super().search(jobs)
            return
        futures: dict[Future[_Reply], int] = {}
        try:
            for number, job in enumerate(jobs):  # submitting raises, too, if a worker is already known to have ended
                futures[self._executor.submit(_run, job)] = number
            for future in as_completed(futures):
                candidates, attention = future.result()
                yield futures[future], SearchResult(candidates, list(map(torch.from_numpy, attention)))
        except BrokenProcessPool as error:
            raise WorkerError(
                "workers: a worker process ended before its work did: killed, out of memory, or the script that "
                'starts workers does not guard its start by `if __name__ == "__main__":`. Do that, or use '
                "fewer workers or smaller decode.batch_tokens."
            ) from error
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the processes after their current jobs."""
        self._executor.shutdown(cancel_futures=True)


_engines: list[TorchEngine] = []  # in a worker process its engine; empty elsewhere


def _start_worker(models: list[Transformer], precision: Precision | None, threads: int) -> None:
    torch.set_num_threads(threads)
    _engines.append(TorchEngine(models, precision))


def _run(job: SearchJob) -> _Reply:
    """The job's result; attention as arrays, because each tensor would come back with an open file."""
    result = _engines[0].run(job)
    return result.candidates, [one.numpy() for one in result.attention]
