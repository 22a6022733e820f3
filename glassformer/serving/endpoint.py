"""Endpoints as data, and the way from an HTTP request to a handler and back.

A client is admitted before its parameters are checked. They may be in JSON, a form or the URL; errors in them have
the messages of the contract.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import parse_qsl

import msgspec
from cachetools import TTLCache
from msgspec import NODEFAULT, Struct, defstruct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from glassformer.decoding.translation import Translation
from glassformer.documents.checklist import DocumentReport
from glassformer.errors import GlassformerError
from glassformer.serving.access import Access
from glassformer.serving.batcher import Batcher
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import INTERNAL, HTTPError, bad_request, error_body
from glassformer.serving.metrics import Metrics
from glassformer.serving.models import Models
from glassformer.serving.service import Service, Text, TranslationRequest, check_codes
from glassformer.text.codes.code import join_parts
from glassformer.text.formats import endings, find_format
from glassformer.text.lines import without_surrogates
from glassformer.text.steps.step import Step

CHECK = "X-Glassformer-Check"
_MAX_FIELDS, _MAX_FILES = 5000, 1  # of a form
_KEPT_BYTES, _KEPT_S = 100_000_000, 900.0  # of translated files in memory
_GZIP_MAGIC = b"\x1f\x8b"


class Serving:
    """The state of a server."""

    def __init__(self, config: ServeConfig, models: Models, batcher: Batcher, metrics: Metrics) -> None:
        self.config, self.models, self.batcher, self.metrics = config, models, batcher, metrics
        self.access = Access(config)
        self.service = Service(models, batcher, config.time_limit_s)
        self.files = TTLCache[str, tuple[bytes, str]](_KEPT_BYTES, _KEPT_S, getsizeof=lambda kept: len(kept[0]))
        """The content and the names of translated files."""
        self.explained = TTLCache[str, Any](config.explain_answers, 60 * config.explain_minutes)


class Upload(NamedTuple):
    """A file that a client sends."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Contract:
    """What all endpoints of a contract share."""

    name: str
    key: str = "api_key"  # the parameter for the API key, besides the header Authorization
    is_json: bool = False  # the body is JSON whatever its header says
    repeated: frozenset[str] = frozenset()
    """The parameters of a form that may be repeated; of others the first value counts."""
    key_statuses: tuple[int, int] = (400, 403)  # for no key where one is required, and for a wrong one
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

    def route(self, serving: Serving) -> Route:
        """The route for Starlette."""
        serve = partial(self._serve, serving)
        return Route(self.path, serve, methods=self.methods.split(), name=self.handler.__name__)

    @cached_property
    def reads(self) -> type[Struct]:
        """The parameters of the handler as a record; a handler may take that record itself, as ``asked``."""
        given = list(signature(self.handler, eval_str=True).parameters.values())[1:]
        if given and given[0].name == "asked":
            return cast("type[Struct]", given[0].annotation)
        fields = [(one.name, one.annotation, NODEFAULT if one.default is one.empty else one.default) for one in given]
        renamed = {one.name: one.name.removesuffix("_") for one in given}
        return defstruct(f"{self.contract.name}.{self.handler.__name__}", fields, kw_only=True, rename=renamed)

    async def _serve(self, serving: Serving, request: Request) -> Response:
        """The answer to a request; ``HTTPError`` for one that is not admitted or not understood."""
        values, context = await self._read(request), RequestContext(serving, request)
        if self.access != "open":
            found = [values.get(name) for name in self.texts]
            texts = [text for each in found for text in (each if isinstance(each, list) else [each])]
            key, cost = values.get(self.contract.key), 0 if self.access == "free" else max(1, len(texts))
            context.admit(str(key or bearer(request)), cost, self.contract.key_statuses)
            context.check_size([text for text in texts if isinstance(text, str)])
        asked = self._convert(values)
        is_record = "asked" in signature(self.handler).parameters
        given = {"asked": asked} if is_record else {name: getattr(asked, name) for name in asked.__struct_fields__}
        answer = await self.handler(context, **given)
        if not isinstance(answer, Response):
            answer = Response(msgspec.json.encode(answer), media_type="application/json")
        answer.headers.update(context.headers)
        return answer

    async def _read(self, request: Request) -> dict[str, Any]:
        kind, _, rest = request.headers.get("content-type", "").lower().partition(";")
        charset = rest.partition("charset=")[2].strip(' "') or None
        if kind.startswith("multipart/"):
            async with request.form(max_files=_MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=2**40) as form:
                parts: list[tuple[str, Any]] = [
                    (
                        _clean(name),
                        _clean(part) if isinstance(part, str) else Upload(part.filename or "", await part.read()),
                    )
                    for name, part in form.multi_items()
                ]
            return self._collect([*_read_form(request.scope["query_string"]), *parts])
        body = await request.body()
        if ("json" in kind or self.contract.is_json) and (body or request.method != "GET"):
            return _read_json(body, charset)
        is_form = kind == "application/x-www-form-urlencoded"
        items = _read_form(body, charset) if is_form else []
        return self._collect([*_read_form(request.scope["query_string"]), *items])

    def _collect(self, items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        values = dict[str, list[Any]]()
        for name, value in items:
            values.setdefault(name, []).append(value)
        repeated = self.contract.repeated
        return {name: each if name in repeated and len(each) > 1 else each[0] for name, each in values.items()}

    def _convert(self, values: dict[str, Any]) -> Struct:
        empty: tuple[Any, ...] = (None, "", []) if self.contract.missing_message else (None,)
        values = {name: value for name, value in values.items() if value not in empty}
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


def _read_json(body: bytes, charset: str | None) -> dict[str, Any]:
    """An object; a mark of byte order, UTF-16 and UTF-32 are read, half of a surrogate pair is U+FFFD."""
    try:
        found = _clean(json.loads(body.decode(charset or json.detect_encoding(body))))
    except UnicodeDecodeError as error:
        raise HTTPError(400, "Invalid JSON format: expected UTF-8") from error
    except (ValueError, RecursionError, LookupError) as error:
        raise HTTPError(400, "Invalid JSON format") from error
    if not isinstance(found, dict):
        raise HTTPError(400, "Invalid JSON format")
    return found


def _read_form(body: bytes, charset: str | None = None) -> list[tuple[str, str]]:
    try:
        text, kind = body.decode(charset or "utf-8"), charset or "utf-8"
        found = parse_qsl(text, keep_blank_values=True, encoding=kind, errors="strict", max_num_fields=_MAX_FIELDS)
    except (ValueError, LookupError) as error:
        raise bad_request("the form cannot be read, expected UTF-8") from error
    return [(_clean(name), _clean(value.replace("\r\n", "\n").replace("\r", "\n"))) for name, value in found]


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_clean(one) for one in value]
    return {_clean(key): _clean(one) for key, one in value.items()} if isinstance(value, dict) else value


