"""Answers that can be explained for a while, and the process that explains them.

That process has PyTorch, the lowest priority and a short queue of its own, so that no translation waits for a page.
"""

import asyncio
from dataclasses import replace
from typing import Any, NamedTuple

from glassformer.errors import GlassformerError
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.languages import Languages
from glassformer.serving.middleware import Metrics
from glassformer.serving.scheduling.batch_queue import BatchKey
from glassformer.serving.scheduling.model_workers import ModelWorkers
from glassformer.serving.service import open_task
from glassformer.serving.store import Store, new_id

_MAX_WAITING = 8  # explanations; a page takes seconds
_LIMIT_S = 120.0


class ExplainRequest(NamedTuple):
    """What to explain: a sentence, with its model and settings; for the page of an answer, its ids."""

    batch_key: BatchKey
    text: str
    values: bool = False  # the walk has every number
    page: str = ""  # the id of the answer whose page is wanted, instead of the walk
    ids: tuple[int, ...] = ()


class Explanations:
    """Explains in one process, which is started when it is first needed."""

    def __init__(self, languages: Languages, config: ServeConfig) -> None:
        self._languages, self._minutes = languages, config.explain_minutes
        self._config = replace(config, engine="torch", workers=1, queue=_MAX_WAITING)
        self._kept = Store[ExplainRequest](config.explain_answers, 60 * config.explain_minutes)
        self._workers: ModelWorkers | None = None
        self._starting = asyncio.Lock()

    async def explain(self, request: ExplainRequest, client: str) -> dict[str, Any]:
        """The answer with its walk and the id of its page."""
        answer = dict(await self._ask(request))
        number = new_id()
        self._kept.keep(number, request._replace(ids=tuple(answer["ids"]), page=number), client)
        return {"id": number, "page": f"/v1/explain/{number}"} | answer

    async def page(self, number: str, client: str) -> str:
        """The page of a client's answer; ``HTTPError`` for one that is not kept."""
        if (kept := self._kept.find(number, client)) is None:
            kept_for = f"one is kept for {self._minutes:g} minutes, for who asked"
            raise HTTPError(404, f"there is no such answer: {kept_for}. Ask again: POST /v1/explain")
        return str(await self._ask(kept))

    async def _ask(self, request: ExplainRequest) -> Any:
        async with open_task(await self._start(), _LIMIT_S) as task:
            (answer,) = await task.ask(request.batch_key, [(request, 1)])
        return answer

    async def _start(self) -> ModelWorkers:
        async with self._starting:
            if self._workers is None:
                self._workers = ModelWorkers(self._languages, self._config, Metrics(), is_background=True)
                try:
                    await self._workers.start()
                except GlassformerError as error:
                    self._workers = None
                    raise HTTPError(503, "explanations could not be started; ask again", retry_after=5) from error
            return self._workers

    async def drain(self, seconds: float) -> None:
        """Finish what was begun within some seconds, refuse the rest, and end the process."""
        if self._workers is not None:
            await self._workers.drain(seconds)

    def close(self) -> None:
        """End the process; a later request starts another one."""
        if self._workers is not None:
            self._workers.kill()
            self._workers = None
