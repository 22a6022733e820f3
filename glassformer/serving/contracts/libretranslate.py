"""The contract of LibreTranslate, as its clients speak it: endpoints, parameters, error messages.

Written from what clients send and read; nothing is taken from LibreTranslate, which has another licence.
"""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import FileResponse

from glassformer.decoding.translation import Translation
from glassformer.serving.endpoint import Contract, Endpoint, RequestContext
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.languages import Detected
from glassformer.serving.service import TranslationRequest, check_codes
from glassformer.serving.store import Upload, file_endings, new_id
from glassformer.settings import language_name

_FRONTEND_MS = 500  # that a web page waits after a key
_NO_FILES = "Files translation are disabled on this server."
_NO_SUGGESTIONS = "Suggestions are disabled on this server."
CONTRACT = Contract(
    "LibreTranslate",
    missing_message="Invalid request: missing {} parameter",
    invalid_messages={
        "format": "{} format is not supported",
        "alternatives": "Invalid request: alternatives parameter is not a number",
    },
)


class TranslateAnswer(Struct, omit_defaults=True):
    """One text for one, a list for a list; the language only for source auto, alternatives only if requested."""

    translatedText: str | list[str]  # noqa: N815  # its name in the contract
    detectedLanguage: Detected | list[Detected] | UnsetType = UNSET  # noqa: N815
    alternatives: list[str | list[str]] | UnsetType = UNSET


async def translate(
    context: RequestContext,
    *,
    q: str | list[str],
    source: Annotated[str, Meta(description="a code, or auto")],
    target: str,
    format: Literal["text", "html"] = "text",
    alternatives: int = 0,
) -> TranslateAnswer:
    """One text, or in JSON a list of them."""
    texts = [q] if isinstance(q, str) else q
    if alternatives > (most := context.serving.config.n_best_limit):
        raise bad_request(f"alternatives parameter must be <= {most}")
    requests = context.requests_for(TranslationRequest(text="", source=source, target=target, format=format), texts)
    has_others = alternatives > 0 and format == "text"
    more = [replace(one, n_best=alternatives + 1) for one in requests] if has_others else []
    answers = await context.translate(requests, more)
    found, outputs = answers[: len(texts)], answers[len(texts) :]
    others = [_other_texts(*each)[:alternatives] for each in zip(texts, found, outputs, strict=False)]

    def one_or_all(values: list[Any]) -> Any:
        return values if isinstance(q, list) else values[0]

    return TranslateAnswer(
        one_or_all([one.text for one in found]),
        one_or_all(context.detected) if context.detected else UNSET,
        one_or_all(others or [[] for _ in texts]) if alternatives > 0 else UNSET,
    )


def _other_texts(source: str, answer: Translation, outputs: Translation) -> list[str]:
    """The other outputs of the model that have all codes of the source."""
    texts = dict.fromkeys(one.text for one in outputs.hypotheses)
    return [other for other in texts if other != answer.text and not check_codes(source, other)]


async def detect(context: RequestContext, *, q: str) -> list[Detected]:
    """Which served language a text is in."""
    return context.languages.detect(q)


async def languages(context: RequestContext) -> list[dict[str, Any]]:
    """Each language and what it is translated to. What some clients send with the question is not read."""
    served = context.languages
    return [{"code": code, "name": language_name(code), "targets": served.targets(code)} for code in served.codes]


async def settings(context: RequestContext) -> dict[str, Any]:
    """What a web page for people needs to know."""
    config, model = context.serving.config, context.languages.models[0]
    sides = {"source": model.source, "target": model.target}
    return {
        "charLimit": config.char_limit or -1,
        "frontendTimeout": _FRONTEND_MS,
        "apiKeys": bool(config.keys),
        "keyRequired": config.require_key,
        "suggestions": bool(config.suggestions),
        "filesTranslation": config.files,
        "supportedFilesFormat": file_endings(),
        "language": {side: {"code": code, "name": language_name(code)} for side, code in sides.items()},
    }


async def translate_file(context: RequestContext, *, file: Upload, source: str, target: str) -> dict[str, str]:
    """A file in its own form; the answer says where it can be fetched."""
    target = context.languages.read(target)
    out = await context.translate_file(file, source, target)
    name, number = Path(file.name), new_id()
    context.serving.files.kept.keep(number, (out, f"{name.stem}_{target}{name.suffix}"))
    return {"translatedFileUrl": str(context.request.url_for("download_file", number=number))}


async def download_file(context: RequestContext) -> FileResponse:
    """A translated file."""
    if (kept := context.serving.files.kept.find(context.number)) is None:
        raise HTTPError(404, "there is no such file: a translated file is kept for 15 minutes. Send it again")
    return FileResponse(kept[0], media_type="application/octet-stream", filename=kept[1])


async def suggest(context: RequestContext, *, q: str, s: str, source: str, target: str) -> dict[str, bool]:
    """Keep a better translation, as a pair that a training reads."""
    source, target = context.languages.read(source), context.languages.read(target)
    path = Path(context.serving.config.suggestions) / f"{source}-{target}.jsonl"
    await asyncio.to_thread(_append, path, {"translation": {source: q, target: s}})
    return {"success": True}


def _append(path: Path, pair: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(pair, ensure_ascii=False) + "\n")


ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/translate", translate, texts=("q",)),
    Endpoint(CONTRACT, "POST", "/detect", detect, texts=("q",)),
    Endpoint(CONTRACT, "GET", "/languages", languages, access="open"),
    Endpoint(CONTRACT, "GET", "/frontend/settings", settings, access="open"),
    Endpoint(CONTRACT, "POST", "/translate_file", translate_file, closed=("files", _NO_FILES)),
    Endpoint(CONTRACT, "GET", "/download_file/{number}", download_file, access="open"),
    Endpoint(CONTRACT, "POST", "/suggest", suggest, texts=("q", "s"), closed=("suggestions", _NO_SUGGESTIONS)),
)
