"""Answers that can be explained: what is kept of each for a while, in memory, and the process that explains them.

That process has PyTorch, the lowest priority and a short queue of its own, so that no translation waits for a page.
"""

import asyncio
import os
import time
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from glassformer.errors import GlassformerError, InputError
from glassformer.serving.config import ServeConfig
from glassformer.serving.refusal import Refusal
from glassformer.serving.scheduling.worker import Failure, WorkerPlan, answer_messages
from glassformer.serving.scheduling.workers import WorkerEndedError, WorkerProcess, refusal_of
from glassformer.serving.store import Store, new_id

_MAX_WAITING = 8  # explanations; a page takes seconds
_LIMIT_S = 120.0


class ExplainRequest(NamedTuple):
    """What to explain: a text for a model and its settings; of an answer that was given, its ids."""

    model: str
    text: str
    changes: tuple[tuple[str, Any], ...] = ()
    values: bool = False
    """Whether the walk has every number."""
    page: str = ""
    """The id of the answer, if its page is wanted in place of the walk."""
    ids: tuple[int, ...] = ()


def run_explainer(connection: Connection, plan: WorkerPlan) -> None:
    """Answer messages until the pipe ends."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.nice(19)
    answer_messages(connection, {}, _Explainer(plan).explain)


class _Explainer:
    def __init__(self, plan: WorkerPlan) -> None:
        self._paths = dict(plan.models)
        self._runs = dict[str, Any]()

    def explain(self, request: ExplainRequest) -> Any:
        """The answer with its walk, or the page of one that was given."""
        from glassformer.decoding import Translator
        from glassformer.explain.walks import walk
        from glassformer.run_directory import RunDirectory

        if request.model not in self._runs:
            self._runs[request.model] = RunDirectory(self._paths[request.model]).load("cpu")
        run = self._runs[request.model]
        options = run.config.decode.with_changes(dict(request.changes))
        translator = Translator(run.model, run.src_tokenizer, run.tgt_tokenizer, options)
        if len(request.text.strip().splitlines()) != 1:
            raise InputError("text: found none, or several lines, expected one sentence to explain.")
        made = walk(translator, [request.text.strip()])
        best = translator.translate([made.sentences.sources[0]])[0].hypotheses[0]
        if request.page:
            if tuple(best.ids) != request.ids:
                raise InputError(f"{request.page}: the model has changed since that answer. Ask for a new one.")
            return made.to_page(run=f"{request.model}, answer {request.page}", run_option=None)
        answer = best.to_mapping(attention=False) | {"engine": "torch", "source": made.sentences.sources[0]}
        return answer | {"walk": made.to_mapping(values=request.values)}


class Explanations:
    """Explains by one process, which is started when it is first needed."""

    def __init__(self, plan: WorkerPlan, config: ServeConfig) -> None:
        self._plan, self._config = plan, config
        self._kept = Store[ExplainRequest](config.explain_answers, 60 * config.explain_minutes)
        self._process: WorkerProcess | None = None
        self._turn, self._waiting = asyncio.Lock(), 0

    async def explain(self, request: ExplainRequest, client: str) -> dict[str, Any]:
        """The answer with its walk and the id of its page."""
        answer = dict(await self._call(request))
        number = new_id()
        self._kept.keep(number, request._replace(ids=tuple(answer["ids"]), page=number), client)
        return {"id": number, "page": f"/v1/explain/{number}"} | answer

    async def page(self, number: str, client: str) -> str:
        """The page of an answer; ``Refusal`` for one that is not kept, or was given to somebody else."""
        if (kept := self._kept.find(number, client)) is None:
            raise Refusal(
                404,
                f"there is no such answer: one is kept for {self._config.explain_minutes:g} minutes, for who asked. "
                "Ask again: POST /v1/explain",
            )
        return str(await self._call(kept))

    async def _call(self, request: ExplainRequest) -> Any:
        if self._waiting >= _MAX_WAITING:
            raise Refusal(429, f"Slowdown: {self._waiting} explanations are waiting", retry_after=5)
        self._waiting += 1
        try:
            async with self._turn:
                answer = await self._ask(request)
        finally:
            self._waiting -= 1
        if isinstance(answer, Failure):
            raise refusal_of(answer)
        return answer

    async def _ask(self, request: ExplainRequest) -> Any:
        try:
            if self._process is None:
                self._process = WorkerProcess(self._plan, run_explainer)
                await self._process.load()
            return await self._process.call(request, lambda: True, time.monotonic() + _LIMIT_S)
        except (WorkerEndedError, GlassformerError, asyncio.CancelledError) as error:
            self.close()  # an answer that comes later is for nobody
            if isinstance(error, asyncio.CancelledError):
                raise
            raise Refusal(
                503, "the explanation took too long, or its process ended; ask again", retry_after=5
            ) from error

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process = None
