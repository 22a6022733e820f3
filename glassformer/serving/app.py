"""The application: all contracts behind one door, and the description of them, which is made from their types."""

import json
import re
from collections.abc import Sequence
from functools import partial
from hmac import compare_digest
from html import escape
from typing import Any

from msgspec import Struct
from msgspec.json import schema_components
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest
from starlette.responses import HTMLResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from glassformer.serving.contracts import libretranslate, native, openai
from glassformer.serving.contracts.deepl import DeepL
from glassformer.serving.door import Door
from glassformer.serving.endpoint import Contract, Endpoint, Nothing, Serving, Visit, bearer
from glassformer.serving.refusal import Refusal
from glassformer.version import __version__

_ABOUT = "Machine translation: the contracts of LibreTranslate, DeepL (v2) and OpenAI (chat), and our own (v1)."
_STYLE = "body{font:16px sans-serif;max-width:60em;margin:2em auto}td{padding:.2em .6em;vertical-align:top}"
_HEAD = f"<!doctype html><html lang=en><meta charset=utf-8><title>glassformer</title><style>{_STYLE}</style>"


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


async def spec(visit: Visit, _: Nothing) -> dict[str, Any]:
    """This description, as OpenAPI has it."""
    return describe(endpoints_of(DeepL()))


async def docs(visit: Visit, _: Nothing) -> HTMLResponse:
    """This description, for people; it needs no network."""
    return HTMLResponse(_page(describe(endpoints_of(DeepL()))))


def endpoints_of(deepl: DeepL) -> list[Endpoint]:
    """All that the server has."""
    open_to_all = partial(Endpoint, Contract(), "GET", access="open")
    own = [open_to_all("/", home), *(open_to_all(f"/{one.__name__}", one) for one in (health, metrics, spec, docs))]
    return [*own, *libretranslate.ENDPOINTS, *native.ENDPOINTS, *openai.ENDPOINTS, *deepl.endpoints()]


def make_app(serving: Serving) -> ASGIApp:
    """The application of a server whose workers are running."""
    waiting = Gauge("glassformer_waiting_texts", "Texts that wait", registry=serving.metrics.registry)
    waiting.set_function(lambda: serving.service.loaded.queue.waiting)
    routes = [one.route(serving) for one in endpoints_of(DeepL())]
    return Door(Router(routes), serving.config, serving.metrics)


class Error(Struct):
    """What went wrong."""

    error: str


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of some endpoints."""
    kinds = [kind for one in endpoints for kind in (one.reads, one.answers) if kind not in (None, Nothing)]
    schemas, components = schema_components([*kinds, Error], ref_template="#/components/schemas/{name}")
    by_kind = dict(zip(map(str, [*kinds, Error]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        for method in one.methods.lower().split():
            paths.setdefault(one.path, {})[method] = _operation(one, method, by_kind)
    return {
        "openapi": "3.1.0", "info": {"title": "glassformer", "version": __version__, "description": _ABOUT},
        "paths": paths, "components": {"schemas": components},
    }  # fmt: skip


def _operation(one: Endpoint, method: str, by_kind: dict[str, Any]) -> dict[str, Any]:
    def content(kind: Any) -> dict[str, Any]:
        return {"content": {"application/json": {"schema": by_kind[str(kind)]}}} if kind is not None else {}

    found: dict[str, Any] = {
        "summary": (one.handler.__doc__ or "").partition("\n")[0], "operationId": f"{method} {one.path}",
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                       for name in re.findall(r"{(\w+)}", one.path)],
        "responses": {"200": {"description": "the answer"} | content(one.answers),
                      "default": {"description": "why not"} | content(Error)},
    }  # fmt: skip
    if one.reads is not Nothing and method == "post":
        found["requestBody"] = {"required": True, **content(one.reads)}
    return found


def _page(found: dict[str, Any]) -> str:
    rows = [
        f"<tr><td>{method.upper()}<td><code>{escape(path)}</code><td>{escape(one['summary'])}<td>"
        + "".join(
            f"<a href='#{name}'>{name}</a>" for name in re.findall(r"schemas/(\w+)", str(one.get("requestBody")))
        )
        for path, methods in found["paths"].items()
        for method, one in methods.items()
    ]
    types = [
        f"<h2 id='{name}'>{name}</h2><p>{escape(schema.get('description', ''))}"
        f"<pre>{escape(json.dumps(schema.get('properties', schema), indent=2))}</pre>"
        for name, schema in found["components"]["schemas"].items()
    ]
    return f"{_HEAD}<h1>glassformer {__version__}</h1><p>{_ABOUT}<table>{''.join(rows)}</table>{''.join(types)}"
