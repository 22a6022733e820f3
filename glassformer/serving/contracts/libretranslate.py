"""The contract of LibreTranslate, as its clients speak it: endpoints, parameters, error messages.

Written from what clients send and read; nothing is taken from LibreTranslate, which has another licence.
"""

from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from glassformer.decoding.translation import Translation
from glassformer.serving.endpoint import Contract, Endpoint, RequestContext, Upload, file_endings
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.service import TranslationRequest, check_codes
from glassformer.settings import language_name

_MOST_CHECKS = 1000  # of a file, in one answer
CONTRACT = Contract(
    "LibreTranslate",
    missing_message="Invalid request: missing {} parameter",
    invalid_messages={
        "format": "{} format is not supported",
        "alternatives": "Invalid request: alternatives parameter is not a number",
    },
)


async def translate(
    context: RequestContext,
    *,
    q: str | list[str],
    source: Annotated[str, Meta(description="a code, or auto")],
    target: str,
    format: Literal["text", "html"] = "text",
    alternatives: int = 0,
) -> dict[str, Any]:
    """One text for one, a list for a list; languages only for source auto, alternatives only if requested."""
    texts = [q] if isinstance(q, str) else q
    most = context.serving.config.n_best_limit
    if alternatives > most:
        raise bad_request(f"alternatives parameter must be <= {most}")
    requests = context.requests_for(TranslationRequest(text="", source=source, target=target, format=format), texts)
    has_others = alternatives > 0 and format == "text"
    more = [replace(one, n_best=alternatives + 1) for one in requests] if has_others else []
    answers = await context.translate(requests, more)
    found, outputs = answers[: len(texts)], answers[len(texts) :]
    others = [_other_texts(*each)[:alternatives] for each in zip(texts, found, outputs, strict=False)]
    answer: dict[str, list[Any]] = {"translatedText": [one.text for one in found]}
    answer |= {"detectedLanguage": context.detected} if context.detected else {}
    answer |= {"alternatives": others or [[] for _ in texts]} if alternatives > 0 else {}
    return answer if isinstance(q, list) else {name: values[0] for name, values in answer.items()}


def _other_texts(source: str, answer: Translation, outputs: Translation) -> list[str]:
    """The other outputs of the model that have all codes of the source."""
    texts = dict.fromkeys(one.text for one in outputs.hypotheses)
    return [other for other in texts if other != answer.text and not check_codes(source, other)]


async def detect(context: RequestContext, *, q: str) -> list[dict[str, Any]]:
    """Which served language a text is in."""
    return context.languages.detect(q)


async def languages(context: RequestContext) -> list[dict[str, Any]]:
    """Each language and what it is translated to."""
    served = context.languages
    return [{"code": code, "name": language_name(code), "targets": served.targets(code)} for code in served.codes]


async def settings(context: RequestContext) -> dict[str, Any]:
    """What a web page for people needs to know."""
    config, model = context.serving.config, context.languages.models[0]
    sides = {"source": model.source, "target": model.target}
    return {
        "charLimit": config.char_limit or -1,
        "frontendTimeout": 500,
        "apiKeys": bool(config.keys),
        "keyRequired": config.require_key,
        "suggestions": False,
        "filesTranslation": config.files,
        "supportedFilesFormat": file_endings(),
        "language": {side: {"code": code, "name": language_name(code)} for side, code in sides.items()},
    }


async def translate_file(
    context: RequestContext, *, file: Upload | None = None, source: str = "", target: str = ""
) -> dict[str, Any]:
    """A file in its own form; the answer says where it can be fetched, and what should be looked at in it."""
    if not context.serving.config.files:
        raise HTTPError(403, "Files translation are disabled on this server.")
    missing = [name for name, value in (("file", file), ("source", source), ("target", target)) if not value]
    if missing or file is None:
        raise bad_request(f"missing {missing[0]} parameter")
    target, number, name = context.languages.read(target), token_hex(16), Path(file.name)
    content, report = await context.translate_file(file, source, target)
    try:
        context.serving.files[number] = (content, f"{name.stem}_{target}{name.suffix}")
    except ValueError as error:  # of the cache
        raise HTTPError(413, "the translated file is too large to be kept") from error
    url = str(context.request.url_for("download_file", number=number))
    return {"translatedFileUrl": url, "check": report.checks[:_MOST_CHECKS]}


async def download_file(context: RequestContext) -> Response:
    """A translated file."""
    kept = context.serving.files.get(context.number)
    if kept is None:
        raise HTTPError(404, "there is no such file: a translated file is kept for 15 minutes. Send it again")
    content, name = kept
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(content, media_type="application/octet-stream", headers=headers)


ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/translate", translate, texts=("q",)),
    Endpoint(CONTRACT, "POST", "/detect", detect, texts=("q",)),
    Endpoint(CONTRACT, "GET", "/languages", languages, access="open"),
    Endpoint(CONTRACT, "GET", "/frontend/settings", settings, access="open"),
    Endpoint(CONTRACT, "POST", "/translate_file", translate_file),
    Endpoint(CONTRACT, "GET", "/download_file/{number}", download_file, access="open"),
)
