"""The contract of LibreTranslate, as its clients speak it: endpoints, parameters, error messages.

Written from what clients send and read; nothing is taken from LibreTranslate, which has another licence.
"""

from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import Meta, Struct
from starlette.responses import Response

from glassformer.serving.endpoint import Contract, Endpoint, RequestContext
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.parameters import Upload
from glassformer.serving.service import Options
from glassformer.settings import language_name
from glassformer.text.formats import endings

_MOST_CHECKS = 1000  # of a file, in one answer
CONTRACT = Contract(missing="Invalid request: missing {} parameter")


class Translate(Struct):
    """One text or several; ``alternatives`` is how many further outputs are wanted."""

    q: str | list[str]
    source: Annotated[str, Meta(description="a code, or auto")]
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = 0


async def translate(context: RequestContext, asked: Translate) -> dict[str, Any]:
    """One text for one, a list for a list; languages only for source auto, alternatives only if requested."""
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    most, count = context.serving.config.n_best_limit, max(0, asked.alternatives)
    if count > most:
        raise bad_request(f"alternatives parameter must be <= {most}")
    options = Options(format=asked.format, n_best=1 if asked.format == "html" else count + 1)
    found = await context.translate(texts, asked.source, asked.target, options)
    answer: dict[str, list[Any]] = {"translatedText": [one.text for one in found]}
    if asked.source.strip().lower() == "auto":
        answer["detectedLanguage"] = [context.languages.detect(text)[0] for text in texts]
    if count:
        answer["alternatives"] = [one.others[:count] for one in found]
    return answer if isinstance(asked.q, list) else {name: values[0] for name, values in answer.items()}


class Detect(Struct):
    """One text."""

    q: str


async def detect(context: RequestContext, asked: Detect) -> list[dict[str, Any]]:
    """Which served language a text is in."""
    return context.languages.detect(asked.q)


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
        "supportedFilesFormat": endings(lambda each: each.segments),
        "language": {side: {"code": code, "name": language_name(code)} for side, code in sides.items()},
    }


class TranslateFile(Struct):
    """A file in a form."""

    file: Upload
    source: str
    target: str


async def translate_file(context: RequestContext, asked: TranslateFile) -> dict[str, Any]:
    """A file in its own form; the answer says where it can be fetched, and what should be looked at in it."""
    if not context.serving.config.files:
        raise HTTPError(403, "Files translation are disabled on this server.")
    target, number, name = context.languages.read(asked.target), token_hex(16), Path(asked.file.name)
    content, report = await context.translate_file(asked.file, asked.source, target)
    try:
        context.serving.files[number] = (content, f"{name.stem}_{target}{name.suffix}")
    except ValueError as error:  # of the cache
        raise HTTPError(413, "the translated file is too large to be kept") from error
    url = str(context.request.url_for("download_file", number=number))
    return {"translatedFileUrl": url, "check": report.checks[:_MOST_CHECKS]}


async def download_file(context: RequestContext) -> Response:
    """A translated file."""
    kept = context.serving.files.get(context.request.path_params["number"])
    if kept is None:
        raise HTTPError(404, "there is no such file: a translated file is kept for 15 minutes. Send it again")
    content, name = kept
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(content, media_type="application/octet-stream", headers=headers)


ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/translate", translate, Translate, texts=("q",)),
    Endpoint(CONTRACT, "POST", "/detect", detect, Detect, texts=("q",)),
    Endpoint(CONTRACT, "GET", "/languages", languages, access="open"),
    Endpoint(CONTRACT, "GET", "/frontend/settings", settings, access="open"),
    Endpoint(CONTRACT, "POST", "/translate_file", translate_file, TranslateFile),
    Endpoint(CONTRACT, "GET", "/download_file/{number}", download_file, access="open"),
)
