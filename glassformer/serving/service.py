"""From a request to its answers: the texts of all contracts go one way, as documents do, so that no code is lost.

A text's sentences wait in the queue with those of other clients. Where no model leads from one language to another,
two do, by way of a third language.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from glassformer.decoding.codes.restore import ModelScore, Result
from glassformer.decoding.request import Request
from glassformer.documents import FileTranslator, Memory
from glassformer.documents.filling import Filling
from glassformer.documents.report import DocumentReport
from glassformer.documents.segment_texts import SegmentTexts
from glassformer.documents.translate_file import count_segments, find_segments
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.languages import ServedModel
from glassformer.serving.scheduling.batch_queue import BatchKey, Job, count_tokens
from glassformer.serving.scheduling.model_workers import ModelWorkers
from glassformer.serving.scheduling.worker import ModelOutput
from glassformer.text.codes.checks import code_changes
from glassformer.text.codes.placeholders import find_codes
from glassformer.text.codes.typed import Parts
from glassformer.text.corpus.corpus import Pair
from glassformer.text.formats import FormatOptions
from glassformer.text.formats.segment import Code, FileSegment, join_parts, mark_codes
from glassformer.text.lines import is_blank
from glassformer.text.sentence_splitter import split_lines, split_sentences

_SLICE = 256  # sentences of one request that wait at a time
_INLINE = 2000  # characters; the sentences of longer texts are found in a thread
_HTML = (Path("text.html"), FormatOptions())  # what is given with format=html
Text = str | Parts  # a text, or one whose codes a client has marked


class TranslationRequest(Struct, kw_only=True):
    """What to translate and how. With n_best, prefix, must, ban or alignment it gives the model's own outputs."""

    text: Any  # a ``Text``, in one of the served languages, as are ``source`` and ``target``
    target: str
    source: str
    format: Literal["text", "html"] = "text"
    split_sentences: bool = True
    beam: Annotated[int, Meta(ge=1, le=64)] | None = None
    n_best: Annotated[int, Meta(ge=1, description="outputs of the model for each text, best first")] = 1
    prefix: Annotated[str, Meta(description="what the translation begins with")] = ""
    must: Annotated[list[str], Meta(description="phrases that must occur")] = []
    ban: Annotated[list[str], Meta(description="phrases that must not occur")] = []
    alignment: Annotated[bool, Meta(description="whether to say which token was written from which")] = False
    glossary: Annotated[list[list[str]], Meta(description="each a term, its translation, other forms of that")] = []
    memory: Annotated[list[tuple[str, str]], Meta(description="texts and what they were translated to")] = []

    @property
    def needs_model_output(self) -> bool:
        """Whether the answer needs what only the model's own output has."""
        return bool(self.n_best > 1 or self.prefix or self.must or self.ban or self.alignment)

    def batch_key(self, model: ServedModel, kind: Literal["document", "plain", "stream"], **changes: Any) -> BatchKey:
        """What sentences in the same batch share."""
        changes |= {} if self.beam is None else {"beam": self.beam}
        terms = tuple((src, tuple(forms)) for src, *forms in self.glossary) if kind == "document" else ()
        return BatchKey(model.name, kind, tuple(sorted(changes.items())), terms, kind == "plain" and self.alignment)


@dataclass(frozen=True)
class Answer:
    """A translation; ``check`` says which codes of its source it does not have as often as that."""

    text: str
    parts: Parts = ()
    check: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    scores: tuple[ModelScore, ...] = ()
    output: dict[str, Any] | None = None  # the model's, as ``Translation.to_mapping`` has it

    @property
    def engine(self) -> str:
        """What translated; empty where nothing had to be translated."""
        return " and ".join(sorted({score.engine for score in self.scores} - {""}))


