"""Endpoints as data, and the way from an HTTP request to a handler and back.

A client is admitted before its parameters are checked. They may be in JSON, a form or the URL; errors in them have
the messages of the contract.
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
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from glassformer.decoding.translation import Translation
from glassformer.errors import GlassformerError
from glassformer.serving.access import Access
from glassformer.serving.config import ServeConfig
from glassformer.serving.explanations import Explanations
from glassformer.serving.http_errors import INTERNAL, HTTPError, bad_request, error_body
from glassformer.serving.languages import Detected
from glassformer.serving.middleware import Metrics
from glassformer.serving.scheduling.model_workers import ModelWorkers
from glassformer.serving.service import Text, TranslationRequest, TranslationTask, check_codes, open_task
from glassformer.serving.store import Files, Store, Upload, delete
from glassformer.text.codes.code import join_parts
from glassformer.text.lines import without_surrogates

_CHECK = "X-Glassformer-Check"
_MAX_FIELDS, _MAX_FILES = 5000, 1  # of a form
_MAX_GLOSSARIES, _MAX_DOCUMENTS = 1000, 100


@dataclass
class Serving:
    """The state of a server."""

    config: ServeConfig
    metrics: Metrics
    access: Access
    workers: ModelWorkers
    explanations: Explanations
    files: Files
    glossaries: Store[Any] = field(default_factory=lambda: Store(_MAX_GLOSSARIES))
    documents: Store[Any] = field(default_factory=lambda: Store(_MAX_DOCUMENTS, forget=lambda one: one.forget()))


@dataclass(frozen=True)
class Contract:
    """What all endpoints of a contract share."""

    name: str
    key: str = "api_key"  # the parameter for the API key, or the header Authorization
    is_json: bool = False  # the body is JSON whatever its header says
    missing_message: str = ""
    """The message for a missing or empty parameter, if it is not msgspec's for a missing one."""
    invalid_messages: Mapping[str, str] = field(default_factory=dict)
    """The messages for invalid values by parameter, if they are not msgspec's."""


@dataclass(frozen=True)
class Endpoint:
    """A path, its methods, and the handler, whose signature says what is read and answered."""

    contract: Contract
    methods: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    texts: tuple[str, ...] = ()
    """The parameters with texts, which count for the client's limits; the first may be a list."""
    access: Literal["paid", "free", "open"] = "paid"
    """Whether it counts for the rate limit, only needs a key, or is open to everybody."""
    closed: tuple[str, str] = ("", "")  # the setting that enables it, and the message without that

    def route(self, serving: Serving) -> Route:
        """The route for Starlette."""
        serve = partial(self._serve, serving)
        return Route(self.path, serve, methods=self.methods.split(), name=self.handler.__name__)

    @cached_property
    def reads(self) -> type[Struct]:
        """The parameters of the handler as a record; a handler may take that record itself, as ``asked``."""
        given = list(signature(self.handler, eval_str=True).parameters.values())[1:]
        if self._takes_record:
            return cast("type[Struct]", given[0].annotation)
        fields = [(one.name, one.annotation, NODEFAULT if one.default is one.empty else one.default) for one in given]
        return defstruct(f"{self.contract.name}.{self.handler.__name__}", fields, kw_only=True)

    @cached_property
    def answers(self) -> Any:
        """The type of its JSON answer; ``Any`` for another response."""
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
        """The answer to a request; ``HTTPError`` for one that is not admitted or not understood."""
        values, context = await self._read(request), RequestContext(serving, request)
        if self.access != "open":
            found = [values.get(name) for name in self.texts]
            texts = [text for each in found for text in (each if isinstance(each, list) else [each])]
            key = str(values.get(self.contract.key) or "") or bearer(request)
            context.admit(key, 0 if self.access == "free" else max(1, len(texts)))
            context.check_size([text for text in texts if isinstance(text, str)])
        setting, message = self.closed
        if setting and not getattr(serving.config, setting):
            raise HTTPError(403, message)
        asked = self._convert(values)
        given = {"asked": asked} if self._takes_record else msgspec.structs.asdict(asked)
        answer = await self.handler(context, **given)
        if not isinstance(answer, Response):
            answer = Response(msgspec.json.encode(answer), media_type="application/json")
        answer.headers.update(context.headers)
        return answer

    async def _read(self, request: Request) -> dict[str, Any]:
        kind = request.headers.get("content-type", "").lower().partition(";")[0]
        is_json = "json" in kind or self.contract.is_json
        if is_json and ((body := await request.body()) or request.method != "GET"):
            try:
                return cast("dict[str, Any]", msgspec.json.decode(body, type=dict))
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                raise HTTPError(400, "Invalid JSON format") from error
        values = dict[str, list[Any]]()
        async with request.form(max_files=_MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=2**40) as form:
            for name, part in [*request.query_params.multi_items(), *form.multi_items()]:
                read = _clean(part) if isinstance(part, str) else Upload(part.filename or "", await part.read())
                values.setdefault(name, []).append(read)
        return {name: each if name in self._lists and len(each) > 1 else each[0] for name, each in values.items()}

    def _convert(self, values: dict[str, Any]) -> Struct:
        if self.contract.missing_message:
            values = {name: value for name, value in values.items() if value not in (None, "", [])}
        try:
            return msgspec.convert(values, self.reads, strict=False)
        except msgspec.ValidationError as error:
            raise self._error(values, str(error)) from error

    def _error(self, values: dict[str, Any], message: str) -> HTTPError:
        """The error in msgspec's words or in those that clients of the contract know."""
        missing, wrong = re.search(r"missing required field `(\w+)`$", message), re.search(r"`\$\.(\w+)", message)
        if missing and self.contract.missing_message:
            return HTTPError(400, self.contract.missing_message.format(missing[1]))
        if wrong and (known := self.contract.invalid_messages.get(wrong[1])):
            return HTTPError(400, known.format(str(values.get(wrong[1]))[:40]))
        if "contains unknown field" in message and " - at " not in message:
            message += f", expected some of {', '.join(self.reads.__struct_encode_fields__)}"
        return bad_request(message.replace("Object ", "").replace("`$.", "`"))


