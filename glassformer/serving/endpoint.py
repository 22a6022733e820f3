"""Endpoints as data, and the way from an HTTP request to a handler and back.

A client is admitted before its parameters are checked. They may be in JSON, a form or the URL; errors in them have
the messages of the contract.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from cachetools import TTLCache
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from glassformer.decoding.translation import Translation
from glassformer.documents.checklist import DocumentReport
from glassformer.errors import GlassformerError
from glassformer.serving.access import Access
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import INTERNAL, HTTPError, bad_request, error_body
from glassformer.serving.middleware import Metrics
from glassformer.serving.models import Models
from glassformer.serving.parameters import Upload, read_parameters
from glassformer.serving.service import Options, Service
from glassformer.text.codes.checks import code_changes
from glassformer.text.codes.find import find_codes
from glassformer.text.formats import find_format
from glassformer.text.steps.step import Step

CHECK = "X-Glassformer-Check"
_KEPT_BYTES, _KEPT_S = 100_000_000, 900.0  # of translated files in memory
_GZIP_MAGIC = b"\x1f\x8b"


class Serving:
    """The state of a server."""

    def __init__(self, config: ServeConfig, models: Models, metrics: Metrics) -> None:
        self.config, self.models, self.metrics = config, models, metrics
        self.access, self.service = Access(config), Service(models, config)
        self.files = TTLCache[str, tuple[bytes, str]](_KEPT_BYTES, _KEPT_S, getsizeof=lambda kept: len(kept[0]))
        """The content and the names of translated files."""


@dataclass(frozen=True)
class Contract:
    """What all endpoints of a contract share."""

    key: str = "api_key"  # the parameter for the API key, besides the header Authorization
    is_json: bool = False  # the body is JSON whatever its header says
    has_lists: bool = False  # a parameter of a form that is repeated is a list; else its first value counts
    key_statuses: tuple[int, int] = (400, 403)  # for no key where one is required, and for a wrong one
    missing: str = "Invalid request: missing required field `{}`"
    invalid: str = "Invalid request: {1} - at `{0}`"
    """The message for a parameter with an invalid value, of its name and msgspec's words."""


@dataclass(frozen=True)
class Endpoint:
    """A path, its methods, and the handler, which is given the context and the record of parameters, if any."""

    contract: Contract
    methods: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    asked: type[Struct] | None = None
    texts: tuple[str, ...] = ()
    """The parameters with texts, which count for the client's limits; the first may be a list."""
    access: Literal["paid", "free", "open"] = "paid"
    """Whether it counts for the rate limit, only needs a key, or is open to everybody."""

    def route(self, serving: Serving) -> Route:
        """The route for Starlette."""
        serve = partial(self._serve, serving)
        return Route(self.path, serve, methods=self.methods.split(), name=self.handler.__name__)

    async def _serve(self, serving: Serving, request: Request) -> Response:
        """The answer to a request; ``HTTPError`` for one that is not admitted or not understood."""
        values = await read_parameters(request, self.contract.is_json, self.contract.has_lists)
        context = RequestContext(serving, request)
        if self.access != "open":
            found = [values.get(name) for name in self.texts]
            texts = [text for each in found for text in (each if isinstance(each, list) else [each])]
            key, cost = values.get(self.contract.key), 0 if self.access == "free" else max(1, len(texts))
            address, statuses = request.client.host if request.client else "", self.contract.key_statuses
            context.client = serving.access.admit(str(key or bearer(request)), address, cost, statuses)
            context.check_size([text for text in texts if isinstance(text, str)])
        answer = await self.handler(context, *([] if self.asked is None else [self._convert(values, self.asked)]))
        if not isinstance(answer, Response):
            answer = Response(msgspec.json.encode(answer), media_type="application/json")
        answer.headers.update(context.headers)
        return answer

    def _convert(self, values: dict[str, Any], kind: type[Struct]) -> Struct:
        empty: tuple[Any, ...] = (None,) if self.contract.is_json else (None, "", [])
        values = {name: one for name, one in values.items() if one not in empty}
        try:
            return msgspec.convert(values, kind, strict=False)
        except msgspec.ValidationError as error:
            message = str(error).removeprefix("Object ")
        if missing := re.fullmatch(r"missing required field `(\w+)`", message):
            raise HTTPError(400, self.contract.missing.format(missing[1]))
        reason, _, place = message.partition(" - at `$.")
        if not place:
            raise bad_request(f"{reason}, expected some of {', '.join(kind.__struct_encode_fields__)}")
        known = {one.encode_name: one.type for one in msgspec.structs.fields(kind)}
        if choices := [one for one in get_args(known.get(place.rstrip("`"))) if one and isinstance(one, str)]:
            reason += f", expected one of {', '.join(choices)}"
        raise HTTPError(400, self.contract.invalid.format(place.rstrip("`"), reason))


