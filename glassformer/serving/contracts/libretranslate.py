"""The contract of LibreTranslate, as its clients speak it: endpoints, parameters, texts of errors.

Written from what clients send and read; nothing is taken from LibreTranslate, which has another licence.
"""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import FileResponse

from glassformer.serving.endpoint import Contract, Endpoint, Nothing, Visit
from glassformer.serving.languages import Detected
from glassformer.serving.refusal import Refusal, bad_request
from glassformer.serving.service import Answer, Order, lost_codes
from glassformer.serving.store import Upload, file_endings, new_id
from glassformer.settings import language_name

_FRONTEND_MS = 500  # how long a page waits while a person types
CONTRACT = Contract(
    missing="Invalid request: missing {} parameter",
    wrong={
        "format": "{} format is not supported",
        "alternatives": "Invalid request: alternatives parameter is not a number",
    },
)


class TranslateForm(Struct):
    """What is read of a request to translate; as JSON, as a form, or in the address."""

    q: str | list[str]
    source: Annotated[str, Meta(description="a code, or auto")]
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    api_key: str = ""


class TranslateAnswer(Struct, omit_defaults=True):
    """One text for one, a list for a list; the language only for source auto, alternatives only if requested."""

    translatedText: str | list[str]  # noqa: N815  # its name in the contract
    detectedLanguage: Detected | list[Detected] | UnsetType = UNSET  # noqa: N815
    alternatives: list[str | list[str]] | UnsetType = UNSET


class DetectForm(Struct):
    """The text whose language is wanted."""

    q: str
    api_key: str = ""


class SuggestForm(Struct):
    """A text and a better translation of it."""

    q: str
    s: str
    source: str
    target: str
    api_key: str = ""


class FileForm(Struct):
    """A file in any format that is translated in its own form."""

    file: Upload
    source: str
    target: str
    api_key: str = ""


class Success(Struct):
    """What was sent is kept."""

    success: bool


class Language(Struct):
    """A language and what it is translated to."""

    code: str
    name: str
    targets: list[str]


async def translate(visit: Visit, asked: TranslateForm) -> TranslateAnswer:
    """One text, or in JSON a list of them."""
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    if asked.alternatives > (most := visit.serving.config.n_best_limit):
        raise bad_request(f"alternatives parameter must be <= {most}")
    order, number = Order(text="", source=asked.source, target=asked.target, format=asked.format), asked.alternatives
    orders = visit.orders(order, texts)
    more = [replace(one, n_best=number + 1) for one in orders] if number > 0 and asked.format == "text" else []
    found = await visit.translate(*orders, *more)
    answers = found[: len(texts)]
    visit.tell_check(answers)
    others = [_other_texts(*each)[:number] for each in zip(texts, answers, found[len(texts) :], strict=False)]

    def one_or_all(found: list[Any]) -> Any:
        return found if isinstance(asked.q, list) else found[0]

    return TranslateAnswer(
        one_or_all([one.text for one in answers]),
        one_or_all(visit.detected) if visit.detected else UNSET,
        one_or_all(others or [[] for _ in texts]) if number > 0 else UNSET,
    )


def _other_texts(source: str, answer: Answer, outputs: Answer) -> list[str]:
    """The other outputs of the model that have all codes of the source."""
    texts = dict.fromkeys(one["text"] for one in (outputs.output or {}).get("hypotheses", []))
    return [other for other in texts if other != answer.text and not lost_codes(source, other)]


async def detect(visit: Visit, asked: DetectForm) -> list[Detected]:
    """Which served language a text is in."""
    return visit.languages.detect(asked.q)


async def languages(visit: Visit, _: Nothing) -> list[Language]:
    """Each language and what it is translated to. What some clients send with the question is not read."""
    served = visit.languages
    return [Language(code, language_name(code), served.targets(code)) for code in served.codes]


async def settings(visit: Visit, _: Nothing) -> dict[str, Any]:
    """What a page for people has to know."""
    config, pair = visit.serving.config, visit.languages.models[0]
    return {
        "charLimit": config.char_limit or -1, "frontendTimeout": _FRONTEND_MS,
        "apiKeys": bool(config.keys), "keyRequired": config.require_key,
        "suggestions": bool(config.suggestions), "filesTranslation": config.files,
        "supportedFilesFormat": file_endings(),
        "language": {side: {"code": code, "name": language_name(code)}
                     for side, code in (("source", pair.source), ("target", pair.target))},
    }  # fmt: skip


async def translate_file(visit: Visit, asked: FileForm) -> dict[str, str]:
    """A file in its own form; the answer says where it can be fetched."""
    target = visit.languages.read(asked.target)
    out, _ = await visit.translate_file(asked.file, asked.source, target)
    name, number = Path(asked.file.name), new_id()
    visit.serving.files.kept.keep(number, (out, f"{name.stem}_{target}{name.suffix}"))
    return {"translatedFileUrl": str(visit.request.url_for("download_file", number=number))}


async def download_file(visit: Visit, _: Nothing) -> FileResponse:
    """A translated file."""
    if (kept := visit.serving.files.kept.find(visit.request.path_params["number"])) is None:
        raise Refusal(404, "there is no such file: a translated file is kept for 15 minutes. Send it again")
    return FileResponse(kept[0], media_type="application/octet-stream", filename=kept[1])


async def suggest(visit: Visit, asked: SuggestForm) -> Success:
    """Keep a better translation, as a pair that a training reads."""
    source, target = visit.languages.read(asked.source), visit.languages.read(asked.target)
    line = json.dumps({"translation": {source: asked.q, target: asked.s}}, ensure_ascii=False)
    path = Path(visit.serving.config.suggestions) / f"{source}-{target}.jsonl"
    await asyncio.to_thread(_append, path, line)
    return Success(True)


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/translate", translate, TranslateForm, TranslateAnswer, texts=("q",)),
    Endpoint(CONTRACT, "POST", "/detect", detect, DetectForm, list[Detected], texts=("q",)),
    Endpoint(CONTRACT, "GET", "/languages", languages, answers=list[Language], access="open"),
    Endpoint(CONTRACT, "GET", "/frontend/settings", settings, access="open"),
    Endpoint(
        CONTRACT, "POST", "/translate_file", translate_file, FileForm,
        closed=("files", "Files translation are disabled on this server."),
    ),
    Endpoint(CONTRACT, "GET", "/download_file/{number}", download_file, access="open"),
    Endpoint(
        CONTRACT, "POST", "/suggest", suggest, SuggestForm, Success, texts=("q", "s"),
        closed=("suggestions", "Suggestions are disabled on this server."),
    ),
)  # fmt: skip
