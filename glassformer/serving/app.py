"""The application: all contracts behind one door. Knows nothing of processes and signals."""

from hmac import compare_digest
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp

from glassformer.serving.contracts import libretranslate, native, openai
from glassformer.serving.contracts.deepl import DeepL
from glassformer.serving.contracts.openapi import description_endpoints
from glassformer.serving.door import Door
from glassformer.serving.endpoint import Contract, Endpoint, Nothing, Serving, Visit, bearer
from glassformer.serving.refusal import Refusal
from glassformer.version import __version__


async def home(visit: Visit, _: Nothing) -> dict[str, Any]:
    """Where everything is."""
    return {
        "name": "glassformer", "version": __version__, "models": [model.name for model in visit.languages.models],
        "links": {"documentation": "/docs", "description": "/spec", "languages": "/languages", "health": "/health"},
    }  # fmt: skip


async def health(visit: Visit, _: Nothing) -> dict[str, str]:
    """Whether requests are taken."""
    if visit.serving.service.loaded.queue.is_draining:
        raise Refusal(503, "the server stops")
    return {"status": "ok"}


async def metrics(visit: Visit, _: Nothing) -> Response:
    """Counts, for Prometheus."""
    wanted = visit.serving.config.metrics_key
    if wanted and not compare_digest(bearer(visit.request).encode(), wanted.encode()):
        raise Refusal(401, "Unauthorized", headers={"WWW-Authenticate": "Bearer"})
    return Response(generate_latest(visit.serving.metrics.registry), media_type=CONTENT_TYPE_LATEST)


ENDPOINTS = [
    Endpoint(Contract(), "GET", path, handler, access="open")
    for path, handler in (("/", home), ("/health", health), ("/metrics", metrics))
]


def make_app(serving: Serving) -> ASGIApp:
    """The application of a server whose workers are running."""
    endpoints = [
        *ENDPOINTS, *libretranslate.ENDPOINTS, *native.ENDPOINTS, *openai.ENDPOINTS, *DeepL().endpoints()
    ]  # fmt: skip
    endpoints += description_endpoints(endpoints)
    serving.metrics.watch_waiting(lambda: serving.service.loaded.queue.waiting)
    return Door(Router([one.route(serving) for one in endpoints]), serving.config, serving.metrics)
