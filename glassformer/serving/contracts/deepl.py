"""The contract of DeepL, version 2: translate, languages, usage, glossaries and documents.

Glossaries and documents are kept in memory for their client until the server ends. What a model cannot do, such as
formality, is ignored or refused as DeepL does.
"""

import asyncio
import csv
import io
from datetime import UTC, datetime
from functools import partial
from hmac import compare_digest
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response

from glassformer.serving.endpoint import Contract, Endpoint, RequestContext
from glassformer.serving.http_errors import INTERNAL, HTTPError
from glassformer.serving.service import TranslationRequest, mark_untranslated
from glassformer.serving.store import Upload, delete, file_endings, new_id
from glassformer.settings import language_name

_MAX_TEXTS, _MAX_ENTRIES = 50, 10_000
_UNLIMITED = 1_000_000_000_000
CONTRACT = Contract(
    "DeepL",
    "auth_key",
    missing_message="Parameter '{}' not specified",
    invalid_messages={
        "text": "Parameter 'text' not specified",
        "type": "Value for 'type' not supported, expected source or target",
        "entries_format": "Value for 'entries_format' not supported, expected tsv or csv",
        "tag_handling": "Value for 'tag_handling' not supported, expected xml or html",
        "formality": "Value for 'formality' not supported, expected default, more, less, prefer_more or prefer_less",
    },
)
Entries = tuple[tuple[str, str], ...]


class TranslatedText(Struct, omit_defaults=True):
    """The translation of one text."""

    detected_source_language: str
    text: str
    billed_characters: int | UnsetType = UNSET


class GlossaryInfo(Struct):
    """A glossary without its entries."""

    glossary_id: str
    name: str
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int
    ready: bool = True


class Document(NamedTuple):
    """A document, its key and the task that translates it."""

    name: str
    size: int
    key: str
    task: "asyncio.Task[Path]"

    @property
    def path(self) -> Path | None:
        """The translated file, once there is one."""
        is_there = self.task.done() and not self.task.cancelled() and self.task.exception() is None
        return self.task.result() if is_there else None

    @property
    def state(self) -> dict[str, Any]:
        """Its status."""
        if self.path is not None:
            return {"status": "done", "billed_characters": self.size}
        if not self.task.done():
            return {"status": "translating", "seconds_remaining": 1}
        error = self.task.exception()
        return {"status": "error", "error_message": error.message if isinstance(error, HTTPError) else INTERNAL}

    def forget(self) -> None:
        """Cancel its translation and delete its file."""
        self.task.cancel()
        if self.path is not None:
            delete(self.path)


async def translate(
    context: RequestContext,
    *,
    text: str | list[str],
    target_lang: str,
    source_lang: str = "",
    split_sentences: Annotated[str | bool | int, Meta(description="0: every text is one sentence")] = "1",
    tag_handling: Literal["", "xml", "html"] = "",
    ignore_tags: str | list[str] = "",
    formality: Literal["", "default", "more", "less", "prefer_more", "prefer_less"] = "",
    glossary_id: str = "",
    show_billed_characters: bool = False,
) -> dict[str, list[TranslatedText]]:
    """Translate texts."""
    texts = [text] if isinstance(text, str) else text
    if len(texts) > _MAX_TEXTS:
        raise HTTPError(400, f"Too many texts: found {len(texts)}, expected at most {_MAX_TEXTS}")
    if formality in ("more", "less"):
        raise HTTPError(400, f"'formality' is not supported for given 'target_lang': {target_lang.upper()}")
    request = TranslationRequest(
        text="",
        source=source_lang,
        target=target_lang,
        format="html" if tag_handling == "html" else "text",
        glossary=list(map(list, _glossary(context, glossary_id)[1])) if glossary_id else [],
        split_sentences=str(split_sentences) not in ("0", "False", "false"),
    )
    tags = _names(ignore_tags) if tag_handling == "xml" else []
    requests = context.requests_for(request, [mark_untranslated(one, tags) if tags else one for one in texts])
    answers = [answer.text for answer in await context.translate(requests)]
    billed = [len(one) if show_billed_characters else UNSET for one in texts]
    sources = [one.source.upper() for one in requests]
    return {"translations": list(map(TranslatedText, sources, answers, billed))}


async def languages(context: RequestContext, *, type: Literal["source", "target"] = "source") -> list[dict[str, Any]]:
    """The source or target languages."""
    sides = {pair[type == "target"] for pair in context.languages.routes}
    more = {"supports_formality": False} if type == "target" else {}
    codes = [code for code in context.languages.codes if code in sides]
    return [{"language": code.upper(), "name": language_name(code)} | more for code in codes]


async def usage(context: RequestContext) -> dict[str, int]:
    """The characters of this client since the server started; there is no quota."""
    return {"character_count": context.serving.access.count(context.client).characters, "character_limit": _UNLIMITED}


async def glossary_pairs(context: RequestContext) -> dict[str, Any]:
    """The pairs of languages that a glossary may have."""
    pairs = [{"source_lang": one.source, "target_lang": one.target} for one in context.languages.models]
    return {"supported_languages": pairs}


