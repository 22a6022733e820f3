"""The application: all contracts behind one door. Knows nothing of processes and signals."""

from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from glassformer.errors import GlassformerError
from glassformer.serving.contracts import libretranslate, native, openai, openapi
from glassformer.serving.contracts.deepl import DeepL
from glassformer.serving.http.door import Door
from glassformer.serving.http.visit import Serving, serving_of
from glassformer.serving.refusal import INTERNAL, Refusal, error_body
from glassformer.version import __version__


async def home(request: Request) -> Response:
    """GET /: where everything is."""
    served = serving_of(request).languages
    return JSONResponse({
        "name": "glassformer", "version": __version__, "models": [model.name for model in served.models],
        "links": {"documentation": "/docs", "description": "/spec", "languages": "/languages", "health": "/health"},
    })  # fmt: skip


def make_app(serving: Serving) -> ASGIApp:
    """The application of a server whose workers are running."""
    routes = [
        Route("/", home, methods=["GET"]), *libretranslate.ROUTES, *native.ROUTES, *openai.ROUTES, *DeepL().routes(),
        *openapi.ROUTES,
    ]  # fmt: skip
    handlers: dict[Any, Any] = {
        Refusal: _answer_refusal, HTTPException: _answer_http, GlassformerError: _answer_error, 500: _answer_fault,
    }  # fmt: skip
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.serving = serving
    serving.metrics.watch_waiting(lambda: serving.service.loaded.queue.waiting)
    return Door(app, serving.config, serving.metrics)


def _json(request: Request, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(error_body(request.url.path, status, message), status, headers)


async def _answer_refusal(request: Request, refusal: Refusal) -> Response:
    return _json(request, refusal.status, refusal.message, refusal.headers)


async def _answer_http(request: Request, error: HTTPException) -> Response:
    return _json(request, error.status_code, error.detail, dict(error.headers or {}))


async def _answer_error(request: Request, error: GlassformerError) -> Response:
    return _json(request, 400, f"Invalid request: {error}")


async def _answer_fault(request: Request, _: Exception) -> Response:
    return _json(request, 500, INTERNAL)
