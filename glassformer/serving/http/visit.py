"""What the contracts share: a visit is one request of a client that was let in, and what it may ask of the server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request

from glassformer.documents.report import DocumentReport
from glassformer.errors import GlassformerError
from glassformer.serving.config import ServeConfig
from glassformer.serving.explanations import Explanations
from glassformer.serving.files import Files
from glassformer.serving.http.access import Access, Client
from glassformer.serving.http.parameters import Upload, address_of
from glassformer.serving.languages import Languages
from glassformer.serving.metrics import Metrics
from glassformer.serving.refusal import bad_request
from glassformer.serving.service import Answer, Order, Service, Task

CHECK = "X-Glassformer-Check"


@dataclass
class Serving:
    """All that a server has; an application's ``state.serving``."""

    config: ServeConfig
    metrics: Metrics
    access: Access
    service: Service
    explanations: Explanations
    files: Files

    @property
    def languages(self) -> Languages:
        """Those that are served now."""
        return self.service.loaded.languages


def serving_of(request: Request) -> Serving:
    """The server that a request came to."""
    found: Serving = request.app.state.serving
    return found


class Visit:
    """A client that was let in; ``headers`` go with its answer."""

    def __init__(self, request: Request, key: str, texts: Sequence[str] = ("",), *, cost: int | None = None) -> None:
        """``cost``: what counts for the limit a minute, by default the number of texts. Raises ``Refusal``."""
        self.request, self.serving = request, serving_of(request)
        cost = len(texts) if cost is None else cost
        self.outlives_request = False
        """Whether its work goes on when the client has an answer."""
        self.client: Client
        self.client, self.headers = self.serving.access.admit(key, address_of(request), cost)
        self.serving.access.check_size(list(texts))
        self.serving.metrics.characters.inc(sum(map(len, texts)))

    @property
    def languages(self) -> Languages:
        """Those that are served."""
        return self.serving.languages

    @asynccontextmanager
    async def task(self, *, times: int = 1) -> AsyncIterator[Task]:
        """What translates for this client, until it leaves."""
        is_gone = None if self.outlives_request else self._wait_until_gone
        async with self.serving.service.job(is_gone=is_gone, times=times) as task:
            yield task

    async def translate(self, *orders: Order) -> list[list[Answer]]:
        """The answers to each order; the headers say whether all codes are there."""
        async with self.task() as task:
            answers = await asyncio.gather(*map(task.translate, orders))
        self.tell_check([answer for each in answers for answer in each])
        return answers

    def tell_check(self, answers: Sequence[Answer]) -> None:
        """Say in a header which texts, from 1, lack a code of theirs."""
        changed = [str(number) for number, answer in enumerate(answers, 1) if answer.check]
        self.headers[CHECK] = f"changed {', '.join(changed[:100])}" if changed else "ok"

    async def translate_file(self, upload: Upload, source: str, target: str) -> tuple[Path, DocumentReport]:
        """The translated file, in a directory of its own, and what should be looked at in it."""
        path = self.serving.files.receive(upload)
        out = path.with_stem("translated")
        try:
            async with self.task(times=10) as task:
                report = await task.translate_file(path, out, source, target)
        except GlassformerError as error:
            raise bad_request(str(error).replace(f"{path.parent}/", "").removeprefix(f"{path.name}: ")) from error
        finally:
            path.unlink(missing_ok=True)
        self.headers[CHECK] = "ok" if not report.flagged else f"look at {len(report.flagged)} remarks"
        return out, report

    async def _wait_until_gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def text_of(value: Any, name: str) -> str:
    """A parameter that is one text; ``Refusal`` if it is missing or something else."""
    if value is None or value == "":
        raise bad_request(f"missing {name} parameter")
    if not isinstance(value, str):
        raise bad_request(f"{name} parameter is not a text")
    return value
