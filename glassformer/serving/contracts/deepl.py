"""The contract of DeepL, version 2: translate, languages, usage, glossaries and documents.

Glossaries and documents are held in memory, for the client that made them, until the server ends. What a model cannot
honour, such as formality, is ignored or refused as DeepL does.
"""

import asyncio
import csv
import io
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hmac import compare_digest
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from glassformer.serving.files import file_endings
from glassformer.serving.http.parameters import Upload, Values, bearer, first, json_response, read_values
from glassformer.serving.http.visit import Visit
from glassformer.serving.languages import language_name
from glassformer.serving.refusal import INTERNAL, Refusal
from glassformer.serving.service import Answer, Order, Text, mark_untranslated

_MAX_TEXTS = 50
_MAX_GLOSSARIES, _MAX_ENTRIES, _MAX_DOCUMENTS = 1000, 10_000, 100
_NO_FORMALITY = {"more", "less"}
_UNLIMITED = 1_000_000_000_000


class TranslateForm(Struct):
    """What is read of a request to translate; as JSON or as a form, in which text is repeated."""

    text: Annotated[list[str], Meta(min_length=1, max_length=50)]
    target_lang: str
    source_lang: str = ""
    split_sentences: str = "1"
    tag_handling: Literal["", "xml", "html"] = ""
    ignore_tags: list[str] = []
    formality: str = ""
    glossary_id: str = ""


class Translation(Struct, omit_defaults=True):
    """The translation of one text."""

    detected_source_language: str
    text: str
    billed_characters: int | UnsetType = UNSET


