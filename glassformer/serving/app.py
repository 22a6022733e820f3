"""The application: all contracts and their OpenAPI description, which is made from their types."""

import re
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.json import schema_components
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from glassformer.serving.contracts import browser, deepl, libretranslate, native, openai
from glassformer.serving.endpoint import CHECK, Contract, Endpoint, RequestContext, Serving
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.middleware import LimitsMiddleware
from glassformer.version import __version__

_ASSETS = Path(__file__).parents[1] / "explain" / "page" / "assets"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_FRESH = {"Cache-Control": "no-cache"}  # it is asked again, so that all files are of one version
_OF_PAGE = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer", "Vary": "Accept"} | _FRESH


class _Assets(StaticFiles):
    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers.update(_FRESH)
        return response


async def home(context: RequestContext) -> dict[str, Any] | Response:
    """The page to translate with for a browser; links to everything for a program."""
    if "text/html" in context.request.headers.get("accept", ""):
        return FileResponse(_ASSETS / "translate" / "served.html", headers=_OF_PAGE)
    links = {"description": "/spec", "languages": "/languages", "health": "/health"}
    models = [model.name for model in context.languages.models]
    return {"name": "glassformer", "version": __version__, "models": models, "links": links}


async def health(context: RequestContext) -> dict[str, str]:
    """Whether texts are translated."""
    if not context.serving.models.batcher.is_working:
        raise HTTPError(503, "no text can be translated")
    return {"status": "ok"}


async def metrics(context: RequestContext) -> Response:
    """Counts, for Prometheus."""
    return Response(generate_latest(context.serving.metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def spec(context: RequestContext) -> dict[str, Any]:
    """This description, as OpenAPI has it."""
    kinds = [Any if one.asked is None else one.asked for one in ENDPOINTS]
    schemas, components = schema_components(kinds, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for one, schema in zip(ENDPOINTS, schemas, strict=True):
        names = re.findall(r"{(\w+)}", one.path)
        found: dict[str, Any] = {
            "summary": (one.handler.__doc__ or "").partition("\n")[0],
            "parameters": [{"name": name, "in": "path", "required": True, "schema": {}} for name in names],
            "responses": {"200": {"description": "the answer"}, "default": {"description": "why not"}},
        }
        body = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
        for method in one.methods.lower().split():
            own = found | {"operationId": f"{method} {one.path}"} | (body if method == "post" else {})
            paths.setdefault(one.path, {})[method] = own
    about = {"title": "glassformer", "version": __version__, "description": "Machine translation"}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": {"schemas": components}}


_OPEN = partial(Endpoint, Contract(), "GET", access="open")
ENDPOINTS = (
    *libretranslate.ENDPOINTS,
    *deepl.ENDPOINTS,
    *openai.ENDPOINTS,
    *native.ENDPOINTS,
    *browser.ENDPOINTS,
    _OPEN("/", home),
    _OPEN("/health", health),
    _OPEN("/metrics", metrics),
    _OPEN("/spec", spec),
)


def make_app(serving: Serving) -> ASGIApp:
    """The ASGI application of a server whose models are loaded."""
    serving.metrics.waiting.set_function(lambda: serving.service.waiting)
    routes = [*(one.route(serving) for one in ENDPOINTS), Mount("/page", _Assets(directory=_ASSETS))]
    app = LimitsMiddleware(Router(routes), serving.config, serving.metrics)
    exposed, every = [CHECK, "Retry-After"], ["*"]
    return CORSMiddleware(
        app, allow_origins=every, allow_methods=every, allow_headers=every, expose_headers=exposed, max_age=86_400
    )
