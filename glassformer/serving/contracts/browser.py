"""Contracts of a browser's tools: MTranServer, Immersive Translate, KISS Translator, DeepLX."""

from functools import partial
from typing import Any

from glassformer.serving.endpoint import Contract, Endpoint, RequestContext
from glassformer.serving.http_errors import bad_request
from glassformer.serving.service import TranslationRequest

CONTRACT = Contract("browser", "token", is_json=True, key_statuses=(401, 401))


async def _translate(context: RequestContext, texts: list[str], source: str, target: str) -> list[tuple[str, str]]:
    """The source language and the translation of each text."""
    requests = context.requests_for(TranslationRequest(text="", source=source, target=target), texts)
    answers = await context.translate(requests)
    return [(asked.source, answer.text) for asked, answer in zip(requests, answers, strict=True)]


async def batch(context: RequestContext, *, texts: list[str], to: str, from_: str = "auto") -> dict[str, list[str]]:
    """MTranServer's list of texts."""
    return {"results": [text for _, text in await _translate(context, texts, from_, to)]}


async def immersive(
    context: RequestContext, *, text_list: list[str], target_lang: str, source_lang: str = "auto"
) -> dict[str, list[dict[str, str]]]:
    """Immersive Translate's custom service."""
    found = await _translate(context, text_list, source_lang, target_lang)
    return {"translations": [{"detected_source_lang": source, "text": text} for source, text in found]}


async def kiss(
    context: RequestContext, *, to: str, text: str = "", texts: list[str] | None = None, from_: str = "auto"
) -> dict[str, Any]:
    """KISS Translator's custom service: one text, or several."""
    asked = texts or [text]
    if not any(asked):
        raise bad_request("missing text parameter")
    found = await _translate(context, asked, from_, to)
    several = {"translations": [{"text": answer, "src": source} for source, answer in found]} if texts else {}
    return {"text": found[0][1], "from": found[0][0], "to": to} | several


async def deeplx(
    context: RequestContext, *, text: str, target_lang: str, source_lang: str = "auto"
) -> dict[str, Any]:
    """DeepLX's one text."""
    ((source, answer),) = await _translate(context, [text], source_lang, target_lang)
    languages = {"source_lang": source.upper(), "target_lang": target_lang.upper()}
    return {"code": 200, "id": 0, "data": answer, "alternatives": [], "method": "Free", **languages}


_POST = partial(Endpoint, CONTRACT, "POST")
ENDPOINTS = (
    _POST("/translate/batch", batch, texts=("texts",)),
    _POST("/imme", immersive, texts=("text_list",)),
    _POST("/kiss", kiss, texts=("texts", "text")),
    _POST("/deeplx", deeplx, texts=("text",)),
)
