"""Outermost middleware: the size of bodies, metrics, error responses. CORS is Starlette's."""

import asyncio
import logging
import re
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import GlassformerError
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import INTERNAL, HTTPError, bad_request, error_body, place_of
from glassformer.version import __version__

logger = logging.getLogger(__name__)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """What /metrics shows, for Prometheus, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._make(Counter, "requests", "Requests", labelnames=("route", "status"))
        self.in_flight = self._make(Gauge, "requests_in_flight", "Requests that are handled now")
        self.seconds = self._make(
            Histogram, "request_seconds", "Time of a request", labelnames=("route",), buckets=_SECONDS
        )
        self.characters = self._make(Counter, "characters", "Characters to translate")
        self.waiting = self._make(Gauge, "waiting_texts", "Texts that wait")
        self.queue_seconds = self._make(Histogram, "queue_seconds", "Time that a text waits", buckets=_SECONDS)
        self.batch_texts = self._make(Histogram, "batch_texts", "Texts of a batch", buckets=(1, 2, 4, 8, 16, 32))
        self.batch_seconds = self._make(Histogram, "batch_seconds", "Time of a batch", buckets=_SECONDS)
        self._make(Info, "build", "Version").info({"version": __version__})
        ProcessCollector(registry=self.registry)

    def _make(self, kind: Any, name: str, about: str, **options: Any) -> Any:
        return kind(f"glassformer_{name}", about, registry=self.registry, **options)


class LimitsMiddleware:
    """Wraps the application; speaks ASGI to both sides."""

    def __init__(self, app: ASGIApp, config: ServeConfig, metrics: Metrics) -> None:
        self._app, self._config, self._metrics = app, config, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        scope["app"] = self  # so that Starlette raises its errors instead of answering
        scope["path"] = re.sub("//+", "/", scope["path"])
        began, status, read = time.monotonic(), 0, 0

        async def limited_receive() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._config.body_mb * 1_000_000:
                limit = f"the request is larger than {self._config.body_mb:g} MB, which is the limit"
                raise HTTPError(413, limit, headers={"Connection": "close"})
            return message

        async def watched_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            with self._metrics.in_flight.track_inprogress():
                await self._app(scope, limited_receive, watched_send)
        except (Exception, asyncio.CancelledError) as error:
            known = _to_http_error(error)
            if known.message == INTERNAL:
                logger.error("%s %s: %s. Please report it.", scope["method"], _route(scope), place_of(error))
            if status == 0:  # no answer has begun
                body = error_body(scope["path"], known.status, known.message)
                await JSONResponse(body, known.status, known.headers)(scope, receive, watched_send)
        finally:
            self._metrics.requests.labels(_route(scope), str(status)).inc()
            self._metrics.seconds.labels(_route(scope)).observe(time.monotonic() - began)


def _route(scope: Scope) -> str:
    """The path of the route: there are few, however many paths clients ask for."""
    return str(getattr(scope.get("route"), "path", "unknown"))


def _to_http_error(error: BaseException) -> HTTPError:
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, HTTPException):
        return HTTPError(error.status_code, error.detail, headers=error.headers)
    if isinstance(error, TimeoutError):
        return HTTPError(503, "the time limit of the request has passed", retry_after=1)
    if isinstance(error, asyncio.CancelledError):  # the client has left, or the server stops
        return HTTPError(503, "the server stops; ask another one, or ask again soon", retry_after=1)
    return bad_request(str(error)) if isinstance(error, GlassformerError) else HTTPError(500, INTERNAL)
