"""What a server has loaded: worker processes that take batches from the queue; one that ends is replaced.

A batch whose worker ended is tried once more by another one. A worker that takes far too long is ended, and one whose
batch nobody waits for is told so.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from glassformer.errors import GlassformerError, WorkerError
from glassformer.serving.config import ServeConfig
from glassformer.serving.door import Metrics
from glassformer.serving.languages import Languages, read_models
from glassformer.serving.refusal import INTERNAL, Refusal
from glassformer.serving.scheduling.batch_queue import Batch, BatchQueue
from glassformer.serving.scheduling.worker import STOP, Failure, Piece, WorkerPlan, run_worker
from glassformer.text.corpus.workers import available_cores

logger = logging.getLogger(__name__)
_POLL_S = 0.05  # how often a worker that works, and its clients, are looked at
_LOAD_S = 600.0
_GRACE_S = 30.0  # that a batch may take beyond the last deadline of its clients, before its worker is ended
_PAUSE_S = 1.0  # before a worker is started again that could not be started


class WorkerEndedError(Exception):
    """The process has ended, or was ended, before its answer."""


class WorkerProcess:
    """One worker, and the pipe to it."""

    def __init__(self, plan: WorkerPlan, run: Callable[[Connection, WorkerPlan], None] = run_worker) -> None:
        context = get_context("spawn")
        self._connection, self._theirs = context.Pipe()
        self._process = context.Process(target=run, args=(self._theirs, plan), daemon=True)

    @property
    def pid(self) -> int | None:
        """Of the process."""
        return self._process.pid

    async def load(self) -> dict[str, str]:
        """Start it and wait until its models are loaded; the engine of each. Raises what loading raises."""
        await asyncio.to_thread(self._process.start)
        self._theirs.close()
        engines = await self.call(None, lambda: True, time.monotonic() + _LOAD_S)
        if isinstance(engines, Failure):
            raise GlassformerError(engines.message)
        return dict(engines)

    async def call(
        self, message: Any, is_wanted: Callable[[], bool], until: float, pieces: asyncio.Queue[Any] | None = None
    ) -> Any:
        """The answer to a message, after its ``pieces``; ``WorkerEndedError`` if there is none ``until`` then."""
        try:
            if message is not None:
                self._connection.send(message)
            while isinstance(answer := await self._receive(is_wanted, until), Piece):
                if pieces is not None:
                    pieces.put_nowait(answer)
            return answer
        except (EOFError, OSError) as error:
            raise WorkerEndedError from error

    async def _receive(self, is_wanted: Callable[[], bool], until: float) -> Any:
        was_told = False
        while not await self._has_sent():
            if time.monotonic() > until:
                raise WorkerEndedError
            if not was_told and not is_wanted():
                was_told = True
                self._connection.send(STOP)
        return self._connection.recv()

    async def _has_sent(self) -> bool:
        """Whether there is something to receive, now or soon."""
        loop, ready, pipe = asyncio.get_running_loop(), asyncio.Event(), self._connection.fileno()
        loop.add_reader(pipe, ready.set)
        try:
            async with asyncio.timeout(_POLL_S):
                return await ready.wait()
        except TimeoutError:
            return False
        finally:
            if not self._connection.closed:
                loop.remove_reader(pipe)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        if not self._connection.closed:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._connection.close()


class Workers:
    """Some processes that work on one queue; ``engines`` names what translates each model."""

    def __init__(self, plan: WorkerPlan, number: int, queue: BatchQueue, metrics: Metrics) -> None:
        self.queue, self.engines = queue, dict[str, str]()
        self._plan, self._number, self._metrics = plan, number, metrics
        self._processes, self._tasks = list[WorkerProcess](), list[asyncio.Task[None]]()

    @property
    def pids(self) -> list[int]:
        """Of the processes."""
        return [one.pid for one in self._processes if one.pid is not None]

    async def start(self) -> None:
        """Load all models in each process; raises ``GlassformerError`` if that cannot be done."""
        first = await self._start_one()  # alone: it may have to export the models
        others = await asyncio.gather(*(self._start_one() for _ in range(self._number - 1)))
        self._tasks = [asyncio.create_task(self._work(one)) for one in (first, *others)]

    async def _start_one(self) -> WorkerProcess:
        worker = WorkerProcess(self._plan)
        self._processes.append(worker)
        try:
            self.engines = await worker.load()
        except WorkerEndedError as error:
            self._remove(worker)
            raise WorkerError(
                "workers: a worker ended while it loaded its models: killed, or out of memory."
            ) from error
        except GlassformerError:
            self._remove(worker)
            raise
        return worker

    def _remove(self, worker: WorkerProcess) -> None:
        worker.kill()
        self._processes.remove(worker)

    async def _work(self, worker: WorkerProcess) -> None:
        while (batch := await self.queue.take()) is not None:
            try:
                await self._translate(worker, batch)
            except WorkerEndedError:
                self.queue.put_back(batch)
                worker = await self._replace(worker)
            except asyncio.CancelledError:
                for item in batch.items:
                    item.refuse(self.queue.stopping())
                raise

    async def _replace(self, worker: WorkerProcess) -> WorkerProcess:
        self._remove(worker)
        self._metrics.worker_restarts.inc()
        while True:
            logger.warning("a worker ended; another one is started.")
            try:
                return await self._start_one()
            except GlassformerError as error:
                logger.error("%s", error)
                await asyncio.sleep(_PAUSE_S)

    async def _translate(self, worker: WorkerProcess, batch: Batch) -> None:
        began, until = time.monotonic(), max(item.job.deadline for item in batch.items) + _GRACE_S
        message = batch.recipe, [item.text for item in batch.items]
        answers = await worker.call(message, lambda: batch.is_wanted, until, batch.items[0].job.pieces)
        seconds = time.monotonic() - began
        self.queue.measure(batch, seconds)
        self._metrics.batch_seconds.observe(seconds)
        self._metrics.batch_texts.observe(len(batch.items))
        if isinstance(answers, Failure):
            answers = [answers] * len(batch.items)
        for item, answer in zip(batch.items, answers, strict=True):
            if isinstance(answer, Failure):
                item.refuse(refusal_of(answer))
            elif not item.future.done():
                item.future.set_result(answer)

    async def close(self) -> None:
        """End all processes once they have done their batches; the queue has to be closed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.kill()

    def kill(self) -> None:
        """End all processes at once."""
        for task in self._tasks:
            task.cancel()
        for worker in self._processes:
            with suppress(OSError, ValueError):
                worker.kill()
        self._processes.clear()


