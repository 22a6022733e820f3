"""The contract of LibreTranslate, as its clients speak it: routes, parameters, texts of errors.

Written from what clients send and read; nothing is taken from LibreTranslate, which has another licence.
"""

import asyncio
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from glassformer.serving.files import file_endings
from glassformer.serving.http.parameters import (
    Upload,
    Values,
    bearer,
    first,
    is_json,
    json_response,
    read_struct,
    read_values,
)
from glassformer.serving.http.visit import Serving, Visit, serving_of, text_of
from glassformer.serving.languages import Detected, Languages, language_name
from glassformer.serving.refusal import Refusal, bad_request
from glassformer.serving.service import Answer, Order

_FRONTEND_MS = 500  # how long a page waits while a person types


class TranslateForm(Struct):
    """What is read of a request to translate; as JSON, as a form, or in the address."""

    q: str | list[str]
    source: Annotated[str, Meta(min_length=1)]
    target: Annotated[str, Meta(min_length=1)]
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    api_key: str | None = ""


class Detection(Struct):
    """A language, and how sure that is, from 0 to 100."""

    confidence: float
    language: str


class TranslateAnswer(Struct, omit_defaults=True):
    """One text for one, a list for a list; the language only of source auto, alternatives only where asked for."""

    translatedText: str | list[str]  # noqa: N815  # its name in the contract
    detectedLanguage: Detection | list[Detection] | UnsetType = UNSET  # noqa: N815
    alternatives: list[str | list[str]] | UnsetType = UNSET


class DetectForm(Struct):
    """The text whose language is wanted."""

    q: Annotated[str, Meta(min_length=1)]
    api_key: str | None = ""


class SuggestForm(Struct):
    """A text and a better translation of it."""

    q: Annotated[str, Meta(min_length=1)]
    s: Annotated[str, Meta(min_length=1)]
    source: str
    target: str
    api_key: str | None = ""


class Success(Struct):
    """What was sent is kept."""

    success: bool


class Language(Struct):
    """A language and what it is translated to."""

    code: str
    name: str
    targets: list[str]


def _key(request: Request, values: Values) -> str:
    return str(first(values, "api_key") or bearer(request))


async def translate(request: Request) -> Response:
    """POST /translate: one text, or in JSON a list of them."""
    asked, visit = await _read_translate(request)
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    detected = _detect(visit.languages, asked.source, texts)
    languages = [found.language for found in detected] or [visit.languages.read(asked.source)] * len(texts)
    order = Order((), "", visit.languages.read(asked.target), asked.format)
    answers, others = await _translate(visit, order, texts, languages, asked.alternatives)
    is_list = isinstance(asked.q, list)
    answer = TranslateAnswer(_one_or_all([one.text for one in answers], is_list))
    if detected:
        answer.detectedLanguage = _one_or_all(detected, is_list)
    if asked.alternatives > 0:
        answer.alternatives = _one_or_all(others, is_list)
    return json_response(answer, visit.headers)


async def _read_translate(request: Request) -> tuple[TranslateForm, Visit]:
    """What is asked for, by whom; the client is let in before its parameters are looked at."""
    values = await read_values(request)
    if not is_json(request):
        values = {name: first(values, name) for name in values}
    given = values.get("q")
    texts = [text for text in (given if isinstance(given, list) else [given]) if isinstance(text, str)]
    visit = Visit(request, _key(request, values), texts, cost=max(1, len(texts)))
    for name in ("q", "source", "target"):
        if not values.get(name):
            raise bad_request(f"missing {name} parameter")
    form = values.setdefault("format", "text")
    if form not in ("text", "html"):
        raise Refusal(400, f"{str(form)[:40]} format is not supported")
    values["alternatives"] = _alternatives(values.get("alternatives"), visit.serving.config.n_best_limit)
    return read_struct(values, TranslateForm, strict=is_json(request)), visit


def _one_or_all(found: list[Any], is_list: bool) -> Any:
    return found if is_list else found[0]


def _alternatives(given: Any, most: int) -> int:
    try:
        number = int(given or 0)
    except (TypeError, ValueError):
        raise bad_request("alternatives parameter is not a number") from None
    if number > most:
        raise bad_request(f"alternatives parameter must be <= {most}")
    return max(0, number)


def _detect(languages: Languages, source: str, texts: list[str]) -> list[Detection]:
    """Of source "auto" the language of each text."""
    return [_detection(languages.detect(text)[0]) for text in texts] if source.strip().lower() == "auto" else []


def _detection(found: Detected) -> Detection:
    return Detection(found.confidence, found.language)


async def _translate(
    visit: Visit, order: Order, texts: list[str], languages: list[str], number: int
) -> tuple[list[Answer], list[list[str]]]:
    """The answers in the order of the texts, and so many alternatives of each as there are."""
    places = defaultdict[str, list[int]](list)
    for place, language in enumerate(languages):
        places[language].append(place)
    orders = [replace(order, texts=tuple(texts[n] for n in own), source=code) for code, own in places.items()]
    wants_others = number > 0 and order.format == "text"
    more = [replace(one, n_best=number + 1) for one in orders if wants_others and one.source != one.target]
    found = await visit.translate(*orders, *more)
    answers = {
        n: answer
        for own, each in zip(places.values(), found, strict=False)
        for n, answer in zip(own, each, strict=True)
    }
    others = {n: list[str]() for n in answers}
    for one, each in zip(more, found[len(orders) :], strict=True):
        for n, answer in zip(places[one.source], each, strict=True):
            others[n] = _other_texts(texts[n], answers[n].text, answer, number)
    visit.tell_check([answers[n] for n in sorted(answers)])
    return [answers[n] for n in sorted(answers)], [others[n] for n in sorted(others)]


