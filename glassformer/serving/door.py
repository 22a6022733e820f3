"""What every connection meets first and last: limits of bytes and seconds, headers, counts, and the last resort.

A request that is too large, too slow or packed ends here, and every error becomes an answer here: one that nobody
foresaw without a traceback.
"""

import asyncio
import logging
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import GlassformerError
from glassformer.serving.config import ServeConfig
from glassformer.serving.refusal import INTERNAL, Refusal, bad_request, error_body, place_of

logger = logging.getLogger(__name__)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Expose-Headers": "Authorization, X-Glassformer-Check",
    "Access-Control-Allow-Methods": "GET, POST, DELETE",
    "Access-Control-Allow-Credentials": "true",
    "Access-Control-Max-Age": "1728000",
}


class Metrics:
    """Counters of one server, for /metrics, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._make(Counter, "requests", "Requests", labelnames=("route", "status"))
        self.seconds = self._make(
            Histogram, "request_seconds", "Time of a request", labelnames=("route",), buckets=_SECONDS
        )
        self.characters = self._make(Counter, "characters", "Characters to translate")
        self.batch_texts = self._make(Histogram, "batch_texts", "Texts of a batch", buckets=(1, 2, 4, 8, 16, 32))
        self.batch_seconds = self._make(Histogram, "batch_seconds", "Time of a batch", buckets=_SECONDS)
        self.worker_restarts = self._make(Counter, "worker_restarts", "Workers replaced")

    def _make(self, kind: Any, name: str, about: str, **options: Any) -> Any:
        return kind(f"glassformer_{name}", about, registry=self.registry, **options)


class Door:
    """Wraps the application; speaks ASGI to both sides."""

    def __init__(self, app: ASGIApp, config: ServeConfig, metrics: Metrics) -> None:
        self._app, self._config, self._metrics = app, config, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["app"] = self  # then Starlette raises its refusals, too
        visit = _Visit(scope, receive, send, self._config)
        began = time.monotonic()
        try:
            await self._answer(visit)
        except TimeoutError:
            visit.status = 499  # the client does not take its answer
        finally:
            self._count(visit, time.monotonic() - began)

    async def _answer(self, visit: "_Visit") -> None:
        try:
            visit.check_headers()
            if visit.method == "OPTIONS":
                await visit.answer(JSONResponse({}))
            else:
                await self._app(visit.scope, visit.receive, visit.send)
        except TimeoutError:
            raise
        except Exception as error:
            if (refusal := _refusal_of(error)) is None:
                logger.error("%s %s: %s. Please report it.", visit.method, visit.route, place_of(error))
                refusal = Refusal(500, INTERNAL)
            if visit.status == 0:  # no answer has begun
                body = error_body(visit.scope["path"], refusal.status, refusal.message)
                await visit.answer(JSONResponse(body, refusal.status, refusal.headers))

    def _count(self, visit: "_Visit", seconds: float) -> None:
        self._metrics.requests.labels(visit.route, str(visit.status)).inc()
        self._metrics.seconds.labels(visit.route).observe(seconds)
        if self._config.access_log:
            logger.info("%s %s %d %.1f ms", visit.method, visit.route, visit.status, 1000 * seconds)


def _refusal_of(error: Exception) -> Refusal | None:
    """The refusal that an error stands for; None for a fault of ours."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        return Refusal(error.status_code, error.detail, headers=error.headers)
    return bad_request(str(error)) if isinstance(error, GlassformerError) else None


class _Visit:
    """One request and its answer, as they pass through the door."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, config: ServeConfig) -> None:
        self.scope, self.status, self.method = scope, 0, str(scope["method"])
        self._receive, self._send, self._config = receive, send, config
        self._bytes, self._most = 0, int(config.body_mb * 1_000_000)
        self._until = time.monotonic() + config.door_s
        self._is_read = False

    @property
    def route(self) -> str:
        """The path as the routes have it, which does not grow with what clients ask for."""
        return str(getattr(self.scope.get("route"), "path", "unknown"))

    def check_headers(self) -> None:
        """Raise ``Refusal`` for a body that says it is too large, or packed."""
        headers = Headers(scope=self.scope)
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refusal(415, "the body is packed, expected one that is not: without Content-Encoding")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._most:
            raise self._too_large()

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the request is larger than {self._config.body_mb:g} MB, which is the limit")

    async def receive(self) -> Message:
        """The next message of the client, within its time and its size."""
        if self._is_read:
            return await self._receive()  # waits until the client leaves
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            late = f"the request did not arrive within {self._config.door_s:g} seconds"
            raise Refusal(408, late, headers={"Connection": "close"}) from None
        self._bytes += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        if self._bytes > self._most:
            raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        """Send a message of ours; raises ``TimeoutError`` for a client that does not take it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message).update(_CORS)
        async with asyncio.timeout(self._config.door_s):
            await self._send(message)

    async def answer(self, response: JSONResponse) -> None:
        """Send an answer of the door itself."""
        await response(self.scope, self.receive, self.send)
