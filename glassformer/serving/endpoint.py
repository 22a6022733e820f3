"""Endpoints as data: where one is, what it reads and answers, and the one way from a request to its handler.

A client is let in before its parameters are looked at. They may be in JSON, a form, several parts of a form, or the
address; what is wrong with one is said in the words of the contract.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec import NODEFAULT, Struct, defstruct
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
from glassformer.serving.languages import Detected
from glassformer.serving.refusal import INTERNAL, Refusal, bad_request, error_body
from glassformer.serving.scheduling.workers import Loaded
from glassformer.serving.service import Answer, Order, Task, Text, open_task
from glassformer.serving.store import Files, Store, Upload, delete
from glassformer.text.codes.code import join_parts
from glassformer.text.lines import without_surrogates

_CHECK = "X-Glassformer-Check"
_MAX_FIELDS, _MAX_FILES = 5000, 1  # of a form
_MAX_GLOSSARIES, _MAX_DOCUMENTS = 1000, 100


@dataclass
class Serving:
    """All that a server has."""

    config: ServeConfig
    metrics: Metrics
    access: Access
    loaded: Loaded
    explanations: Explanations
    files: Files
    glossaries: Store[Any] = field(default_factory=lambda: Store(_MAX_GLOSSARIES))
    """Those of DeepL's clients, as are the ``documents``."""
    documents: Store[Any] = field(default_factory=lambda: Store(_MAX_DOCUMENTS, forget=lambda one: one.forget()))


@dataclass(frozen=True)
class Contract:
    """What all endpoints of a contract have in common."""

    name: str
    key: str = "api_key"  # the parameter that may have the key; the header Authorization may, too
    is_json: bool = False  # whether a body is JSON whatever its header says
    missing: str = ""
    """The message if a parameter is missing or empty; without it, msgspec's message for a missing one."""
    wrong: Mapping[str, str] = field(default_factory=dict)
    """The message for a wrong value of a parameter, if it is not msgspec's."""


@dataclass(frozen=True)
class Endpoint:
    """A path, its methods, and the function that answers: what it takes is read, what it gives is the answer."""

    contract: Contract
    methods: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    texts: tuple[str, ...] = ()
    """The parameters with a client's texts, which count for its limits; the first may be a list."""
    access: Literal["paid", "free", "open"] = "paid"
    """Whether it counts for the limit a minute, or only asks for a key, or is for everybody."""
    closed: tuple[str, str] = ("", "")  # the setting without which it is closed, and the message then

    def route(self, serving: Serving) -> Route:
        """For Starlette."""
        serve = partial(self._serve, serving)
        return Route(self.path, serve, methods=self.methods.split(), name=self.handler.__name__)

    @cached_property
    def reads(self) -> type[Struct]:
        """The parameters of the handler as a record; a handler of many has one parameter, which is that record."""
        given = list(signature(self.handler, eval_str=True).parameters.values())[1:]
        if self._takes_record:
            return cast("type[Struct]", given[0].annotation)
        fields = [(one.name, one.annotation, NODEFAULT if one.default is one.empty else one.default) for one in given]
        return defstruct(f"{self.contract.name}.{self.handler.__name__}", fields, kw_only=True)

    @cached_property
    def answers(self) -> Any:
        """The type of what it answers in JSON; ``Any`` for another response."""
        given = signature(self.handler, eval_str=True).return_annotation
        kinds = get_args(given) if isinstance(given, UnionType) else (given,)
        return next((one for one in kinds if not (isinstance(one, type) and issubclass(one, Response))), Any)

    @cached_property
    def _takes_record(self) -> bool:
        return "asked" in signature(self.handler).parameters

    @cached_property
    def _lists(self) -> frozenset[str]:
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
        asked = self._convert(values)
        given = {"asked": asked} if self._takes_record else msgspec.structs.asdict(asked)
        answer = await self.handler(visit, **given)
        if not isinstance(answer, Response):
            answer = Response(msgspec.json.encode(answer), media_type="application/json")
        answer.headers.update(visit.headers)
        return answer

    async def _read(self, request: Request) -> dict[str, Any]:
        kind = request.headers.get("content-type", "").lower().partition(";")[0]
        is_json = "json" in kind or self.contract.is_json
        if is_json and ((body := await request.body()) or request.method != "GET"):
            try:
                return cast("dict[str, Any]", msgspec.json.decode(body, type=dict))
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                raise Refusal(400, "Invalid JSON format") from error
        values = dict[str, list[Any]]()
        async with request.form(max_files=_MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=2**40) as form:
            for name, part in [*request.query_params.multi_items(), *form.multi_items()]:
                values.setdefault(name, []).append(await _read_part(part))
        return {name: each if name in self._lists and len(each) > 1 else each[0] for name, each in values.items()}

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
        if "contains unknown field" in message and " - at " not in message:
            message += f", expected some of {', '.join(self.reads.__struct_encode_fields__)}"
        return bad_request(message.replace("Object ", "").replace("`$.", "`"))