def _other_texts(source: str, text: str, answer: Answer, number: int) -> list[str]:
    """The other outputs of the model that have all codes of the source."""
    hypotheses = (answer.output or {}).get("hypotheses", [])
    texts = dict.fromkeys(one["text"] for one in hypotheses if not lost_codes(source, one["text"]))
    return [other for other in texts if other != text][:number]


def lost_codes(source: str, text: str) -> bool:
    """Whether a translation lacks a code of its source, or has one too many."""
    from glassformer.documents.checks import code_changes
    from glassformer.documents.placeholders import find_codes

    return bool(code_changes(find_codes((source,)), find_codes((text,))))


async def detect(request: Request) -> Response:
    """POST /detect: which served language a text is in."""
    values = await read_values(request)
    q = first(values, "q")
    visit = Visit(request, _key(request, values), [q if isinstance(q, str) else ""], cost=1)
    found = visit.languages.detect(text_of(q, "q"))
    return json_response([_detection(one) for one in found], visit.headers)


async def languages(request: Request) -> Response:
    """GET /languages: each language and what it is translated to. What some clients send with it is not read."""
    served = serving_of(request).languages
    return json_response([Language(code, language_name(code), served.targets(code)) for code in served.codes], {})


async def settings(request: Request) -> Response:
    """GET /frontend/settings: what a page for people has to know."""
    serving = serving_of(request)
    config, served = serving.config, serving.languages
    pair = served.models[0]
    return JSONResponse({
        "charLimit": config.char_limit or -1, "frontendTimeout": _FRONTEND_MS, "apiKeys": serving.access.has_keys,
        "keyRequired": config.require_key, "suggestions": bool(config.suggestions), "filesTranslation": config.files,
        "supportedFilesFormat": file_endings(),
        "language": {side: {"code": code, "name": language_name(code)}
                     for side, code in (("source", pair.source), ("target", pair.target))},
    })  # fmt: skip


async def translate_file(request: Request) -> Response:
    """POST /translate_file: a file in its own form; the answer says where it can be fetched."""
    values = await read_values(request)
    visit = Visit(request, _key(request, values))
    if not visit.serving.config.files:
        raise Refusal(403, "Files translation are disabled on this server.")
    upload = first(values, "file")
    if not isinstance(upload, Upload):
        raise bad_request("missing file parameter")
    source, target = (text_of(first(values, name), name) for name in ("source", "target"))
    if source.strip().lower() == "auto":
        start = upload.content[:5000].decode("utf-8", "replace")
        source = visit.languages.detect(start)[0].language
    target = visit.languages.read(target)
    out, _ = await visit.translate_file(upload, visit.languages.read(source), target)
    name = Path(upload.name).name
    number = visit.serving.files.keep(out, f"{Path(name).stem}_{target}{Path(name).suffix}", visit.client.name)
    url = str(request.url_for("download_file", number=number))
    return JSONResponse({"translatedFileUrl": url}, headers=visit.headers)


async def download_file(request: Request) -> Response:
    """GET /download_file/ID: a translated file."""
    kept = serving_of(request).files.find(request.path_params["number"])
    return FileResponse(kept.path, media_type="application/octet-stream", filename=kept.name)


async def suggest(request: Request) -> Response:
    """POST /suggest: keep a better translation, as a pair that a training reads."""
    values = await read_values(request)
    directory = serving_of(request).config.suggestions
    if not directory:
        raise Refusal(403, "Suggestions are disabled on this server.")
    q, s = first(values, "q"), first(values, "s")
    visit = Visit(request, _key(request, values), [one for one in (q, s) if isinstance(one, str)], cost=1)
    q, s = text_of(q, "q"), text_of(s, "s")
    source, target = (visit.languages.read(text_of(first(values, name), name)) for name in ("source", "target"))
    line = json.dumps({"translation": {source: q, target: s}}, ensure_ascii=False)
    await asyncio.to_thread(_append, Path(directory) / f"{source}-{target}.jsonl", line)
    return json_response(Success(True), visit.headers)


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


async def health(request: Request) -> Response:
    """GET /health: whether requests are taken."""
    if serving_of(request).service.loaded.queue.is_draining:
        raise Refusal(503, "the server stops")
    return JSONResponse({"status": "ok"})


async def metrics(request: Request) -> Response:
    """GET /metrics: counts, for Prometheus."""
    from hmac import compare_digest

    from glassformer.serving.metrics import CONTENT_TYPE

    serving: Serving = serving_of(request)
    wanted = serving.config.metrics_key
    if wanted and not compare_digest(bearer(request).encode(), wanted.encode()):
        raise Refusal(401, "Unauthorized", headers={"WWW-Authenticate": "Bearer"})
    return Response(serving.metrics.text(), media_type=CONTENT_TYPE)


ROUTES = [
    Route("/translate", translate, methods=["POST"]),
    Route("/detect", detect, methods=["POST"]),
    Route("/languages", languages, methods=["GET"]),
    Route("/frontend/settings", settings, methods=["GET"]),
    Route("/translate_file", translate_file, methods=["POST"]),
    Route("/download_file/{number}", download_file, methods=["GET"], name="download_file"),
    Route("/suggest", suggest, methods=["POST"]),
    Route("/health", health, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