def bearer(request: Request) -> str:
    """The key in the header Authorization, or an empty string."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    if not key:  # as clients of MTranServer send it
        return kind
    return key.strip() if kind.lower() in ("bearer", "deepl-auth-key") else ""


class Answer(NamedTuple):
    """A translation and its languages."""

    source: str
    target: str
    found: Translation

    @property
    def text(self) -> str:
        """The translated text."""
        return self.found.text

    @property
    def check(self) -> list[str]:
        """In words, what should be looked at: whatever the command would warn of, and phrases that are not there."""
        return [*self.found.flags, *(f"does not contain {phrase!r}" for phrase in self.found.hypotheses[0].unmet)]

    @property
    def others(self) -> list[str]:
        """The other outputs of the model that have all codes of the source."""
        texts = dict.fromkeys(one.text for one in self.found.hypotheses)
        return [text for text in texts if text != self.text and not check_codes(self.found.source, text)]


class RequestContext:
    """One request: its client, the headers of its answer, and what handlers do for it."""

    def __init__(self, serving: Serving, request: Request) -> None:
        self.serving, self.request, self.headers, self.client = serving, request, dict[str, str](), ""
        self.languages = serving.models.languages

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise ``HTTPError`` for too many texts or characters in one request."""
        self.serving.access.check_size(self.client, texts)
        self.serving.metrics.characters.inc(sum(map(len, texts)))

    def read_source(self, given: str, text: str) -> str:
        """The language of a text: the given one, or the detected one."""
        is_given = given.strip().lower() not in ("", "auto")
        return self.languages.read(given if is_given else self.languages.detect(text)[0]["language"])

    async def translate(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        options: Options | None = None,
        markup: Sequence[Step] = (),
    ) -> list[Answer]:
        """The answer for each text; a header says which of them should be looked at."""
        options, target = options or Options(), self.languages.read(target)
        sources, found = [self.read_source(source, text) for text in texts], dict[int, Answer]()
        async with self.time_limit():
            for one in dict.fromkeys(sources):
                numbers = [number for number, each in enumerate(sources) if each == one]
                some = [texts[number] for number in numbers]
                translations = await self.serving.service.translate(some, one, target, options, markup)
                found |= {n: Answer(one, target, each) for n, each in zip(numbers, translations, strict=True)}
        answers = [found[number] for number in range(len(texts))]
        self.headers[CHECK] = summarize([one.check for one in answers])
        return answers

    @asynccontextmanager
    async def time_limit(self, times: int = 1) -> AsyncIterator[None]:
        """A block that ends with ``HTTPError`` after the time limit, or once the client has left."""
        self.serving.service.check_room()
        seconds, watch = times * self.serving.config.time_limit_s, asyncio.create_task(self._wait_until_gone())
        task = asyncio.current_task()
        watch.add_done_callback(lambda done: None if done.cancelled() or task is None else task.cancel())
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            message = f"the translation takes longer than the {seconds:g} seconds that a request may take"
            raise HTTPError(503, message, retry_after=seconds) from None
        finally:
            watch.cancel()

    async def _wait_until_gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass

    async def translate_file(self, file: Upload, given: str, target: str) -> tuple[bytes, DocumentReport]:
        """The translated file, and what should be looked at in it."""
        ending = Path(file.name.replace("\\", "/")).suffix.lower()
        if find_format(Path(f"file{ending}")).segments is None:
            raise bad_request("file format not supported")
        if not file.content:
            raise bad_request("empty file")
        if file.content.startswith(_GZIP_MAGIC):
            raise bad_request("the file is packed, expected it as it is")
        source = self.read_source(given, file.content[:5000].decode("utf-8", "replace"))
        try:
            async with self.time_limit(times=10):
                found = await self.serving.service.translate_file(f"file{ending}", file.content, source, target)
        except GlassformerError as error:
            raise bad_request(re.sub(r"/\S*/file\S*?(?=:)(: )?", "", str(error))) from error
        remarks = [one.remark for one in found[1].flagged]
        shown = f"{len(remarks)} remarks" if len(remarks) > 1 else f"1 remark ({''.join(remarks)})"
        self.headers[CHECK] = f"look at {shown}"[:1000].encode("ascii", "replace").decode() if remarks else "ok"
        return found

    async def stream(
        self, text: str, source: str, target: str, options: Options, show: Callable[[str | Answer], bytes]
    ) -> StreamingResponse:
        """Server-sent events. An error before the first piece is an ordinary error response."""
        self.serving.service.check_room()
        source, target = self.read_source(source, text), self.languages.read(target)
        pieces = self.serving.service.stream(text, source, target, options)

        async def next_event() -> bytes:
            async with asyncio.timeout(self.serving.config.time_limit_s):
                one = await anext(pieces)
            return show(one if isinstance(one, str) else Answer(source, target, one))

        first = await next_event()

        async def events() -> AsyncIterator[bytes]:
            yield first
            try:
                async with aclosing(pieces):
                    while True:
                        yield await next_event()
            except StopAsyncIteration:
                return
            except Exception as error:
                known = error if isinstance(error, HTTPError) else HTTPError(500, INTERNAL)
                yield event(error_body(self.request.url.path, known.status, known.message), "error")

        return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


def check_codes(source: str, translation: str) -> list[str]:
    """In words, the codes of a source that its translation lacks, and those that it has too often."""
    return code_changes(find_codes((source,)), find_codes((translation,)))


def summarize(checks: Sequence[Sequence[str]]) -> str:
    """What the header says of some texts: ok, or the numbers of those that should be looked at, with the reason."""
    wrong = [f"{number} ({', '.join(one)})" for number, one in enumerate(checks, 1) if one]
    text = f"look at {'; '.join(wrong)}"[:1000] if wrong else "ok"
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)


def event(body: Any, name: str = "") -> bytes:
    """One server-sent event with a body in JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(body) + b"\n\n"