def bearer(request: Request) -> str:
    """The key in the header Authorization, or an empty string."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() in ("bearer", "deepl-auth-key") else ""


def _clean(text: str) -> str:
    return without_surrogates(text.replace("\r\n", "\n").replace("\r", "\n"))


class RequestContext:
    """One request: its client, the headers of its answer, and what handlers do for it."""

    def __init__(self, serving: Serving, request: Request) -> None:
        self.serving, self.request, self.headers, self.client = serving, request, dict[str, str](), ""
        self.number = str(request.path_params.get("number", ""))  # the id in the path
        self.languages = serving.workers.languages
        self.detected = list[Detected]()

    def admit(self, key: str, cost: int) -> None:
        """Check key and rate limit; raises ``HTTPError``."""
        address = self.request.client.host if self.request.client else ""
        self.client, self.headers = self.serving.access.admit(key, address, cost)

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise ``HTTPError`` for too many texts or characters in one request."""
        self.serving.access.check_size(self.client, texts)
        self.serving.metrics.characters.inc(sum(map(len, texts)))

    def sources(self, given: str, texts: Sequence[str]) -> list[str]:
        """The language of each text: the given one, or the detected one of each."""
        if given.strip().lower() in ("", "auto"):
            self.detected = [self.languages.detect(text)[0] for text in texts]
            return [found.language for found in self.detected]
        return [self.languages.read(given)] * len(texts)

    def requests_for(self, request: TranslationRequest, texts: Sequence[Text]) -> list[TranslationRequest]:
        """A copy of ``request`` for each text, in served languages."""
        request = replace(request, target=self.languages.read(request.target))
        plain = [text if isinstance(text, str) else join_parts(text) for text in texts]
        sources = self.sources(request.source, plain)
        return [replace(request, text=text, source=one) for text, one in zip(texts, sources, strict=True)]

    def task(self, *, times: int = 1, outlives_request: bool = False) -> AbstractAsyncContextManager[TranslationTask]:
        """A task for this client, until it leaves."""
        seconds = times * self.serving.config.time_limit_s
        return open_task(self.serving.workers, seconds, None if outlives_request else self._wait_until_gone)

    async def translate(
        self, requests: Sequence[TranslationRequest], others: Sequence[TranslationRequest] = ()
    ) -> list[Translation]:
        """The answer to each request; a header has the numbers of those of ``requests`` with changed codes."""
        async with self.task() as task:
            answers = await asyncio.gather(*map(task.translate, [*requests, *others]))
        pairs = zip(requests, answers, strict=False)
        changed = [str(number) for number, (asked, one) in enumerate(pairs, 1) if check_codes(asked.text, one.parts)]
        self.headers[_CHECK] = f"changed {', '.join(changed[:100])}" if changed else "ok"
        return answers

    async def translate_file(
        self, upload: Upload, given: str, target: str, *, outlives_request: bool = False
    ) -> Path:
        """The translated file, in a directory of its own."""
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
        return out

    async def pieces(self, request: TranslationRequest) -> AsyncGenerator[str | Translation, None]:
        """The translation in pieces, and at last the answer."""
        async with self.task() as task:
            async for piece in task.stream(request):
                yield piece

    async def stream(
        self, pieces: AsyncGenerator[str | Translation, None], show: Callable[[str | Translation], bytes]
    ) -> StreamingResponse:
        """Server-sent events. An error before the first piece is an ordinary error response."""
        events = self._events(pieces, show)
        await anext(events)
        return _EventStream(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})

    async def _events(
        self, pieces: AsyncGenerator[str | Translation, None], show: Callable[[str | Translation], bytes]
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(pieces):
            first = await anext(pieces)
            yield b""
            yield show(first)
            try:
                async for one in pieces:
                    yield show(one)
            except Exception as error:
                known = error if isinstance(error, HTTPError) else HTTPError(500, INTERNAL)
                yield event(error_body(self.request.url.path, known.status, known.message), "error")
                if known is not error:
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
