"""The application: all contracts and their OpenAPI description, which is made from their types."""

import json
import re
from collections.abc import Sequence
from functools import partial
from hmac import compare_digest
from html import escape
from typing import Any

from msgspec.json import schema_components
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest
from starlette.responses import HTMLResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from glassformer.serving.contracts import deepl, libretranslate, native, openai
from glassformer.serving.endpoint import Contract, Endpoint, RequestContext, Serving, bearer
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.middleware import LimitsMiddleware
from glassformer.version import __version__

_ABOUT = "Machine translation: the contracts of LibreTranslate, DeepL (v2) and OpenAI (chat), and our own (v1)."
_STRING, _TYPE = {"type": "string"}, re.compile(r"schemas/([\w.]+)")
_STYLE = "body{font:16px sans-serif;max-width:60em;margin:2em auto}td{padding:.2em .6em;vertical-align:top}"
_HEAD = f"<!doctype html><html lang=en><meta charset=utf-8><title>glassformer</title><style>{_STYLE}</style>"


async def home(context: RequestContext) -> dict[str, Any]:
    """Links to everything."""
    links = {"documentation": "/docs", "description": "/spec", "languages": "/languages", "health": "/health"}
    models = [model.name for model in context.languages.models]
    return {"name": "glassformer", "version": __version__, "models": models, "links": links}


async def health(context: RequestContext) -> dict[str, str]:
    """Whether requests are taken."""
    if context.serving.workers.queue.is_draining:
        raise HTTPError(503, "the server stops")
    return {"status": "ok"}


async def metrics(context: RequestContext) -> Response:
    """Counts, for Prometheus."""
    wanted = context.serving.config.metrics_key
    if wanted and not compare_digest(bearer(context.request).encode(), wanted.encode()):
        raise HTTPError(401, "Unauthorized", headers={"WWW-Authenticate": "Bearer"})
    return Response(generate_latest(context.serving.metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def spec(_: RequestContext) -> dict[str, Any]:
    """This description, as OpenAPI has it."""
    return describe(ENDPOINTS)


async def docs(_: RequestContext) -> HTMLResponse:
    """This description, for people; it needs no network."""
    return HTMLResponse(_page(describe(ENDPOINTS)))


_OPEN = partial(Endpoint, Contract("server"), "GET", access="open")
ENDPOINTS = (
    *libretranslate.ENDPOINTS,
    *deepl.ENDPOINTS,
    *openai.ENDPOINTS,
    *native.ENDPOINTS,
    _OPEN("/", home),
    _OPEN("/health", health),
    _OPEN("/metrics", metrics),
    _OPEN("/spec", spec),
    _OPEN("/docs", docs),
)


def make_app(serving: Serving) -> ASGIApp:
    """The ASGI application of a server whose workers are running."""
    waiting = Gauge("glassformer_waiting_texts", "Texts that wait", registry=serving.metrics.registry)
    waiting.set_function(lambda: serving.workers.queue.waiting)
    return LimitsMiddleware(Router([one.route(serving) for one in ENDPOINTS]), serving.config, serving.metrics)


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of some endpoints."""
    kinds = [kind for one in endpoints for kind in (one.reads if one.reads.__struct_fields__ else Any, one.answers)]
    schemas, components = schema_components(kinds, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for one, reads, answers in zip(endpoints, schemas[::2], schemas[1::2], strict=True):
        for method in one.methods.lower().split():
            paths.setdefault(one.path, {})[method] = _operation(one, method, reads, answers)
    about = {"title": "glassformer", "version": __version__, "description": _ABOUT}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": {"schemas": components}}


def _operation(one: Endpoint, method: str, reads: Any, answers: Any) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", one.path)
    found: dict[str, Any] = {
        "summary": (one.handler.__doc__ or "").partition("\n")[0],
        "operationId": f"{method} {one.path}",
        "parameters": [{"name": name, "in": "path", "required": True, "schema": _STRING} for name in names],
        "responses": {
            "200": {"description": "the answer", **_json(answers)},
            "default": {"description": "why not", **_json({"type": "object"})},
        },
    }
    if one.reads.__struct_fields__ and method == "post":
        found["requestBody"] = {"required": True, **_json(reads)}
    return found


def _json(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _page(found: dict[str, Any]) -> str:
    rows = [
        f"<tr><td>{method.upper()}<td><code>{escape(path)}</code><td>{escape(one['summary'])}"
        f"<td>{', '.join(_TYPE.findall(str(one.get('requestBody'))))}"
        for path, methods in found["paths"].items()
        for method, one in methods.items()
    ]
    types = escape(json.dumps(found["components"]["schemas"], indent=2))
    return f"{_HEAD}<h1>glassformer {__version__}</h1><p>{_ABOUT}<table>{''.join(rows)}</table><pre>{types}</pre>"
