"""Contracts of a browser's tools: MTranServer, Immersive Translate, KISS Translator, DeepLX."""

from functools import partial
from typing import Any

from msgspec import Struct

from glassformer.serving.endpoint import Contract, Endpoint, RequestContext
from glassformer.serving.http_errors import bad_request

CONTRACT = Contract("token", is_json=True, key_statuses=(401, 401))


class Batch(Struct, rename={"from_": "from"}):
    """MTranServer's list of texts."""

    texts: list[str]
    to: str
    from_: str = "auto"


async def batch(context: RequestContext, asked: Batch) -> dict[str, list[str]]:
    """MTranServer's list of texts."""
    return {"results": [one.text for one in await context.translate(asked.texts, asked.from_, asked.to)]}


class Immersive(Struct):
    """Immersive Translate's custom service."""

    text_list: list[str]
    target_lang: str
    source_lang: str = "auto"


async def immersive(context: RequestContext, asked: Immersive) -> dict[str, list[dict[str, str]]]:
    """Immersive Translate's custom service."""
    found = await context.translate(asked.text_list, asked.source_lang, asked.target_lang)
    return {"translations": [{"detected_source_lang": one.source, "text": one.text} for one in found]}


class Kiss(Struct, rename={"from_": "from"}):
    """KISS Translator's custom service: one text, or several."""

    to: str
    text: str = ""
    texts: list[str] = []
    from_: str = "auto"


async def kiss(context: RequestContext, asked: Kiss) -> dict[str, Any]:
    """KISS Translator's custom service: one text, or several."""
    texts = asked.texts or [asked.text]
    if not any(texts):
        raise bad_request("missing text parameter")
    found = await context.translate(texts, asked.from_, asked.to)
    several = {"translations": [{"text": one.text, "src": one.source} for one in found]} if asked.texts else {}
    return {"text": found[0].text, "from": found[0].source, "to": asked.to} | several


class DeepLX(Struct):
    """DeepLX's one text."""

    text: str
    target_lang: str
    source_lang: str = "auto"


async def deeplx(context: RequestContext, asked: DeepLX) -> dict[str, Any]:
    """DeepLX's one text."""
    (found,) = await context.translate([asked.text], asked.source_lang, asked.target_lang)
    languages = {"source_lang": found.source.upper(), "target_lang": asked.target_lang.upper()}
    return {"code": 200, "id": 0, "data": found.text, "alternatives": [], "method": "Free", **languages}


_POST = partial(Endpoint, CONTRACT, "POST")
ENDPOINTS = (
    _POST("/translate/batch", batch, texts=("texts",)),
    _POST("/imme", immersive, texts=("text_list",)),
    _POST("/kiss", kiss, texts=("texts", "text")),
    _POST("/deeplx", deeplx, texts=("text",)),
)