class Loaded:
    """Models in worker processes, which share one queue."""

    def __init__(self, languages: Languages, queue: BatchQueue, workers: Workers) -> None:
        self.languages, self.queue, self.workers = languages, queue, workers

    @classmethod
    async def load(cls, runs: Sequence[Path], langs: Sequence[str], config: ServeConfig, metrics: Metrics) -> Self:
        """Start the workers; raises ``GlassformerError`` for runs that cannot be served."""
        languages, number = read_models(runs, langs), config.workers or available_cores()
        models = tuple((model.name, model.path) for model in languages.models)
        plan = WorkerPlan(models, config.engine, max(1, available_cores() // number))
        queue = BatchQueue(config, number)
        workers = Workers(plan, number, queue, metrics)
        try:
            await workers.start()
        except BaseException:
            workers.kill()
            raise
        return cls(languages, queue, workers)

    @property
    def engines(self) -> str:
        """What translates, for a person."""
        return " and ".join(sorted(set(self.workers.engines.values()) - {""}))

    async def drain(self, seconds: float) -> None:
        """Take nothing new, finish what was begun within some seconds, refuse the rest, and end the workers."""
        self.queue.is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.queue.open_jobs:
                    await asyncio.sleep(_POLL_S)
        self.queue.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self.workers.close()
        self.workers.kill()


def refusal_of(failure: Failure) -> Refusal:
    """The message to a client about a failure; a fault of ours is logged, without any text."""
    if failure.is_ours:
        logger.error("a worker failed: %s. Please report it.", failure.message)
        return Refusal(500, INTERNAL)
    return Refusal(400, failure.message)
