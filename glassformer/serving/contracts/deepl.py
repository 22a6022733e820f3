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
from glassformer.serving.endpoint import Contract, Endpoint, Nothing, Visit
from glassformer.serving.refusal import INTERNAL, Refusal
from glassformer.serving.service import Order, mark_untranslated
from glassformer.serving.store import Store, Upload, delete, file_endings, new_id
from glassformer.settings import language_name

_MAX_TEXTS, _MAX_ENTRIES = 50, 10_000
_MAX_GLOSSARIES, _MAX_DOCUMENTS = 1000, 100
_UNLIMITED = 1_000_000_000_000
CONTRACT = Contract(
    "auth_key",
    missing="Parameter '{}' not specified",
    wrong={
        "text": "Parameter 'text' not specified",
        "type": "Value for 'type' not supported, expected source or target",
        "entries_format": "Value for 'entries_format' not supported, expected tsv or csv",
    },
)
Entries = tuple[tuple[str, str], ...]


class TranslateForm(Struct):
    """What is read of a request to translate; as JSON or as a form, in which text is repeated."""

    text: str | list[str]
    target_lang: str
    source_lang: str = ""
    split_sentences: Annotated[str | bool | int, Meta(description="0: every text is one sentence")] = "1"
    tag_handling: str = ""
    ignore_tags: str | list[str] = ""
    formality: str = ""
    glossary_id: str = ""
    show_billed_characters: bool = False


class Translation(Struct, omit_defaults=True):
    """The translation of one text."""

    detected_source_language: str
    text: str
    billed_characters: int | UnsetType = UNSET


class TranslateAnswer(Struct):
    """One translation for each text, in order."""

    translations: list[Translation]


class LanguagesForm(Struct):
    """Which side is meant: source or target."""

    type: Literal["source", "target"] = "source"


class GlossaryForm(Struct):
    """A glossary to keep; its entries are lines of TSV or CSV."""

    name: str
    source_lang: str
    target_lang: str
    entries: str
    entries_format: Literal["tsv", "csv"] = "tsv"


class Glossary(Struct):
    """What the answer says about a glossary."""

    glossary_id: str
    name: str
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int
    ready: bool = True


class DocumentForm(Struct):
    """A file to translate."""

    file: Upload
    target_lang: str
    source_lang: str = ""
    filename: str = ""


class KeyForm(Struct):
    """What a client was told when it sent its document."""

    document_key: str


class DocumentState(Struct, omit_defaults=True):
    """What the answer says about a document."""

    document_id: str
    status: str
    seconds_remaining: int | UnsetType = UNSET
    billed_characters: int | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


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

    def state(self, number: str) -> DocumentState:
        """How far it is."""
        if self.path is not None:
            return DocumentState(number, "done", billed_characters=self.size)
        if not self.task.done():
            return DocumentState(number, "translating", 1)
        error = self.task.exception()
        message = error.message if isinstance(error, Refusal) else INTERNAL
        return DocumentState(number, "error", error_message=message)

    def forget(self) -> None:
        """End what is done for it, and delete its file."""
        self.task.cancel()
        if self.path is not None:
            delete(self.path)


