"""What a server has loaded: the models' languages, and the workers with their queue. It is replaced as a whole."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from glassformer.serving.config import ServeConfig
from glassformer.serving.door import Metrics
from glassformer.serving.languages import Languages, read_models
from glassformer.serving.scheduling.batch_queue import BatchQueue
from glassformer.serving.scheduling.worker import WorkerPlan
from glassformer.serving.scheduling.workers import Workers
from glassformer.text.corpus.workers import available_cores

logger = logging.getLogger(__name__)
_PAUSE_S = 0.02


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
        queue = BatchQueue(config)
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
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.queue.open_jobs:
                    await asyncio.sleep(_PAUSE_S)
        self.queue.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self.workers.close()
        self.workers.kill()