class TranslateAnswer(Struct):
    """One translation for each text, in order."""

    translations: list[Translation]


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary of a client."""

    number: str
    name: str
    source: str
    target: str
    entries: tuple[tuple[str, str], ...]
    client: str
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat())

    def to_mapping(self) -> dict[str, Any]:
        """As DeepL tells of one."""
        return {
            "glossary_id": self.number, "name": self.name, "ready": True, "source_lang": self.source,
            "target_lang": self.target, "creation_time": self.created, "entry_count": len(self.entries),
        }  # fmt: skip


@dataclass
class Document:
    """A document that is translated, and the key that its client has to it."""

    key: str
    client: str
    characters: int
    status: str = "translating"
    path: Path | None = None
    name: str = ""
    message: str = ""
    began: float = field(default_factory=time.monotonic)
    task: "asyncio.Task[None] | None" = None

    def to_mapping(self, number: str) -> dict[str, Any]:
        """As DeepL tells of one."""
        found: dict[str, Any] = {"document_id": number, "status": self.status}
        if self.status == "translating":
            found["seconds_remaining"] = 1
        if self.status == "done":
            found["billed_characters"] = self.characters
        if self.message:
            found["error_message"] = self.message
        return found


class DeepL:
    """What a server remembers for clients of this contract."""

    def __init__(self) -> None:
        self.glossaries, self.documents = OrderedDict[str, StoredGlossary](), OrderedDict[str, Document]()
        self.characters: OrderedDict[str, int] = OrderedDict()

    async def translate(self, request: Request) -> Response:
        """POST /v2/translate."""
        values = await read_values(request)
        texts = _texts(values.get("text"))
        visit = Visit(request, _key(request, values), texts)
        if len(texts) > _MAX_TEXTS:
            raise Refusal(400, f"Too many texts: found {len(texts)}, expected at most {_MAX_TEXTS}")
        target = visit.languages.read(_require(values, "target_lang"))
        if str(first(values, "formality") or "") in _NO_FORMALITY:
            raise Refusal(400, f"'formality' is not supported for given 'target_lang': {target.upper()}")
        given = str(first(values, "source_lang") or "")
        sources = (
            [visit.languages.read(given)] * len(texts) if given
            else [visit.languages.detect(text)[0].language for text in texts]
        )  # fmt: skip
        order = self._order(values, visit, target)
        orders = [
            replace(order, texts=(_mark(text, values),), source=source)
            for text, source in zip(texts, sources, strict=True)
        ]
        answers = [answer for (answer,) in await visit.translate(*orders)]
        self._bill(visit, texts)
        found = [_translation(*each, values) for each in zip(texts, sources, answers, strict=True)]
        return json_response(TranslateAnswer(found), visit.headers)

    def _order(self, values: Values, visit: Visit, target: str) -> Order:
        glossary = str(first(values, "glossary_id") or "")
        terms = self._glossary(glossary, visit).entries if glossary else ()
        split = str(first(values, "split_sentences") or "1") not in ("0", "False", "false")
        form = "html" if first(values, "tag_handling") == "html" else "text"
        return Order((), "", target, form, split=split, terms=tuple((src, (tgt,)) for src, tgt in terms))  # type: ignore[arg-type]  # one of both

    def _bill(self, visit: Visit, texts: list[str]) -> None:
        name = visit.client.name
        self.characters[name] = self.characters.get(name, 0) + sum(map(len, texts))
        self.characters.move_to_end(name)
        if len(self.characters) > _MAX_ENTRIES:
            self.characters.popitem(last=False)

    async def languages(self, request: Request) -> Response:
        """GET or POST /v2/languages: those of one side."""
        values = await read_values(request)
        visit = Visit(request, _key(request, values), cost=0)
        kind = str(first(values, "type") or request.query_params.get("type", "source"))
        if kind not in ("source", "target"):
            raise Refusal(400, "Value for 'type' not supported, expected source or target")
        served = visit.languages
        targets = [
            code for code in served.codes if any(code in served.targets(one) for one in served.sources if one != code)
        ]
        found = [
            {"language": code.upper(), "name": language_name(code)}
            | ({"supports_formality": False} if kind == "target" else {})
            for code in (served.sources if kind == "source" else targets)
        ]
        return JSONResponse(found, headers=visit.headers)

    async def usage(self, request: Request) -> Response:
        """GET /v2/usage: the characters of this client since the server started; there is no quota."""
        visit = Visit(request, bearer(request), cost=0)
        count = self.characters.get(visit.client.name, 0)
        return JSONResponse({"character_count": count, "character_limit": _UNLIMITED}, headers=visit.headers)

    async def glossary_pairs(self, request: Request) -> Response:
        """GET /v2/glossary-language-pairs."""
        visit = Visit(request, bearer(request), cost=0)
        pairs = [{"source_lang": one.source, "target_lang": one.target} for one in visit.languages.models]
        return JSONResponse({"supported_languages": pairs}, headers=visit.headers)

    async def make_glossary(self, request: Request) -> Response:
        """POST /v2/glossaries."""
        values = await read_values(request)
        visit = Visit(request, _key(request, values), cost=1)
        kind = str(first(values, "entries_format") or "tsv")
        if kind not in ("tsv", "csv"):
            raise Refusal(400, "Value for 'entries_format' not supported, expected tsv or csv")
        entries = _read_entries(_require(values, "entries"), kind)
        source, target = (visit.languages.read(_require(values, f"{side}_lang")) for side in ("source", "target"))
        if len(visit.languages.route(source, target)) != 1:
            raise Refusal(400, f"Unsupported glossary source and target language pair: {source} to {target}")
        made = StoredGlossary(
            token_hex(16), _require(values, "name")[:1000], source, target, entries, visit.client.name
        )
        self.glossaries[made.number] = made
        if len(self.glossaries) > _MAX_GLOSSARIES:
            self.glossaries.popitem(last=False)
        return JSONResponse(made.to_mapping(), 201, headers=visit.headers)

    async def list_glossaries(self, request: Request) -> Response:
        """GET /v2/glossaries: those of this client."""
        visit = Visit(request, bearer(request), cost=0)
        own = [one.to_mapping() for one in self.glossaries.values() if one.client == visit.client.name]
        return JSONResponse({"glossaries": own}, headers=visit.headers)

    async def show_glossary(self, request: Request) -> Response:
        """GET and DELETE /v2/glossaries/ID."""
        visit = Visit(request, bearer(request), cost=0)
        found = self._glossary(request.path_params["number"], visit)
        if request.method == "DELETE":
            del self.glossaries[found.number]
            return Response(status_code=204, headers=visit.headers)
        return JSONResponse(found.to_mapping(), headers=visit.headers)

    async def show_entries(self, request: Request) -> Response:
        """GET /v2/glossaries/ID/entries, as TSV."""
        visit = Visit(request, bearer(request), cost=0)
        entries = self._glossary(request.path_params["number"], visit).entries
        text = "\n".join("\t".join(entry) for entry in entries)
        return PlainTextResponse(text, media_type="text/tab-separated-values", headers=visit.headers)

    def _glossary(self, number: str, visit: Visit) -> StoredGlossary:
        found = self.glossaries.get(number)
        if found is None or found.client != visit.client.name:
            raise Refusal(404, "Glossary not found")
        return found

    async def send_document(self, request: Request) -> Response:
        """POST /v2/document: translate a file while the client asks for its state."""
        values = await read_values(request)
        visit = Visit(request, _key(request, values))
        upload = first(values, "file")
        if not visit.serving.config.files:
            raise Refusal(403, "Documents are not translated by this server")
        if not isinstance(upload, Upload):
            raise Refusal(400, "Parameter 'file' not specified")
        target = visit.languages.read(_require(values, "target_lang"))
        name = str(first(values, "filename") or upload.name)
        if Path(name).suffix.lower() not in file_endings():
            raise Refusal(400, f"Unsupported file type, expected {', '.join(file_endings())}")
        given = str(first(values, "source_lang") or "")
        if not given:
            start = upload.content[:5000].decode("utf-8", "replace")
            given = visit.languages.detect(start)[0].language
        visit.outlives_request = True
        document = Document(token_hex(32), visit.client.name, len(upload.content), name=name)
        number = token_hex(16)
        document.task = asyncio.create_task(
            _translate_document(visit, document, Upload(name, upload.content), visit.languages.read(given), target)
        )
        self.documents[number] = document
        if len(self.documents) > _MAX_DOCUMENTS:
            self.documents.popitem(last=False)
        return JSONResponse({"document_id": number, "document_key": document.key}, headers=visit.headers)

    async def document_status(self, request: Request) -> Response:
        """POST /v2/document/ID."""
        number, document = await self._document(request)
        return JSONResponse(document.to_mapping(number))

    async def document_result(self, request: Request) -> Response:
        """POST /v2/document/ID/result: the file, once."""
        number, document = await self._document(request)
        if document.path is None:
            raise Refusal(
                503 if document.status == "translating" else 404, f"Document is {document.status}", retry_after=1
            )
        del self.documents[number]
        return FileResponse(document.path, media_type="application/octet-stream", filename=Path(document.name).name)

    async def _document(self, request: Request) -> tuple[str, Document]:
        values = await read_values(request)
        number = request.path_params["number"]
        document, key = self.documents.get(number), str(first(values, "document_key") or "")
        Visit(request, _key(request, values), cost=0)
        if document is None or not compare_digest(document.key.encode(), key.encode("utf-8", "replace")):
            raise Refusal(404, "Document not found")
        return number, document

    def routes(self) -> list[Route]:
        """All routes of the contract."""
        return [
            Route("/v2/translate", self.translate, methods=["POST"]),
            Route("/v2/languages", self.languages, methods=["GET", "POST"]),
            Route("/v2/usage", self.usage, methods=["GET", "POST"]),
            Route("/v2/glossary-language-pairs", self.glossary_pairs, methods=["GET"]),
            Route("/v2/glossaries", self.make_glossary, methods=["POST"]),
            Route("/v2/glossaries", self.list_glossaries, methods=["GET"]),
            Route("/v2/glossaries/{number}", self.show_glossary, methods=["GET", "DELETE"]),
            Route("/v2/glossaries/{number}/entries", self.show_entries, methods=["GET"]),
            Route("/v2/document", self.send_document, methods=["POST"]),
            Route("/v2/document/{number}", self.document_status, methods=["GET", "POST"]),
            Route("/v2/document/{number}/result", self.document_result, methods=["GET", "POST"]),
        ]


async def _translate_document(visit: Visit, document: Document, upload: Upload, source: str, target: str) -> None:
    try:
        document.path, _ = await visit.translate_file(upload, source, target)
        document.status = "done"
    except Exception as error:  # nobody waits for it
        document.status = "error"
        document.message = error.message if isinstance(error, Refusal) else INTERNAL


def _key(request: Request, values: Values) -> str:
    return bearer(request) or str(first(values, "auth_key") or "")


def _require(values: Values, name: str) -> str:
    value = first(values, name)
    if not isinstance(value, str) or not value:
        raise Refusal(400, f"Parameter '{name}' not specified")
    return value


def _texts(given: Any) -> list[str]:
    texts = given if isinstance(given, list) else [given]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise Refusal(400, "Parameter 'text' not specified")
    return texts


def _mark(text: str, values: Values) -> Text:
    """A text in which what ``ignore_tags`` names is a code."""
    given = values.get("ignore_tags") or []
    names = [
        name.strip() for each in (given if isinstance(given, list) else [given]) for name in str(each).split(",")
    ]
    names = [name for name in names if name]
    return mark_untranslated(text, names) if names and first(values, "tag_handling") == "xml" else text


def _translation(text: str, source: str, answer: Answer, values: Values) -> Translation:
    is_billed = str(first(values, "show_billed_characters") or "").lower() in ("true", "1")
    return Translation(source.upper(), answer.text, len(text) if is_billed else UNSET)


def _read_entries(text: str, kind: str) -> tuple[tuple[str, str], ...]:
    rows = csv.reader(io.StringIO(text)) if kind == "csv" else (line.split("\t") for line in text.splitlines())
    entries = []
    try:
        for number, row in enumerate(rows, 1):
            if not row or not any(cell.strip() for cell in row):
                continue
            if len(row) < 2 or not row[0].strip() or not row[1].strip():
                raise Refusal(400, f"Invalid glossary entries provided: line {number} is no pair of texts")
            entries.append((row[0].strip(), row[1].strip()))
    except csv.Error as error:
        raise Refusal(400, "Invalid glossary entries provided: the CSV is damaged") from error
    if not 0 < len(entries) <= _MAX_ENTRIES:
        raise Refusal(400, f"Invalid glossary entries provided: found {len(entries)}, expected 1 to {_MAX_ENTRIES}")
    return tuple(entries)