def bearer(request: Request) -> str:
    """The key in the header Authorization, after Bearer or DeepL-Auth-Key; empty if there is none."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() in ("bearer", "deepl-auth-key") else ""


async def _read_part(value: UploadFile | str) -> Upload | str:
    if isinstance(value, str):
        return without_surrogates(value.replace("\r\n", "\n").replace("\r", "\n"))
    return Upload(value.filename or "", await value.read())


class Visit:
    """One request of a client; ``headers`` go with its answer, ``client`` names who was let in."""

    def __init__(self, serving: Serving, request: Request) -> None:
        self.serving, self.request, self.headers, self.client = serving, request, dict[str, str](), ""
        self.number = str(request.path_params.get("number", ""))  # the id that the path ends with
        self.languages = serving.loaded.languages
        self.detected = list[Detected]()

    def admit(self, key: str, cost: int) -> None:
        """Raise ``Refusal`` for who may not ask, or not so much now."""
        address = self.request.client.host if self.request.client else ""
        self.client, self.headers = self.serving.access.admit(key, address, cost)

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise ``Refusal`` for more texts or characters than one request may have."""
        self.serving.access.check_size(self.client, texts)
        self.serving.metrics.characters.inc(sum(map(len, texts)))

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

    def task(self, *, times: int = 1, outlives_request: bool = False) -> AbstractAsyncContextManager[Task]:
        """What translates for this client, until it leaves."""
        seconds = times * self.serving.config.time_limit_s
        return open_task(self.serving.loaded, seconds, None if outlives_request else self._wait_until_gone)

    async def translate(self, orders: Sequence[Order], others: Sequence[Order] = ()) -> list[Answer]:
        """The answer to each order; a header says which of the first, from 1, lack a code of their source."""
        async with self.task() as task:
            answers = await asyncio.gather(*map(task.translate, [*orders, *others]))
        changed = [str(number) for number, answer in enumerate(answers[: len(orders)], 1) if answer.check]
        self.headers[_CHECK] = f"changed {', '.join(changed[:100])}" if changed else "ok"
        return answers

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
        self.headers[_CHECK] = "ok" if not report.flagged else f"look at {len(report.flagged)} remarks"
        return out, report

    async def pieces(self, order: Order) -> AsyncGenerator[str | Answer, None]:
        """The translation in pieces as they come, and at last the answer."""
        async with self.task() as task:
            async for piece in task.stream(order):
                yield piece

    async def stream(
        self, pieces: AsyncGenerator[str | Answer, None], show: Callable[[str | Answer], bytes]
    ) -> StreamingResponse:
        """Events, each as soon as its piece is there. What fails before the first is refused as any request is."""
        events = self._events(pieces, show)
        await anext(events)
        return _EventStream(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})

    async def _events(
        self, pieces: AsyncGenerator[str | Answer, None], show: Callable[[str | Answer], bytes]
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(pieces):
            first = await anext(pieces)
            yield b""
            yield show(first)
            try:
                async for one in pieces:
                    yield show(one)
            except Exception as error:
                refusal = error if isinstance(error, Refusal) else Refusal(500, INTERNAL)
                yield event(error_body(self.request.url.path, refusal.status, refusal.message), "error")
                if refusal is not error:
                    raise

    async def _wait_until_gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def event(body: Any, name: str = "") -> bytes:
    """One server-sent event with a body in JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(body) + b"\n\n"


class _EventStream(StreamingResponse):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all in this task, whose time limit is that of the events."""
        async with aclosing(cast("AsyncGenerator[bytes, None]", self.body_iterator)):
            await self.stream_response(send)