@asynccontextmanager
async def open_task(
    workers: ModelWorkers, seconds: float, is_gone: Callable[[], Awaitable[Any]] | None = None
) -> AsyncIterator["Task"]:
    """What handles one client's request within some seconds; if ``is_gone`` ends, the client has left."""
    job, watch = workers.queue.open(seconds), None
    try:
        async with asyncio.timeout(seconds) as limit:
            watch = asyncio.create_task(_end_when(is_gone, limit, job)) if is_gone is not None else None
            yield Task(workers, job)
    except TimeoutError:
        if job.is_gone:
            raise HTTPError(499, "the client has left") from None
        message = f"the translation takes longer than the {seconds:g} seconds that a request may take"
        raise HTTPError(503, message, retry_after=seconds) from None
    finally:
        workers.queue.close_job(job)
        if watch is not None:
            watch.cancel()


async def _end_when(is_gone: Callable[[], Awaitable[Any]], limit: asyncio.Timeout, job: Job) -> None:
    await is_gone()
    job.is_gone = True
    with suppress(RuntimeError):  # it has just ended by itself
        limit.reschedule(0.0)


class Task:
    """One request in progress; it stays with the models that it began with."""

    def __init__(self, workers: ModelWorkers, job: Job) -> None:
        self._workers, self._job = workers, job

    async def translate(self, request: TranslationRequest) -> Answer:
        """The answer to a request; ``HTTPError`` for what the models cannot do."""
        text, route = request.text, self._route(request)
        answer = Answer(join_parts(_parts(text)), _parts(text))
        for model in route:
            is_plain = request.needs_model_output and model is route[-1]
            following = await (self._translate_plain if is_plain else self._translate_document)(model, text, request)
            flags, scores = answer.flags + following.flags, answer.scores + following.scores
            answer = replace(following, flags=flags, scores=scores)
            text = answer.text if isinstance(request.text, str) else answer.parts or answer.text
        return replace(answer, check=check_codes(request.text, text)) if route else answer

    def _route(self, request: TranslationRequest) -> tuple[ServedModel, ...]:
        route = self._workers.languages.route(request.source, request.target)
        if (request.glossary or request.memory) and len(route) > 1:
            raise bad_request(
                f"a glossary or a memory from {request.source} to {request.target}, by way of {route[0].target}, "
                "expected languages that one model translates"
            )
        return route

    async def _translate_document(self, model: ServedModel, text: Text, request: TranslationRequest) -> Answer:
        is_long = len(join_parts(_parts(text))) > _INLINE
        make = partial(_Plan, text, request, model.source)
        plan = await asyncio.to_thread(make) if is_long else make()
        results = await self.ask(request.batch_key(model, "document"), _with_sizes(plan.texts))
        return await asyncio.to_thread(plan.fill, results) if is_long else plan.fill(results)

    async def _translate_plain(self, model: ServedModel, text: Text, request: TranslationRequest) -> Answer:
        splits = request.split_sentences and not (request.prefix.strip() or request.must)
        more = {"n_best": request.n_best} if request.n_best > 1 else {}
        batch_key = request.batch_key(model, "plain", split_sentences=splits, **more)
        (output,) = await self.ask(batch_key, [_model_request(text, request)])
        return _plain_answer(output)

    async def ask(self, batch_key: BatchKey, texts: Sequence[tuple[Any, int]]) -> list[Any]:
        """The result of each text, given with its tokens; a long document waits slice by slice."""
        results = list[Any]()
        for start in range(0, len(texts), _SLICE):
            futures = self._workers.queue.put(batch_key, texts[start : start + _SLICE], self._job)
            results += await asyncio.gather(*futures)
        return results

    async def stream(self, request: TranslationRequest) -> AsyncIterator[str | Answer]:
        """The translation in pieces and at last the answer; whole where codes have to be put in."""
        route, parts = self._route(request), find_codes(_parts(request.text))
        has_codes = not all(isinstance(part, str) for part in parts)
        if has_codes or len(route) != 1 or request.glossary or request.memory or request.format == "html":
            answer = await self.translate(request)
            yield answer.text
            yield answer
            return
        batch_key, pieces = request.batch_key(route[0], "stream"), self._job.pieces
        (future,) = self._workers.queue.put(batch_key, [_model_request(request.text, request)], self._job)
        future.add_done_callback(lambda _: pieces.put_nowait(None))
        while (piece := await pieces.get()) is not None:
            yield piece
        answer = _plain_answer(await future)
        yield replace(answer, check=check_codes(request.text, answer.text))

    async def translate_file(self, path: Path, out: Path, source: str, target: str) -> DocumentReport:
        """Translate a file in its own form; raises ``TextError`` for one that is damaged or of another kind."""
        route, report = self._workers.languages.route(source, target), DocumentReport()
        for number, model in enumerate(route):
            last = out if number == len(route) - 1 else path.with_stem(f"{path.stem}.{model.target}")
            report = await asyncio.to_thread(_QueuedFiles(model, self.ask).translate, path, last)
            path = last
        return report


