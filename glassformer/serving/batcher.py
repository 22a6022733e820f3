"""Batches: what all clients ask of engines waits in one queue, and threads run what is of one kind together.

A request has only a few searches in the queue at a time, so that a short text does not wait for all of a long one.
"""

import ctypes
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from glassformer.decoding.engines.engine import Engine, SearchResult
from glassformer.decoding.search.job import SearchJob, check_wanted
from glassformer.serving.middleware import Metrics

_MAX_SOURCES, _MAX_TOKENS = 32, 1024  # of a batch; more are not faster
_CLOSING_S = 5.0
_TRIM_S = 10.0  # between two trims of memory; one takes about 20 ms


@dataclass(eq=False)
class _Waiting:
    """A search for an engine, or the attention for ``outputs``, and its future; one that is cancelled is not run."""

    engine: Engine
    job: SearchJob
    outputs: Sequence[Sequence[int]] | None = None
    mean: bool = False
    future: "Future[Any]" = field(default_factory=Future)
    came: float = field(default_factory=time.monotonic)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What all of a batch share."""
        job = self.job
        return id(self.engine), job.options, job.attention, job.mean_attention, self.outputs is None, self.mean


class Batcher:
    """Runs searches in threads of its own until it is closed."""

    def __init__(self, threads: int, metrics: Metrics) -> None:
        self._metrics, self._waiting, self._changed = metrics, deque[_Waiting](), threading.Condition()
        self._is_closed, self._trimmed = False, time.monotonic()
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    @property
    def is_working(self) -> bool:
        """Whether something runs what waits."""
        return not self._is_closed and all(thread.is_alive() for thread in self.threads)

    def put(
        self, engine: Engine, job: SearchJob, outputs: Sequence[Sequence[int]] | None = None, *, mean: bool = False
    ) -> "Future[Any]":
        """The future ``SearchResult`` of a job, or the attention for its ``outputs``."""
        one = _Waiting(engine, job, outputs, mean)
        with self._changed:
            self._waiting.append(one)
            self._changed.notify()
        return one.future

    def close(self) -> None:
        """End the threads once they have run their batches; what waits is cancelled."""
        with self._changed:
            self._is_closed = True
            for one in self._waiting:
                one.future.cancel()
            self._changed.notify_all()
        for thread in self.threads:
            thread.join(_CLOSING_S)

    def _work(self) -> None:
        while batch := self._take():
            began = time.monotonic()
            for one in batch:
                self._metrics.queue_seconds.observe(began - one.came)
            try:
                found = _run(batch)
            except Exception as error:
                for one in batch:
                    one.future.set_exception(error)
                continue
            for one, result in zip(batch, found, strict=True):
                one.future.set_result(result)
            self._metrics.batch_seconds.observe(time.monotonic() - began)
            self._metrics.batch_texts.observe(sum(len(one.job.sources) for one in batch))
            if time.monotonic() - self._trimmed > _TRIM_S:
                self._trimmed = time.monotonic()
                trim_memory()

    def _take(self) -> list[_Waiting]:
        """The next batch, once there is one; none when the batcher is closed."""
        batch, sources, tokens = list[_Waiting](), 0, 0
        with self._changed:
            while not batch and not self._is_closed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                while self._waiting:
                    first = self._waiting[0]
                    sources += len(first.job.sources)
                    tokens += sum(map(len, first.job.sources))
                    is_full = sources > _MAX_SOURCES or tokens > _MAX_TOKENS
                    if batch and (is_full or first.kind != batch[0].kind):
                        break
                    self._waiting.popleft()
                    if first.future.set_running_or_notify_cancel():
                        batch.append(first)
        return batch


def _run(batch: Sequence[_Waiting]) -> list[Any]:
    """The results of all, computed as one."""
    first, job = batch[0], _merge([one.job for one in batch])
    ends = accumulate(len(one.job.sources) for one in batch)
    owns = [slice(end - len(one.job.sources), end) for one, end in zip(batch, ends, strict=True)]
    if first.outputs is not None:
        outputs = [output for one in batch for output in one.outputs or ()]
        weights = first.engine.attention(job, outputs, mean=first.mean)
        return [weights[own] for own in owns]
    ((_, found),) = first.engine.search([job])
    return [replace(found, candidates=found.candidates[own], attention=found.attention[own]) for own in owns]


def _merge(jobs: Sequence[SearchJob]) -> SearchJob:
    """One job of the sources of all."""
    return replace(
        jobs[0],
        sources=[source for job in jobs for source in job.sources],
        limits=[limit for job in jobs for limit in job.limits],
        sample_keys=[key for job in jobs for key in job.sample_keys],
        constraints=[one for job in jobs for one in job.constraints or ()],
    )


def trim_memory() -> None:
    """Return free memory to the system: batches of many shapes fragment it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class BatchedEngine:
    """An engine whose work is done in common batches, whoever asks for it; the rest is the engine's own."""

    def __init__(self, engine: Engine, batcher: Batcher) -> None:
        self._engine, self._batcher, self.workers = engine, batcher, len(batcher.threads)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def search(self, jobs: Sequence[SearchJob]) -> Iterator[tuple[int, SearchResult]]:
        """See ``Engine``; as many of the jobs as there are threads wait or run at a time."""
        for start in range(0, len(jobs), self.workers):
            check_wanted()
            futures = [self._batcher.put(self._engine, job) for job in jobs[start : start + self.workers]]
            yield from ((number, future.result()) for number, future in enumerate(futures, start))

    def attention(self, job: SearchJob, outputs: Sequence[Sequence[int]], *, mean: bool = False) -> list[Any]:
        """See ``Engine``."""
        weights: list[Any] = self._batcher.put(self._engine, job, outputs, mean=mean).result()
        return weights
