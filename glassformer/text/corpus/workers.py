"""A function over a stream's chunks, in several processes, in order."""

import math
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, TypeVar

from glassformer.errors import TextError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

# Done without a pool: starting one takes as long as encoding 10,000 pairs.
CHUNKS_BEFORE_POOL = 16
_CHUNKS_PER_WORKER = 2  # no process waits, and memory holds them


def available_cores() -> int:
    """The cores that affinity and container leave to this process."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota(Path("/sys/fs/cgroup"))
    return own if quota is None else max(1, min(own, math.ceil(quota)))


def most_workers() -> int:
    """The highest number of processes allowed."""
    return max(16, available_cores())


def cpu_quota(directory: Path) -> float | None:
    """The cores that a control group (version 2 or 1) allows, if limited."""
    try:
        quota, period = (directory / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((directory / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return None
    try:
        return int(quota) / int(period) if int(quota) > 0 else None
    except (ValueError, ZeroDivisionError):  # max
        return None


def map_chunks(function: Callable[[Chunk], Result], chunks: Iterator[Chunk], workers: int) -> Iterator[Result]:
    """``function`` of each chunk, in order; ``TextError`` if a worker dies."""
    yield from map(function, islice(chunks, CHUNKS_BEFORE_POOL if workers > 1 else None))
    first = next(chunks, None)
    if first is not None:
        yield from _map_in_pool(function, first, chunks, workers)


def _map_in_pool(
    function: Callable[[Chunk], Result], first: Chunk, chunks: Iterator[Chunk], workers: int
) -> Iterator[Result]:
    pool = ProcessPoolExecutor(workers, mp_context=_context(), initializer=_start_worker, initargs=(function,))
    try:
        pending: deque[Future[Result]] = deque([pool.submit(_call, first)])
        for chunk in chunks:
            pending.append(pool.submit(_call, chunk))
            if len(pending) >= _CHUNKS_PER_WORKER * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except (BrokenProcessPool, EOFError) as error:  # EOFError: one ended while it started
        raise TextError(
            f"One of {workers} processes that prepare the text ended before its work was done: memory may have run "
            "out, or a script calls this outside of `if __name__ == '__main__':`. Set text.workers to 1."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _context() -> BaseContext:
    """Fresh processes: a fork would copy held locks."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["glassformer.text.corpus.prepare"])
    return context


# Set once, in a worker process.
_function: Callable[[Any], Any] | None = None


def _start_worker(function: Callable[[Any], Any]) -> None:
    global _function  # noqa: PLW0603
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the parent
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # all cores are in use


def _call(chunk: Any) -> Any:
    assert _function is not None
    return _function(chunk)
