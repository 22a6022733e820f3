"""Endpoints as data: where one is, what it reads and answers, and the one way from a request to its handler.

A client is let in before its parameters are looked at. They may be in JSON, a form, several parts of a form, or the
address; what is wrong with one is said in the words of the contract.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from glassformer.documents.report import DocumentReport
from glassformer.errors import GlassformerError
from glassformer.serving.access import Access
from glassformer.serving.config import ServeConfig
from glassformer.serving.door import Metrics
from glassformer.serving.explanations import Explanations
from glassformer.serving.languages import Detected, Languages
from glassformer.serving.refusal import INTERNAL, Refusal, bad_request
from glassformer.serving.service import Answer, Order, Service, Task, Text
from glassformer.serving.store import Files, Upload, delete
from glassformer.text.formats.segment import join_parts
from glassformer.text.lines import without_surrogates

CHECK = "X-Glassformer-Check"
_MAX_FIELDS, _MAX_FILES = 5000, 1


@dataclass
class Serving:
    """All that a server has."""

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


@dataclass(frozen=True)
class Contract:
    """What all endpoints of a contract have in common."""

    key: str = "api_key"
    """The parameter that may have the key; the header Authorization may, too."""
    is_json: bool = False
    """Whether a body is JSON whatever its header says."""
    missing: str = ""
    """The message if a parameter is missing or empty; without it, msgspec's message for a missing one."""
    wrong: Mapping[str, str] = field(default_factory=dict)
    """The message for a wrong value of a parameter, if it is not msgspec's."""


class Nothing(Struct):
    """No parameters."""


@dataclass(frozen=True)
class Endpoint:
    """A path, its methods, and the function that answers."""

    contract: Contract
    methods: str
    path: str
    handler: "Callable[[Visit, Any], Awaitable[Any]]"
    reads: type[Struct] = Nothing
    answers: Any = None
    """What it answers with, where that is a record."""
    texts: tuple[str, ...] = ()
    """The parameters with a client's texts, which count for its limits; the first may be a list."""
    access: Literal["paid", "free", "open"] = "paid"
    """Whether it counts for the limit a minute, or only asks for a key, or is for everybody."""
    closed: tuple[str, str] = ("", "")
    """The setting without which it is closed, and the message then."""

    def route(self, serving: Serving) -> Route:
        """For Starlette."""
        serve = partial(self._serve, serving)
        return Route(self.path, serve, methods=self.methods.split(), name=self.handler.__name__)

    @cached_property
    def lists(self) -> frozenset[str]:
        """The parameters that may be repeated."""
        return frozenset(one.name for one in msgspec.structs.fields(self.reads) if "list[" in str(one.type))

    async def _serve(self, serving: Serving, request: Request) -> Response:
        """The answer to a request; ``Refusal`` for one that is not let in or not understood."""
        values, visit = await self._read(request), Visit(serving, request)
        if self.access != "open":
            found = [values.get(name) for name in self.texts]
            texts = [text for each in found for text in (each if isinstance(each, list) else [each])]
            key = str(values.get(self.contract.key) or "") or bearer(request)
            visit.admit(key, 0 if self.access == "free" else max(1, len(texts)))
            visit.check_size([text for text in texts if isinstance(text, str)])
        setting, message = self.closed
        if setting and not getattr(serving.config, setting):
            raise Refusal(403, message)
        answer = await self.handler(visit, self._convert(values))
        if not isinstance(answer, Response):
            answer = Response(msgspec.json.encode(answer), media_type="application/json")
        answer.headers.update(visit.headers)
        return answer

    async def _read(self, request: Request) -> dict[str, Any]:
        kind = request.headers.get("content-type", "").lower().partition(";")[0]
        is_json = "json" in kind or self.contract.is_json
        if is_json and ((body := await request.body()) or request.method != "GET"):
            return _decode_object(body)
        values = dict[str, list[Any]]()
        for name, value in request.query_params.multi_items():
            values.setdefault(name, []).append(_one_line_end(value))
        async with request.form(max_files=_MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=2**40) as form:
            for name, part in form.multi_items():
                values.setdefault(name, []).append(await _read_part(part))
        return {name: each if name in self.lists and len(each) > 1 else each[0] for name, each in values.items()}

    def _convert(self, values: dict[str, Any]) -> Struct:
        if self.contract.missing:
            values = {name: value for name, value in values.items() if value not in (None, "", [])}
        try:
            return msgspec.convert(values, self.reads, strict=False)
        except msgspec.ValidationError as error:
            raise self._refusal(values, str(error)) from error

    def _refusal(self, values: dict[str, Any], message: str) -> Refusal:
        """What is wrong, as msgspec says it or as the clients of the contract know it."""
        missing, wrong = re.search(r"missing required field `(\w+)`$", message), re.search(r"`\$\.(\w+)", message)
        if missing and self.contract.missing:
            return Refusal(400, self.contract.missing.format(missing[1]))
        if wrong and (known := self.contract.wrong.get(wrong[1])):
            return Refusal(400, known.format(str(values.get(wrong[1]))[:40]))
        return bad_request(message.replace("Object ", "").replace("`$.", "`"))