async def make_glossary(
    context: RequestContext,
    *,
    name: str,
    source_lang: str,
    target_lang: str,
    entries: str,
    entries_format: Literal["tsv", "csv"] = "tsv",
) -> Response:
    """Keep a glossary; its entries are lines of TSV or CSV."""
    terms = _read_entries(entries, entries_format)
    source, target = map(context.languages.read, (source_lang, target_lang))
    if len(context.languages.route(source, target)) != 1:
        raise HTTPError(400, f"Unsupported glossary source and target language pair: {source} to {target}")
    made = GlossaryInfo(new_id(), name[:1000], source, target, datetime.now(UTC).isoformat(), len(terms))
    context.serving.glossaries.keep(made.glossary_id, (made, terms), context.client)
    return JSONResponse(to_builtins(made), 201)


async def list_glossaries(context: RequestContext) -> dict[str, list[GlossaryInfo]]:
    """The glossaries of this client."""
    return {"glossaries": [shown for shown, _ in context.serving.glossaries.of(context.client)]}


async def show_glossary(context: RequestContext) -> GlossaryInfo:
    """A glossary without its entries."""
    return _glossary(context, context.number)[0]


async def delete_glossary(context: RequestContext) -> Response:
    """Forget a glossary."""
    context.serving.glossaries.take(_glossary(context, context.number)[0].glossary_id)
    return Response(status_code=204)


async def show_entries(context: RequestContext) -> Response:
    """The entries of a glossary, as TSV."""
    text = "\n".join(map("\t".join, _glossary(context, context.number)[1]))
    return PlainTextResponse(text, media_type="text/tab-separated-values")


def _glossary(context: RequestContext, number: str) -> tuple[GlossaryInfo, Entries]:
    found: tuple[GlossaryInfo, Entries] | None = context.serving.glossaries.find(number, context.client)
    if found is None:
        raise HTTPError(404, "Glossary not found")
    return found


async def send_document(
    context: RequestContext, *, file: Upload, target_lang: str, source_lang: str = "", filename: str = ""
) -> dict[str, str]:
    """Start to translate a file."""
    target, name = context.languages.read(target_lang), Path(filename or file.name).name
    if Path(name).suffix.lower() not in file_endings():
        raise HTTPError(400, f"Unsupported file type, expected {', '.join(file_endings())}")
    work = context.translate_file(Upload(name, file.content), source_lang, target, outlives_request=True)
    task, number, key = asyncio.create_task(work), new_id(), token_hex(32)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # its status tells it
    context.serving.documents.keep(number, Document(name, len(file.content), key, task))
    return {"document_id": number, "document_key": key}


async def document_status(context: RequestContext, *, document_key: str) -> dict[str, Any]:
    """The status of a document."""
    return {"document_id": context.number, **_document(context, document_key).state}


async def document_result(context: RequestContext, *, document_key: str) -> FileResponse:
    """The translated file, once."""
    document = _document(context, document_key)
    if document.path is None:
        status = document.state["status"]
        raise HTTPError(503 if status == "translating" else 404, f"Document is {status}", retry_after=1)
    context.serving.documents.take(context.number)
    sent, kind = BackgroundTask(delete, document.path), "application/octet-stream"
    return FileResponse(document.path, media_type=kind, filename=document.name, background=sent)


def _document(context: RequestContext, key: str) -> Document:
    document: Document | None = context.serving.documents.find(context.number)
    if document is None or not compare_digest(document.key.encode(), key.encode("utf-8", "replace")):
        raise HTTPError(404, "Document not found")
    return document


def _names(given: str | list[str]) -> list[str]:
    """The names in a list; an item may hold several, separated by commas."""
    names = ",".join([given] if isinstance(given, str) else given).split(",")
    return [name.strip() for name in names if name.strip()]


def _read_entries(text: str, kind: str) -> Entries:
    rows = csv.reader(io.StringIO(text)) if kind == "csv" else (line.split("\t") for line in text.splitlines())
    try:
        pairs = [[cell.strip() for cell in row[:2]] for row in rows]
    except csv.Error as error:
        raise HTTPError(400, "Invalid glossary entries provided: the CSV is damaged") from error
    for number, pair in enumerate(pairs, 1):
        if any(pair) and not (len(pair) == 2 and all(pair)):
            raise HTTPError(400, f"Invalid glossary entries provided: line {number} is no pair of texts")
    entries = tuple((pair[0], pair[1]) for pair in pairs if any(pair))
    if not 0 < len(entries) <= _MAX_ENTRIES:
        raise HTTPError(400, f"Invalid glossary entries provided: found {len(entries)}, expected 1 to {_MAX_ENTRIES}")
    return entries


_FREE = partial(Endpoint, CONTRACT, access="free")
_NO_FILES = ("files", "Documents are not translated by this server")
_GLOSSARY, _DOCUMENT = "/v2/glossaries/{number}", "/v2/document/{number}"
ENDPOINTS = (
    Endpoint(CONTRACT, "POST", "/v2/translate", translate, texts=("text",)),
    _FREE("GET POST", "/v2/languages", languages),
    _FREE("GET POST", "/v2/usage", usage),
    _FREE("GET", "/v2/glossary-language-pairs", glossary_pairs),
    Endpoint(CONTRACT, "POST", "/v2/glossaries", make_glossary),
    _FREE("GET", "/v2/glossaries", list_glossaries),
    _FREE("GET", _GLOSSARY, show_glossary),
    _FREE("DELETE", _GLOSSARY, delete_glossary),
    _FREE("GET", f"{_GLOSSARY}/entries", show_entries),
    Endpoint(CONTRACT, "POST", "/v2/document", send_document, closed=_NO_FILES),
    _FREE("GET POST", _DOCUMENT, document_status),
    _FREE("GET POST", f"{_DOCUMENT}/result", document_result),
)
