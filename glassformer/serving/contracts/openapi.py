"""The description of all endpoints, made from their types, and a page for people that shows it without a network."""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

import msgspec
from starlette.responses import HTMLResponse

from glassformer.serving.endpoint import Contract, Endpoint, Nothing, Visit
from glassformer.version import __version__

_ABOUT = "Machine translation: the contracts of LibreTranslate, DeepL (v2) and OpenAI (chat), and our own (v1)."


class Error(msgspec.Struct):
    """What went wrong."""

    error: str


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of some endpoints."""
    kinds = [kind for one in endpoints for kind in (one.reads, one.answers) if kind not in (None, Nothing)]
    schemas, components = msgspec.json.schema_components([*kinds, Error], ref_template="#/components/schemas/{name}")
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
    ok = {"description": "the answer"} | (_content(by_kind[str(one.answers)]) if one.answers is not None else {})
    found: dict[str, Any] = {
        "summary": (one.handler.__doc__ or "").partition("\n")[0], "operationId": f"{method} {one.path}",
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                       for name in re.findall(r"{(\w+)}", one.path)],
        "responses": {"200": ok, "default": {"description": "why not"} | _content(by_kind[str(Error)])},
    }  # fmt: skip
    if one.reads is not Nothing and method == "post":
        found["requestBody"] = {"required": True, **_content(by_kind[str(one.reads)])}
    return found


def _content(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def description_endpoints(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Those that show the description of others, and of themselves."""

    async def spec(visit: Visit, _: Nothing) -> dict[str, Any]:
        """This description, as OpenAPI has it."""
        return describe(described)

    async def docs(visit: Visit, _: Nothing) -> HTMLResponse:
        """This description, for people; it needs no network."""
        return HTMLResponse(_page(describe(described)))

    own = [Endpoint(Contract(), "GET", f"/{one.__name__}", one, access="open") for one in (spec, docs)]
    described = [*endpoints, *own]
    return own


def _page(found: dict[str, Any]) -> str:
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
    return f"{head}<h1>glassformer {__version__}</h1><p>{_ABOUT}<table>{rows}</table>{types}"


def _reads(operation: dict[str, Any]) -> str:
    if (body := operation.get("requestBody")) is None:
        return ""
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return f"<a href='#{name}'>{name}</a>"


def _lines(schema: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(schema.get("properties", schema)), indent=2).decode()
