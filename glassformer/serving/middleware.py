"""Outermost middleware: limits of size and time, CORS, metrics, error responses."""

import asyncio
import logging
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import GlassformerError
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import INTERNAL, HTTPError, bad_request, error_body, place_of

logger = logging.getLogger(__name__)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_CORS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-expose-headers", b"Authorization, X-Glassformer-Check"),
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-allow-credentials", b"true"),
    (b"access-control-max-age", b"1728000"),
]


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


class LimitsMiddleware:
    """Wraps the application; speaks ASGI to both sides."""

    def __init__(self, app: ASGIApp, config: ServeConfig, metrics: Metrics) -> None:
        self._app, self._config, self._metrics = app, config, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        scope["app"] = self  # so that Starlette raises its errors instead of answering
        exchange, began = _Exchange(scope, receive, send, self._config), time.monotonic()
        try:
            await self._answer(exchange)
        except TimeoutError:
            exchange.status = 499  # the client does not take its answer
        finally:
            seconds, route = time.monotonic() - began, exchange.route
            self._metrics.requests.labels(route, str(exchange.status)).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            if self._config.access_log:
                logger.info("%s %s %d %.1f ms", scope["method"], route, exchange.status, 1000 * seconds)

    async def _answer(self, exchange: "_Exchange") -> None:
        try:
            exchange.check_headers()
            app = JSONResponse({}) if exchange.scope["method"] == "OPTIONS" else self._app
            await app(exchange.scope, exchange.receive, exchange.send)
        except TimeoutError:
            raise
        except Exception as error:
            known = _to_http_error(error)
            if known is not error and known.status == 500:
                method, place = exchange.scope["method"], place_of(error)
                logger.error("%s %s: %s. Please report it.", method, exchange.route, place)
            if exchange.status == 0:  # no answer has begun
                body = error_body(exchange.scope["path"], known.status, known.message)
                answer = JSONResponse(body, known.status, known.headers)
                await answer(exchange.scope, exchange.receive, exchange.send)


def _to_http_error(error: Exception) -> HTTPError:
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, HTTPException):
        return HTTPError(error.status_code, error.detail, headers=error.headers)
    return bad_request(str(error)) if isinstance(error, GlassformerError) else HTTPError(500, INTERNAL)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, config: ServeConfig) -> None:
        self.scope, self.status, self._receive, self._send = scope, 0, receive, send
        self._most_bytes, self._seconds = int(config.body_mb * 1_000_000), config.door_s
        self._bytes, self._until, self._is_read = 0, time.monotonic() + config.door_s, False

    @property
    def route(self) -> str:
        """The path of the route: there are few, however many paths clients ask for."""
        return str(getattr(self.scope.get("route"), "path", "unknown"))

    def check_headers(self) -> None:
        """Raise ``HTTPError`` for a body that is declared too large, or compressed."""
        headers = Headers(scope=self.scope)
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise HTTPError(415, "the body is packed, expected one that is not: without Content-Encoding")
        length = headers.get("content-length", "0")
        self._check_size(int(length) if length.isdecimal() else 0)

    def _check_size(self, found: int) -> None:
        if found > self._most_bytes:
            raise HTTPError(413, f"the request is larger than {self._most_bytes / 1e6:g} MB, which is the limit")

    async def receive(self) -> Message:
        """The next message of the client, within its time and its size."""
        if self._is_read:
            return await self._receive()  # waits until the client leaves
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            late = f"the request did not arrive within {self._seconds:g} seconds"
            raise HTTPError(408, late, headers={"Connection": "close"}) from None
        self._bytes += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        self._check_size(self._bytes)
        return message

    async def send(self, message: Message) -> None:
        """Send a message of ours; raises ``TimeoutError`` for a client that does not take it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *_CORS]
        async with asyncio.timeout(self._seconds):
            await self._send(message)
