"""Worker processes that search beside each other, each with its own copy of the work and one share of the cores.

Two processes of one thread translate more than one of two threads: small products do not divide well. The weights
stand in memory once, shared by all, except those that a precision rounds or lays out anew. Knows nothing of text.

One input translated by all processes of a world: the first deals texts out, and has what comes of them in order.

Some texts for each process are held at a time, so that a file may be of any size. Knows nothing of models.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import multiprocessing

from glassformer.config import DecodeConfig
from glassformer.decoding.candidates import Candidate
from glassformer.decoding.engine import Found, Job, Searcher
from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.errors import ConfigError, WorkerError
from glassformer.model import Transformer
from glassformer.model.linears import Precision
from glassformer.world import World

if TYPE_CHECKING:
    from glassformer.decoding.translator import Translator

_Sent = tuple[list[list[Candidate]], list[NDArray[Any] | None]]


class WorkerPool:
    """``workers`` processes, started at the first job and kept until ``close``."""

    def __init__(self, models: Sequence[Transformer], precision: Precision | None, workers: int) -> None:
        threads = max(1, cores() // workers)
        self._executor = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(list(models), precision, threads),
        )

    def search(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Found]]:
        """What came of each job, with its number, in the order in which they end.

        Raises what a search raises, or ``WorkerError`` when a worker process ends before its work does.
        """
        futures: dict[Future[_Sent], int] = {}
        try:
            for at, job in enumerate(jobs):  # which fails, too, where the end of a worker is known already
                futures[self._executor.submit(_search, job)] = at
            for future in as_completed(futures):
                candidates, attention = future.result()
                weights = [None if one is None else torch.from_numpy(one) for one in attention]
                yield futures[future], Found(candidates, weights)
        except BrokenProcessPool as error:
            raise WorkerError(
                "workers: a worker process ended before its work did: killed, out of memory, or the script that "
                'starts workers does not keep its own start behind `if __name__ == "__main__":`. Do that, or use '
                "fewer workers or smaller decode.batch_tokens."
            ) from error
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the processes once what they do is done."""
        self._executor.shutdown(cancel_futures=True)


def checked_workers(workers: int) -> int:
    """The number of workers; raises ``ConfigError`` for less than one."""
    if workers < 1:
        raise ConfigError(f"workers: found {workers}, expected 1 or more. Here {cores()} would use every core.")
    return workers


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_searchers: list[Searcher] = []  # in a worker process the one that it was begun with; elsewhere none


def _begin(models: list[Transformer], precision: Precision | None, threads: int) -> None:
    torch.set_num_threads(threads)
    _searchers.append(Searcher(models, precision))


def _search(job: Job) -> _Sent:
    """What was found; attention as arrays, for a tensor comes back in shared memory, with an open file for each."""
    found = _searchers[0].search(job)
    return found.candidates, [None if one is None else one.numpy() for one in found.attention]


_Share = tuple[int, list[Request]]  # the number of its first text in the whole input, and the texts


def translate_together(
    translator: "Translator",
    requests: Iterable[Request],
    options: DecodeConfig,
    world: World,
    *,
    attention: bool = False,
    chunk: int = 1000,
) -> Iterator[Translation]:
    """``Translator.translate_stream`` by all processes, each ``chunk`` texts in turn.

    All call it together. The first one alone reads ``requests`` and is handed every translation, in their order;
    the others are handed none.
    """
    rounds = _dealt(requests, chunk, world.size)
    while (share := world.scatter(lambda: next(rounds, None))) is not None:
        start, texts = share
        done = list(translator.translate_stream(texts, options, attention=attention, chunk=chunk, start=start))
        for translations in world.gather(done):
            yield from translations


def _dealt(requests: Iterable[Request], chunk: int, processes: int) -> Iterator[list[_Share]]:
    """Round after round, a share for each process."""
    remaining, start = iter(requests), 0
    while taken := list(islice(remaining, chunk * processes)):
        yield [(start + first, taken[first : first + chunk]) for first in range(0, chunk * processes, chunk)]
        start += len(taken)
