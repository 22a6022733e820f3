"""One function over the chunks of a stream, on all cores: results come in the order of the chunks.

The first chunks are worked on right here, so that a small corpus starts no process. Which process made a result
cannot be told from it. Knows nothing of what the function does.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

from glassformer.errors import TextError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

# Starting the processes takes as long as encoding some ten thousand pairs.
CHUNKS_ALONE = 16
_CHUNKS_AHEAD = 2  # for each process: enough that none waits, few enough to hold


def available_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[Chunk], Result], chunks: Iterator[Chunk], workers: int) -> Iterator[Result]:
    """``work`` of each chunk, in their order, with so many processes, to which both can be sent.

    Few chunks are held at a time, however many there are. Raises ``TextError`` when a process dies.
    """
    yield from map(work, islice(chunks, CHUNKS_ALONE if workers > 1 else None))
    first = next(chunks, None)
    if first is not None:
        yield from _spread(work, first, chunks, workers)


def _spread(work: Callable[[Chunk], Result], first: Chunk, chunks: Iterator[Chunk], workers: int) -> Iterator[Result]:
    pool = ProcessPoolExecutor(workers, mp_context=_context(), initializer=_hold, initargs=(work,))
    try:
        pending: deque[Future[Result]] = deque([pool.submit(_do, first)])
        for chunk in chunks:
            pending.append(pool.submit(_do, chunk))
            if len(pending) >= _CHUNKS_AHEAD * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise TextError(
            f"One of {workers} processes that prepare the text ended before its work was done: memory may have run "
            "out, or a script calls this outside of `if __name__ == '__main__':`. Set text.workers to 1."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _context() -> BaseContext:
    """Fresh processes: a fork of this one would copy its threads' locks, but not the threads that hold them."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["glassformer.text.prepare"])
    return context


# In a worker process alone: what it does with each chunk, sent to it once.
_work: Callable[[Any], Any] | None = None


def _hold(work: Callable[[Any], Any]) -> None:
    global _work  # noqa: PLW0603
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked is the one to stop
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes fill the cores already


def _do(chunk: Any) -> Any:
    assert _work is not None
    return _work(chunk)