class DeepL:
    """What a server remembers for clients of this contract."""

    def __init__(self) -> None:
        self.glossaries = Store[tuple[Glossary, Entries]](_MAX_GLOSSARIES)
        self.documents = Store[Document](_MAX_DOCUMENTS, forget=Document.forget)

    async def translate(self, visit: Visit, asked: TranslateForm) -> TranslateAnswer:
        """Texts of one language, or each of its own."""
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        if len(texts) > _MAX_TEXTS:
            raise Refusal(400, f"Too many texts: found {len(texts)}, expected at most {_MAX_TEXTS}")
        if asked.formality in ("more", "less"):
            raise Refusal(400, f"'formality' is not supported for given 'target_lang': {asked.target_lang.upper()}")
        terms = self._glossary(visit, asked.glossary_id)[1] if asked.glossary_id else ()
        order = Order(
            text="", source=asked.source_lang, target=asked.target_lang,
            format="html" if asked.tag_handling == "html" else "text", glossary=list(map(list, terms)),
            split_sentences=str(asked.split_sentences) not in ("0", "False", "false"),
        )  # fmt: skip
        tags = _ignored_tags(asked)
        orders = visit.orders(order, [mark_untranslated(text, tags) if tags else text for text in texts])
        answers = [answer.text for answer in await visit.translate(*orders)]
        billed = [len(text) if asked.show_billed_characters else UNSET for text in texts]
        return TranslateAnswer(list(map(Translation, [one.source.upper() for one in orders], answers, billed)))

    async def languages(self, visit: Visit, asked: LanguagesForm) -> list[dict[str, Any]]:
        """The languages of one side."""
        is_target = asked.type == "target"
        sides = {pair[is_target] for pair in visit.languages.routes}
        more = {"supports_formality": False} if is_target else {}
        codes = [code for code in visit.languages.codes if code in sides]
        return [{"language": code.upper(), "name": language_name(code)} | more for code in codes]

    async def usage(self, visit: Visit, _: Nothing) -> dict[str, int]:
        """The characters of this client since the server started; there is no quota."""
        return {"character_count": visit.serving.access.characters_of(visit.client), "character_limit": _UNLIMITED}

    async def glossary_pairs(self, visit: Visit, _: Nothing) -> dict[str, Any]:
        """The languages that a glossary may have."""
        pairs = [{"source_lang": one.source, "target_lang": one.target} for one in visit.languages.models]
        return {"supported_languages": pairs}

    async def make_glossary(self, visit: Visit, asked: GlossaryForm) -> Response:
        """Keep a glossary."""
        entries = _read_entries(asked.entries, asked.entries_format)
        source, target = map(visit.languages.read, (asked.source_lang, asked.target_lang))
        if len(visit.languages.route(source, target)) != 1:
            raise Refusal(400, f"Unsupported glossary source and target language pair: {source} to {target}")
        created = datetime.now(UTC).isoformat()
        made = Glossary(new_id(), asked.name[:1000], source, target, created, len(entries))
        self.glossaries.keep(made.glossary_id, (made, entries), visit.client)
        return JSONResponse(to_builtins(made), 201)

    async def list_glossaries(self, visit: Visit, _: Nothing) -> dict[str, list[Glossary]]:
        """The glossaries of this client."""
        return {"glossaries": [shown for shown, _ in self.glossaries.of(visit.client)]}

    async def show_glossary(self, visit: Visit, _: Nothing) -> Glossary:
        """A glossary without its entries."""
        return self._glossary(visit)[0]

    async def delete_glossary(self, visit: Visit, _: Nothing) -> Response:
        """Forget a glossary."""
        self.glossaries.take(self._glossary(visit)[0].glossary_id)
        return Response(status_code=204)

    async def show_entries(self, visit: Visit, _: Nothing) -> Response:
        """The entries of a glossary, as TSV."""
        text = "\n".join(map("\t".join, self._glossary(visit)[1]))
        return PlainTextResponse(text, media_type="text/tab-separated-values")

    def _glossary(self, visit: Visit, number: str = "") -> tuple[Glossary, Entries]:
        found = self.glossaries.find(number or visit.request.path_params["number"], visit.client)
        if found is None:
            raise Refusal(404, "Glossary not found")
        return found

    async def send_document(self, visit: Visit, asked: DocumentForm) -> dict[str, str]:
        """Translate a file while the client asks for its state."""
        target, name = visit.languages.read(asked.target_lang), asked.filename or asked.file.name
        if Path(name).suffix.lower() not in file_endings():
            raise Refusal(400, f"Unsupported file type, expected {', '.join(file_endings())}")
        upload, number, key = Upload(name, asked.file.content), new_id(), token_hex(32)
        work = visit.translate_file(upload, asked.source_lang, target, outlives_request=True)
        task = asyncio.create_task(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # which only the state tells
        self.documents.keep(number, Document(Path(name).name, len(upload.content), key, task))
        return {"document_id": number, "document_key": key}

    async def document_status(self, visit: Visit, asked: KeyForm) -> DocumentState:
        """How far a document is."""
        number, document = self._document(visit, asked)
        return document.state(number)

    async def document_result(self, visit: Visit, asked: KeyForm) -> FileResponse:
        """The translated file, once."""
        number, document = self._document(visit, asked)
        if document.path is None:
            status = document.state(number).status
            raise Refusal(503 if status == "translating" else 404, f"Document is {status}", retry_after=1)
        self.documents.take(number)
        sent, kind = BackgroundTask(delete, document.path), "application/octet-stream"
        return FileResponse(document.path, media_type=kind, filename=document.name, background=sent)

    def _document(self, visit: Visit, asked: KeyForm) -> tuple[str, Document]:
        number, key = visit.request.path_params["number"], asked.document_key.encode("utf-8", "replace")
        document = self.documents.find(number)
        if document is None or not compare_digest(document.key.encode(), key):
            raise Refusal(404, "Document not found")
        return number, document

    def endpoints(self) -> tuple[Endpoint, ...]:
        """All of the contract."""
        glossary, document = "/v2/glossaries/{number}", "/v2/document/{number}"
        closed = ("files", "Documents are not translated by this server")
        free = partial(Endpoint, CONTRACT, access="free")
        return (
            Endpoint(CONTRACT, "POST", "/v2/translate", self.translate, TranslateForm, TranslateAnswer, ("text",)),
            free("GET POST", "/v2/languages", self.languages, LanguagesForm),
            free("GET POST", "/v2/usage", self.usage),
            free("GET", "/v2/glossary-language-pairs", self.glossary_pairs),
            Endpoint(CONTRACT, "POST", "/v2/glossaries", self.make_glossary, GlossaryForm),
            free("GET", "/v2/glossaries", self.list_glossaries),
            free("GET", glossary, self.show_glossary, answers=Glossary),
            free("DELETE", glossary, self.delete_glossary),
            free("GET", f"{glossary}/entries", self.show_entries),
            Endpoint(CONTRACT, "POST", "/v2/document", self.send_document, DocumentForm, closed=closed),
            free("GET POST", document, self.document_status, KeyForm, DocumentState),
            free("GET POST", f"{document}/result", self.document_result, KeyForm),
        )


def _ignored_tags(asked: TranslateForm) -> list[str]:
    """The names of elements that are not to be translated."""
    given = [asked.ignore_tags] if isinstance(asked.ignore_tags, str) else asked.ignore_tags
    names = [name.strip() for each in given for name in each.split(",")]
    return [name for name in names if name] if asked.tag_handling == "xml" else []


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
