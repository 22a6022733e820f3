"""The description of all routes, made from their types, and a page for people that shows it without a network."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from glassformer.serving.contracts import deepl, libretranslate, native, openai
from glassformer.version import __version__

_ABOUT = "Machine translation: the contracts of LibreTranslate, DeepL (v2) and OpenAI (chat), and our own (v1)."
# What each route reads and answers, where that is JSON.
_TYPES: dict[str, tuple[Any, Any]] = {
    "/translate": (libretranslate.TranslateForm, libretranslate.TranslateAnswer),
    "/detect": (libretranslate.DetectForm, list[libretranslate.Detection]),
    "/languages": (None, list[libretranslate.Language]),
    "/suggest": (libretranslate.SuggestForm, libretranslate.Success),
    "/v1/translate": (native.TranslateRequest, native.TranslateAnswer),
    "/v1/explain": (native.ExplainBody, native.ExplainAnswer),
    "/v1/chat/completions": (openai.ChatRequest, None),
    "/v2/translate": (deepl.TranslateForm, deepl.TranslateAnswer),
}
_REF = "#/components/schemas/{name}"


class Error(msgspec.Struct):
    """What went wrong."""

    error: str


def describe(routes: Iterable[Any]) -> dict[str, Any]:
    """The OpenAPI document of some routes."""
    kinds = [kind for pair in _TYPES.values() for kind in pair if kind is not None]
    schemas, components = msgspec.json.schema_components([*kinds, Error], ref_template=_REF)
    by_kind = dict(zip(map(str, [*kinds, Error]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                paths.setdefault(route.path, {})[method.lower()] = _operation(route, method, by_kind)
    return {
        "openapi": "3.1.0", "info": {"title": "glassformer", "version": __version__, "description": _ABOUT},
        "paths": paths, "components": {"schemas": components},
    }  # fmt: skip


def _operation(route: Route, method: str, by_kind: dict[str, Any]) -> dict[str, Any]:
    reads, answers = _TYPES.get(route.path, (None, None))
    about = (route.endpoint.__doc__ or "").strip().split("\n")[0]
    ok = {"description": "the answer"} | (_content(by_kind[str(answers)]) if answers is not None else {})
    refused = {"description": "why not"} | _content(by_kind[str(Error)])
    found: dict[str, Any] = {
        "summary": about.partition(": ")[2] or about, "operationId": f"{method.lower()} {route.path}",
        "parameters": list(_path_parameters(route)), "responses": {"200": ok, "default": refused},
    }  # fmt: skip
    if reads is not None and method == "POST":
        found["requestBody"] = {"required": True, **_content(by_kind[str(reads)])}
    return found


def _content(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in route.param_convertors:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


async def spec(request: Request) -> Response:
    """GET /spec: this description, as OpenAPI has it."""
    return JSONResponse(describe(request.app.routes))


async def docs(request: Request) -> Response:
    """GET /docs: this description, for people; it needs no network."""
    found = describe(request.app.routes)
    rows = "".join(
        f"<tr><td>{method.upper()}<td><code>{escape(path)}</code><td>{escape(one['summary'])}<td>{_reads(one)}"
        for path, methods in found["paths"].items()
        for method, one in methods.items()
    )
    types = "".join(
        f"<h2 id='{name}'>{name}</h2><p>{escape(schema.get('description', ''))}<pre>{escape(_lines(schema))}</pre>"
        for name, schema in found["components"]["schemas"].items()
    )
    style = "body{font:16px sans-serif;max-width:60em;margin:2em auto}td{padding:.2em .6em;vertical-align:top}"
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>glassformer</title><style>{style}</style>"
    return HTMLResponse(f"{head}<h1>glassformer {__version__}</h1><p>{_ABOUT}<table>{rows}</table>{types}")


def _reads(operation: dict[str, Any]) -> str:
    body = operation.get("requestBody")
    if body is None:
        return ""
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return f"<a href='#{name}'>{name}</a>"


def _lines(schema: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(schema.get("properties", schema)), indent=2).decode()


ROUTES = [Route("/spec", spec, methods=["GET"]), Route("/docs", docs, methods=["GET"])]
