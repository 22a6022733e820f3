"""The contract of DeepL, version 2: translate, languages, usage, glossaries and documents.

Glossaries and documents are held in memory, for the client that made them, until the server ends. What a model cannot
honour, such as formality, is ignored or refused as DeepL does.
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

from glassformer.documents.report import DocumentReport
from glassformer.serving.endpoint import Contract, Endpoint, Visit
from glassformer.serving.refusal import INTERNAL, Refusal
from glassformer.serving.service import Order, mark_untranslated
from glassformer.serving.store import Upload, delete, file_endings, new_id
from glassformer.settings import language_name

_MAX_TEXTS, _MAX_ENTRIES = 50, 10_000
_UNLIMITED = 1_000_000_000_000
CONTRACT = Contract(
    "DeepL",
    "auth_key",
    missing="Parameter '{}' not specified",
    wrong={
        "text": "Parameter 'text' not specified",
        "type": "Value for 'type' not supported, expected source or target",
        "entries_format": "Value for 'entries_format' not supported, expected tsv or csv",
        "tag_handling": "Value for 'tag_handling' not supported, expected xml or html",
        "formality": "Value for 'formality' not supported, expected default, more, less, prefer_more or prefer_less",
    },
)
Entries = tuple[tuple[str, str], ...]


class Translation(Struct, omit_defaults=True):
    """The translation of one text."""

    detected_source_language: str
    text: str
    billed_characters: int | UnsetType = UNSET


class Glossary(Struct):
    """What the answer says about a glossary."""

    glossary_id: str
    name: str
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int
    ready: bool = True


class Document(NamedTuple):
    """A document, the key that its client has to it, and the task that translates it."""

    name: str
    size: int
    key: str
    task: "asyncio.Task[tuple[Path, DocumentReport]]"

    @property
    def path(self) -> Path | None:
        """The translated file, once there is one."""
        is_there = self.task.done() and not self.task.cancelled() and self.task.exception() is None
        return self.task.result()[0] if is_there else None

    @property
    def state(self) -> dict[str, Any]:
        """How far it is."""
        if self.path is not None:
            return {"status": "done", "billed_characters": self.size}
        if not self.task.done():
            return {"status": "translating", "seconds_remaining": 1}
        error = self.task.exception()
        return {"status": "error", "error_message": error.message if isinstance(error, Refusal) else INTERNAL}

    def forget(self) -> None:
        """End what is done for it, and delete its file."""
        self.task.cancel()
        if self.path is not None:
            delete(self.path)


async def translate(
    visit: Visit,
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
) -> dict[str, list[Translation]]:
    """Texts of one language, or each of its own."""
    texts = [text] if isinstance(text, str) else text
    if len(texts) > _MAX_TEXTS:
        raise Refusal(400, f"Too many texts: found {len(texts)}, expected at most {_MAX_TEXTS}")
    if formality in ("more", "less"):
        raise Refusal(400, f"'formality' is not supported for given 'target_lang': {target_lang.upper()}")
    order = Order(
        text="",
        source=source_lang,
        target=target_lang,
        format="html" if tag_handling == "html" else "text",
        glossary=list(map(list, _glossary(visit, glossary_id)[1])) if glossary_id else [],
        split_sentences=str(split_sentences) not in ("0", "False", "false"),
    )
    tags = _names(ignore_tags) if tag_handling == "xml" else []
    orders = visit.orders(order, [mark_untranslated(one, tags) if tags else one for one in texts])
    answers = [answer.text for answer in await visit.translate(orders)]
    billed = [len(one) if show_billed_characters else UNSET for one in texts]
    sources = [one.source.upper() for one in orders]
    return {"translations": list(map(Translation, sources, answers, billed))}


async def languages(visit: Visit, *, type: Literal["source", "target"] = "source") -> list[dict[str, Any]]:
    """The languages of one side."""
    sides = {pair[type == "target"] for pair in visit.languages.routes}
    more = {"supports_formality": False} if type == "target" else {}
    codes = [code for code in visit.languages.codes if code in sides]
    return [{"language": code.upper(), "name": language_name(code)} | more for code in codes]


async def usage(visit: Visit) -> dict[str, int]:
    """The characters of this client since the server started; there is no quota."""
    return {"character_count": visit.serving.access.count(visit.client).characters, "character_limit": _UNLIMITED}


async def glossary_pairs(visit: Visit) -> dict[str, Any]:
    """The languages that a glossary may have."""
    pairs = [{"source_lang": one.source, "target_lang": one.target} for one in visit.languages.models]
    return {"supported_languages": pairs}


async def make_glossary(
    visit: Visit,
    *,
    name: str,
    source_lang: str,
    target_lang: str,
    entries: str,
    entries_format: Literal["tsv", "csv"] = "tsv",
) -> Response:
    """Keep a glossary; its entries are lines of TSV or CSV."""
    terms = _read_entries(entries, entries_format)
    source, target = map(visit.languages.read, (source_lang, target_lang))
    if len(visit.languages.route(source, target)) != 1:
        raise Refusal(400, f"Unsupported glossary source and target language pair: {source} to {target}")
    made = Glossary(new_id(), name[:1000], source, target, datetime.now(UTC).isoformat(), len(terms))
    visit.serving.glossaries.keep(made.glossary_id, (made, terms), visit.client)
    return JSONResponse(to_builtins(made), 201)


async def list_glossaries(visit: Visit) -> dict[str, list[Glossary]]:
    """The glossaries of this client."""
    return {"glossaries": [shown for shown, _ in visit.serving.glossaries.of(visit.client)]}


async def show_glossary(visit: Visit) -> Glossary:
    """A glossary without its entries."""
    return _glossary(visit, visit.number)[0]


async def delete_glossary(visit: Visit) -> Response:
    """Forget a glossary."""
    visit.serving.glossaries.take(_glossary(visit, visit.number)[0].glossary_id)
    return Response(status_code=204)


async def show_entries(visit: Visit) -> Response:
    """The entries of a glossary, as TSV."""
    text = "\n".join(map("\t".join, _glossary(visit, visit.number)[1]))
    return PlainTextResponse(text, media_type="text/tab-separated-values")


def _glossary(visit: Visit, number: str) -> tuple[Glossary, Entries]:
    found: tuple[Glossary, Entries] | None = visit.serving.glossaries.find(number, visit.client)
    if found is None:
        raise Refusal(404, "Glossary not found")
    return found


async def send_document(
    visit: Visit, *, file: Upload, target_lang: str, source_lang: str = "", filename: str = ""
) -> dict[str, str]:
    """Translate a file while the client asks for its state."""
    target, name = visit.languages.read(target_lang), Path(filename or file.name).name
    if Path(name).suffix.lower() not in file_endings():
        raise Refusal(400, f"Unsupported file type, expected {', '.join(file_endings())}")
    work = visit.translate_file(Upload(name, file.content), source_lang, target, outlives_request=True)
    task, number, key = asyncio.create_task(work), new_id(), token_hex(32)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # which only the state tells
    visit.serving.documents.keep(number, Document(name, len(file.content), key, task))
    return {"document_id": number, "document_key": key}


async def document_status(visit: Visit, *, document_key: str) -> dict[str, Any]:
    """How far a document is."""
    return {"document_id": visit.number, **_document(visit, document_key).state}


async def document_result(visit: Visit, *, document_key: str) -> FileResponse:
    """The translated file, once."""
    document = _document(visit, document_key)
    if document.path is None:
        status = document.state["status"]
        raise Refusal(503 if status == "translating" else 404, f"Document is {status}", retry_after=1)
    visit.serving.documents.take(visit.number)
    sent, kind = BackgroundTask(delete, document.path), "application/octet-stream"
    return FileResponse(document.path, media_type=kind, filename=document.name, background=sent)


def _document(visit: Visit, key: str) -> Document:
    document: Document | None = visit.serving.documents.find(visit.number)
    if document is None or not compare_digest(document.key.encode(), key.encode("utf-8", "replace")):
        raise Refusal(404, "Document not found")
    return document


def _names(given: str | list[str]) -> list[str]:
    """Those in a list, each of which may be several with commas between them."""
    names = ",".join([given] if isinstance(given, str) else given).split(",")
    return [name.strip() for name in names if name.strip()]


def _read_entries(text: str, kind: str) -> Entries:
    rows = csv.reader(io.StringIO(text)) if kind == "csv" else (line.split("\t") for line in text.splitlines())
    try:
        pairs = [[cell.strip() for cell in row[:2]] for row in rows]
    except csv.Error as error:
        raise Refusal(400, "Invalid glossary entries provided: the CSV is damaged") from error
    for number, pair in enumerate(pairs, 1):
        if any(pair) and not (len(pair) == 2 and all(pair)):
            raise Refusal(400, f"Invalid glossary entries provided: line {number} is no pair of texts")
    entries = tuple((pair[0], pair[1]) for pair in pairs if any(pair))
    if not 0 < len(entries) <= _MAX_ENTRIES:
        raise Refusal(400, f"Invalid glossary entries provided: found {len(entries)}, expected 1 to {_MAX_ENTRIES}")
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