class _Plan:
    """The segments of a text, their sentences in ``texts``, and how the translations are put in."""

    def __init__(self, text: Text, request: TranslationRequest, source: str) -> None:
        self._text = text
        self._html = text if request.format == "html" and isinstance(text, str) else ""
        found = find_segments(*_HTML)(self._html) if self._html else [FileSegment(_parts(text), 0, lambda _: [])]
        self._segments = [segment for segment in found if not is_blank(segment.text)]
        memory = Memory(Pair(*pair) for pair in request.memory) if request.memory else None
        split = partial(split_sentences, language=source) if request.split_sentences else split_lines
        self._plan = SegmentTexts(self._segments, memory, split)
        self.texts = self._plan.texts

    def fill(self, translations: Sequence[Result]) -> Answer:
        """The answer, from the translation of each of ``texts``."""
        report = DocumentReport()
        results = self._plan.join(dict(zip(self.texts, translations, strict=True)), report)
        parts = results[0].parts if results else _parts(self._text)
        if self._html:
            count = count_segments(*_HTML)
            parts = Filling(self._html, count, self._segments, results, is_bilingual=False).fill()[:1]
        flags, notes = (tuple(one.remark for one in remarks) for remarks in (report.checks, report.notes))
        scores = tuple(score for each in results for score in each.scores)
        return Answer(join_parts(parts), parts, (), flags, notes, scores)


class _QueuedFiles(FileTranslator):
    """Translates files by way of the queue; used in a thread."""

    def __init__(self, model: ServedModel, ask: Callable[..., Any]) -> None:
        super().__init__(model)  # type: ignore[arg-type]  # whose languages are read; the workers have the translators
        self._batch_key, self._ask, self._loop = BatchKey(model.name, "document"), ask, asyncio.get_running_loop()
        self._split = partial(split_sentences, language=model.source)

    def translate_texts(self, waiting: Collection[Parts]) -> dict[Parts, Result]:
        """Wait for the workers."""
        asked = self._ask(self._batch_key, _with_sizes(waiting))
        results = asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        return dict(zip(waiting, results, strict=True))


def check_codes(source: Text, translation: Text) -> tuple[str, ...]:
    """In words, the codes of a source that its translation lacks, and those that it has too often."""
    return tuple(code_changes(find_codes(_parts(source)), find_codes(_parts(translation))))


def mark_untranslated(text: str, tags: Sequence[str]) -> Parts:
    """A text in which the elements with these tags, and what they enclose, are codes."""
    names = "|".join(map(re.escape, tags))
    pattern = re.compile(rf"<({names})\b[^<>]*/>|<({names})\b[^<>]*>.*?</\2\s*>", re.DOTALL)
    return mark_codes((text,), pattern, lambda match: Code(match[0], is_text=True))


def _parts(text: Text) -> Parts:
    return (text,) if isinstance(text, str) else text


def _with_sizes(texts: Collection[Parts]) -> list[tuple[Parts, int]]:
    return [(parts, count_tokens(join_parts(parts))) for parts in texts]


def _model_request(text: Text, request: TranslationRequest) -> tuple[Request, int]:
    source = join_parts(_parts(text))
    asked = Request(source, request.prefix, tuple(request.must), tuple(request.ban))
    return asked, count_tokens(source)


def _plain_answer(output: ModelOutput) -> Answer:
    text = output.values["hypotheses"][0]["text"]
    return Answer(text, output=output.values, flags=output.warnings, scores=(output.score,))
