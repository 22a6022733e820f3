"""Worker processes that take batches from the queue; one that ends is replaced, and its batch tried once more.

A worker that takes far too long is killed. One whose batch nobody waits for is asked to stop.
"""

import asyncio
import logging
import time
from contextlib import suppress
from multiprocessing import get_context
from typing import Any, Self

from glassformer.errors import GlassformerError, WorkerError
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError, place_of
from glassformer.serving.languages import Languages
from glassformer.serving.middleware import Metrics
from glassformer.serving.scheduling.batch_queue import Batch, BatchQueue
from glassformer.serving.scheduling.pipe import AsyncPipe
from glassformer.serving.scheduling.worker import STOP, WorkerPlan, run_worker
from glassformer.text.corpus.workers import available_cores

logger = logging.getLogger(__name__)
_POLL_S = 0.05  # between two looks whether clients have left
_LOAD_S = 600.0
_GRACE_S = 30.0  # after the last deadline of a batch, before its worker is ended
_PAUSE_S = 1.0  # before a failed start is tried again


class WorkerProcess:
    """One worker and the pipe to it. Methods raise ``WorkerError`` if the process ends before its answer."""

    def __init__(self, plan: WorkerPlan) -> None:
        context = get_context("spawn")
        ours, self._theirs = context.Pipe()
        self._pipe = AsyncPipe(ours)
        self._process = context.Process(target=run_worker, args=(self._theirs, plan), daemon=True)

    async def load(self) -> dict[str, str]:
        """Start it and load its models; the engine of each. Raises what loading raises."""
        self._process.start()
        self._theirs.close()
        self._pipe.start_reading()
        engines = await self._pipe.receive(_LOAD_S)
        if not isinstance(engines, dict):
            raise GlassformerError(str(engines or "workers: a model was not loaded in time."))
        return engines

    async def translate(self, batch: Batch) -> Any:
        """A result or an ``HTTPError`` for each text of a batch; streamed pieces go to its job."""
        until, was_told = max(one.job.deadline for one in batch) + _GRACE_S, False
        await self._pipe.send((batch[0].key, [one.text for one in batch]), _GRACE_S)
        while time.monotonic() < until:
            answer = await self._pipe.receive(_POLL_S)
            if isinstance(answer, str):
                batch[0].job.pieces.put_nowait(answer)
            elif answer is not None:
                return answer
            elif not was_told and all(one.job.is_gone for one in batch):
                was_told = True
                await self._pipe.send(STOP, _GRACE_S)
        raise WorkerError("workers: a worker took too long.")

    def kill(self) -> None:
        """End the process at once, and with it the pipe."""
        self._process.kill()


class ModelWorkers:
    """All models in each of some processes, which share one queue; ``engines`` names the engine of each model."""

    def __init__(
        self, languages: Languages, config: ServeConfig, metrics: Metrics, *, is_background: bool = False
    ) -> None:
        self.languages, self.engines, self._metrics = languages, dict[str, str](), metrics
        self.number = config.workers or available_cores()
        self.queue = BatchQueue(config, self.number)
        models = tuple((model.name, model.path) for model in languages.models)
        self._plan = WorkerPlan(models, config.engine, max(1, available_cores() // self.number), is_background)
        self._workers, self._tasks = set[WorkerProcess](), list[asyncio.Task[None]]()

    async def start(self) -> Self:
        """Load all models in each process; raises ``GlassformerError`` if that cannot be done."""
        try:
            first = await self._start_one()  # alone: it may export the models
            others = await asyncio.gather(*(self._start_one() for _ in range(self.number - 1)))
        except BaseException:
            self.kill()
            raise
        self._tasks = [asyncio.create_task(self._work(one)) for one in (first, *others)]
        return self

    async def _start_one(self) -> WorkerProcess:
        worker = WorkerProcess(self._plan)
        self._workers.add(worker)
        try:
            self.engines = await worker.load()
        except GlassformerError:
            self._end(worker)
            raise
        return worker

    def _end(self, worker: WorkerProcess) -> None:
        worker.kill()
        self._workers.discard(worker)

    async def _work(self, worker: WorkerProcess) -> None:
        while (batch := await self.queue.take()) is not None:
            try:
                await self._translate(worker, batch)
            except Exception as error:  # any: this task must continue
                logger.warning("a worker ended: %s; another one is started.", place_of(error))
                self.queue.put_back(batch)
                worker = await self._replace(worker)
            except asyncio.CancelledError:
                for sentence in batch:
                    sentence.fail(self.queue.stopping())
                raise

    async def _replace(self, worker: WorkerProcess) -> WorkerProcess:
        self._end(worker)
        self._metrics.worker_restarts.inc()
        while True:
            try:
                return await self._start_one()
            except GlassformerError as error:
                logger.error("%s", error)
                await asyncio.sleep(_PAUSE_S)

    async def _translate(self, worker: WorkerProcess, batch: Batch) -> None:
        began = time.monotonic()
        answers = await worker.translate(batch)
        seconds = time.monotonic() - began
        self.queue.measure(batch, seconds)
        self._metrics.batch_seconds.observe(seconds)
        self._metrics.batch_texts.observe(len(batch))
        for sentence, answer in zip(batch, answers, strict=True):
            if isinstance(answer, HTTPError):
                sentence.fail(answer)
            elif not sentence.future.done():
                sentence.future.set_result(answer)

    async def drain(self, seconds: float) -> None:
        """Accept nothing new, finish open jobs within some seconds, refuse the rest, and end the workers."""
        self.queue.is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.queue.open_jobs:
                    await asyncio.sleep(_POLL_S)
        self.queue.close()
        if self._tasks:  # all workers were loaded
            await asyncio.wait(self._tasks, timeout=1.0)
        self.kill()

    def kill(self) -> None:
        """Refuse what waits and end all processes at once."""
        self.queue.close()
        for task in self._tasks:
            task.cancel()
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