def bearer(request: Request) -> str:
    """The key in the header Authorization, or an empty string."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    if not key:  # as clients of MTranServer send it
        return kind
    return key.strip() if kind.lower() in ("bearer", "deepl-auth-key") else ""


class RequestContext:
    """One request: its client, the headers of its answer, and what handlers do for it."""

    def __init__(self, serving: Serving, request: Request) -> None:
        self.serving, self.request, self.headers, self.client = serving, request, dict[str, str](), ""
        self.number = str(request.path_params.get("number", ""))  # the id in the path
        self.detected = list[dict[str, Any]]()
        self.languages = serving.models.languages

    def admit(self, key: str, cost: int, statuses: tuple[int, int]) -> None:
        """Check key and rate limit; raises ``HTTPError``."""
        address = self.request.client.host if self.request.client else ""
        self.client, self.headers = self.serving.access.admit(key, address, cost, statuses)

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise ``HTTPError`` for too many texts or characters in one request."""
        self.serving.access.check_size(self.client, texts)
        self.serving.metrics.characters.inc(sum(map(len, texts)))

    def sources(self, given: str, texts: Sequence[str]) -> list[str]:
        """The language of each text: the given one, or the detected one of each."""
        if given.strip().lower() in ("", "auto"):
            self.detected = [self.languages.detect(text)[0] for text in texts]
            return [found["language"] for found in self.detected]
        return [self.languages.read(given)] * len(texts)

    def requests_for(self, request: TranslationRequest, texts: Sequence[Text]) -> list[TranslationRequest]:
        """A copy of ``request`` for each text, in served languages."""
        request = replace(request, target=self.languages.read(request.target))
        plain = [text if isinstance(text, str) else join_parts(text) for text in texts]
        sources = self.sources(request.source, plain)
        return [replace(request, text=text, source=one) for text, one in zip(texts, sources, strict=True)]

    @asynccontextmanager
    async def time_limit(self, times: int = 1) -> AsyncIterator[None]:
        """A block that ends with ``HTTPError`` after the time limit, or once the client has left."""
        self.serving.batcher.check_room()
        seconds, task = times * self.serving.config.time_limit_s, asyncio.current_task()
        watch = asyncio.create_task(self._cancel_when_gone(task))
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            message = f"the translation takes longer than the {seconds:g} seconds that a request may take"
            raise HTTPError(503, message, retry_after=seconds) from None
        finally:
            watch.cancel()

    async def _cancel_when_gone(self, task: "asyncio.Task[Any] | None") -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        if task is not None:
            task.cancel()

    async def translate(
        self,
        requests: Sequence[TranslationRequest],
        others: Sequence[TranslationRequest] = (),
        markup: Sequence[Step] = (),
    ) -> list[Translation]:
        """The answer to each request; a header says which of ``requests`` should be looked at."""
        translate = partial(self.serving.service.translate, markup=markup)
        async with self.time_limit():
            answers = await asyncio.gather(*map(translate, [*requests, *others]))
        pairs = zip(requests, answers, strict=False)
        self.headers[CHECK] = summarize([check(*each, has_markup=bool(markup)) for each in pairs])
        return answers

    async def translate_file(self, upload: Upload, given: str, target: str) -> tuple[bytes, DocumentReport]:
        """The translated file, and what should be looked at in it."""
        name = Path(upload.name.replace("\\", "/")).name
        if find_format(Path(name)).segments is None:
            raise bad_request("file format not supported")
        if not upload.content:
            raise bad_request("empty file")
        if upload.content.startswith(_GZIP_MAGIC):
            raise bad_request("the file is packed, expected it as it is")
        (source,) = self.sources(given, [upload.content[:5000].decode("utf-8", "replace")])
        with tempfile.TemporaryDirectory(prefix="glassformer-") as directory:
            path = Path(directory) / f"file{Path(name).suffix.lower()}"
            out = path.with_stem("translated")
            path.write_bytes(upload.content)
            try:
                async with self.time_limit(times=10):
                    report = await self.serving.service.translate_file(path, out, source, target)
            except GlassformerError as error:
                shown = str(error).replace(f"{directory}/", "").removeprefix(f"{path.name}: ")
                raise bad_request(shown) from error
            self.headers[CHECK] = "ok" if not report.flagged else f"look at {len(report.flagged)} remarks"
            return out.read_bytes(), report

    async def stream(
        self, request: TranslationRequest, show: Callable[[str | Translation], bytes]
    ) -> StreamingResponse:
        """Server-sent events. An error before the first piece is an ordinary error response."""
        self.serving.batcher.check_room()
        seconds, pieces = self.serving.config.time_limit_s, self.serving.service.stream(request)
        async with asyncio.timeout(seconds):
            first = await anext(pieces)

        async def events() -> AsyncIterator[bytes]:
            yield show(first)
            try:
                async with asyncio.timeout(seconds), aclosing(pieces):
                    async for one in pieces:
                        yield show(one)
            except Exception as error:
                known = error if isinstance(error, HTTPError) else HTTPError(500, INTERNAL)
                yield event(error_body(self.request.url.path, known.status, known.message), "error")

        return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


def check(request: TranslationRequest, found: Translation, *, has_markup: bool = False) -> list[str]:
    """In words, what should be looked at: codes that changed, and whatever the command would warn of."""
    is_markup = has_markup or request.format == "html"  # whose texts are checked one by one
    codes = () if is_markup else check_codes(request.text, found.parts)
    unmet = [f"does not contain {phrase!r}" for phrase in found.hypotheses[0].unmet]
    return list(dict.fromkeys((*codes, *found.flags, *unmet)))


def summarize(checks: Sequence[Sequence[str]]) -> str:
    """What the header says of some texts: ok, or the numbers of those that should be looked at, with the reason."""
    wrong = [f"{number} ({', '.join(one)})" for number, one in enumerate(checks, 1) if one]
    text = f"look at {'; '.join(wrong)}"[:1000] if wrong else "ok"
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)


def file_endings() -> list[str]:
    """Of all formats that can be translated."""
    return endings(lambda each: each.segments)


def event(body: Any, name: str = "") -> bytes:
    """One server-sent event with a body in JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(body) + b"\n\n"