def bearer(request: Request) -> str:
    """The key in the header Authorization, after Bearer or DeepL-Auth-Key; empty if there is none."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() in ("bearer", "deepl-auth-key") else ""


def _decode_object(body: bytes) -> dict[str, Any]:
    try:
        values = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        values = None
    if not isinstance(values, dict):
        raise Refusal(400, "Invalid JSON format")
    return values


async def _read_part(value: UploadFile | str) -> Upload | str:
    return _one_line_end(value) if isinstance(value, str) else Upload(value.filename or "", await value.read())


def _one_line_end(text: str) -> str:
    return without_surrogates(text.replace("\r\n", "\n").replace("\r", "\n"))


class Visit:
    """One request of a client; ``headers`` go with its answer, ``client`` names who was let in."""

    def __init__(self, serving: Serving, request: Request) -> None:
        self.serving, self.request, self.headers, self.client = serving, request, dict[str, str](), ""
        self.detected = list[Detected]()

    def admit(self, key: str, cost: int) -> None:
        """Raise ``Refusal`` for who may not ask, or not so much now."""
        address = self.request.client.host if self.request.client else ""
        client, headers = self.serving.access.admit(key, address, cost)
        self.client = client.name
        self.headers |= headers

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise ``Refusal`` for more texts or characters than one request may have."""
        self.serving.access.check_size(self.client, texts)
        self.serving.metrics.characters.inc(sum(map(len, texts)))

    @property
    def languages(self) -> Languages:
        """Those that are served."""
        return self.serving.languages

    def sources(self, given: str, texts: Sequence[str]) -> list[str]:
        """The language of each text: the one that is given, or what each seems to be in."""
        if given.strip().lower() in ("", "auto"):
            self.detected = [self.languages.detect(text)[0] for text in texts]
            return [found.language for found in self.detected]
        return [self.languages.read(given)] * len(texts)

    def orders(self, order: Order, texts: Sequence[Text]) -> list[Order]:
        """One like ``order`` for each text, in languages that are served."""
        order = replace(order, target=self.languages.read(order.target))
        sources = self.sources(order.source, [text if isinstance(text, str) else join_parts(text) for text in texts])
        return [replace(order, text=text, source=source) for text, source in zip(texts, sources, strict=True)]

    @asynccontextmanager
    async def task(self, *, times: int = 1, outlives_request: bool = False) -> AsyncIterator[Task]:
        """What translates for this client, until it leaves."""
        is_gone = None if outlives_request else self._wait_until_gone
        async with self.serving.service.job(is_gone=is_gone, times=times) as task:
            yield task

    async def translate(self, *orders: Order) -> list[Answer]:
        """The answer to each order; the headers say which, from 1, lack a code of their source."""
        async with self.task() as task:
            answers = await asyncio.gather(*map(task.translate, orders))
        self.tell_check(answers)
        return answers

    def tell_check(self, answers: Sequence[Answer]) -> None:
        """Say in a header which texts, from 1, lack a code of theirs."""
        changed = [str(number) for number, answer in enumerate(answers, 1) if answer.check]
        self.headers[CHECK] = f"changed {', '.join(changed[:100])}" if changed else "ok"

    async def translate_file(
        self, upload: Upload, given: str, target: str, *, outlives_request: bool = False
    ) -> tuple[Path, DocumentReport]:
        """The translated file, in a directory of its own, and what should be looked at in it."""
        (source,) = self.sources(given, [upload.content[:5000].decode("utf-8", "replace")])
        path = self.serving.files.receive(upload)
        out = path.with_stem("translated")
        try:
            async with self.task(times=10, outlives_request=outlives_request) as task:
                report = await task.translate_file(path, out, source, target)
        except BaseException as error:
            delete(path)
            if not isinstance(error, GlassformerError):
                raise
            raise bad_request(str(error).replace(f"{path.parent}/", "").removeprefix(f"{path.name}: ")) from error
        path.unlink()
        self.headers[CHECK] = "ok" if not report.flagged else f"look at {len(report.flagged)} remarks"
        return out, report

    async def _wait_until_gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def event(body: Any, name: str = "") -> bytes:
    """One server-sent event with a body in JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(body) + b"\n\n"


class _EventStream(StreamingResponse):
    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all in this task, whose time limit is that of the events."""
        async with aclosing(self._events):
            await self.stream_response(send)


async def event_stream(events: AsyncGenerator[bytes, None], error: Callable[[Refusal], bytes]) -> StreamingResponse:
    """A response with the events, each as soon as it is there; ``error`` makes one of a refusal in the middle.

    What fails before the first event is refused as any request is.
    """
    first = await anext(events)

    async def body() -> AsyncGenerator[bytes, None]:
        async with aclosing(events):
            yield first
            try:
                async for one in events:
                    yield one
            except Refusal as refusal:
                yield error(refusal)
            except Exception:
                yield error(Refusal(500, INTERNAL))
                raise

    return _EventStream(body())
