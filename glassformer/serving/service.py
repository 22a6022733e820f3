"""From a request to its answers: the texts of all contracts go one way, as documents do, so that no code is lost.

A text's sentences wait in the queue with those of other clients. Where no model leads from one language to another,
two do, by way of a third language.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct

from glassformer.decoding.request import Request
from glassformer.decoding.sentences import RequestPassage
from glassformer.decoding.translation import EMPTY, Translation
from glassformer.documents import FileTranslator, Memory
from glassformer.documents.checklist import DocumentReport
from glassformer.documents.filling import Filling
from glassformer.documents.translate_file import count_segments, file_steps, find_segments
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.languages import ServedModel
from glassformer.serving.scheduling.batch_queue import BatchKey, Job, count_tokens
from glassformer.serving.scheduling.model_workers import ModelWorkers
from glassformer.text.codes.checks import code_changes
from glassformer.text.codes.code import Code, Parts, join_parts, mark_codes
from glassformer.text.codes.find import find_codes
from glassformer.text.corpus.corpus import Pair
from glassformer.text.formats import FormatOptions
from glassformer.text.formats.segment import FileSegment
from glassformer.text.steps.passage import Passage
from glassformer.text.steps.sentences import read_sentences
from glassformer.text.steps.step import Change, Step, TextOptions

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

    def batch_key(self, model: ServedModel, kind: Literal["translate", "stream"], **changes: Any) -> BatchKey:
        """What sentences in the same batch share."""
        changes |= {} if self.beam is None else {"beam": self.beam}
        terms = tuple((src, tuple(forms)) for src, *forms in self.glossary)
        return BatchKey(model.name, kind, tuple(sorted(changes.items())), terms, self.alignment)

    def steps(self) -> tuple[Step, ...]:
        """The steps that its text passes before its sentences wait in the queue."""
        memory = Memory(Pair(*pair) for pair in self.memory) if self.memory else None
        return ((read_html,) if self.format == "html" else ()) + _to_sentences(memory)


@asynccontextmanager
async def open_task(
    workers: ModelWorkers, seconds: float, is_gone: Callable[[], Awaitable[Any]] | None = None
) -> AsyncIterator["TranslationTask"]:
    """What handles one client's request within some seconds; if ``is_gone`` ends, the client has left."""
    job, watch = workers.queue.open(seconds), None
    try:
        async with asyncio.timeout(seconds) as limit:
            watch = asyncio.create_task(_end_when(is_gone, limit, job)) if is_gone is not None else None
            yield TranslationTask(workers, job)
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


class TranslationTask:
    """One request in progress; it stays with the models that it began with."""

    def __init__(self, workers: ModelWorkers, job: Job) -> None:
        self._workers, self._job = workers, job

    async def translate(self, request: TranslationRequest) -> Translation:
        """The translation that a request asks for; ``HTTPError`` for what the models cannot do."""
        parts = _parts(request.text)
        best = replace(EMPTY, text=join_parts(parts), parts=parts)
        found = Translation(best.text, [], False, [best])
        for model in self._route(request):
            following = await self._translate_by(model, _parts(request.text), request)
            found = _follow(found, following) if found.engine else following
            text = found.text if isinstance(request.text, str) else found.parts
            request = msgspec.structs.replace(request, text=text)
        return found

    def _route(self, request: TranslationRequest) -> tuple[ServedModel, ...]:
        route = self._workers.languages.route(request.source, request.target)
        if (request.glossary or request.memory) and len(route) > 1:
            raise bad_request(
                f"a glossary or a memory from {request.source} to {request.target}, by way of {route[0].target}, "
                "expected languages that one model translates"
            )
        return route

    async def _translate_by(self, model: ServedModel, parts: Parts, request: TranslationRequest) -> Translation:
        """The translation by one model; its own outputs are of the whole text."""
        if request.needs_model_output and model.target == request.target:
            splits = request.split_sentences and not (request.prefix.strip() or request.must)
            more = {"n_best": request.n_best} if request.n_best > 1 else {}
            key = request.batch_key(model, "translate", split_sentences=splits, **more)
            [found] = await self.ask(key, [_model_request(request)])
            return cast(Translation, found)
        options = TextOptions(language=model.source, splits_sentences=request.split_sentences)
        make = partial(_Plan, [parts], options, request.steps())
        is_long = len(join_parts(parts)) > _INLINE
        plan = await asyncio.to_thread(make) if is_long else make()
        key = request.batch_key(model, "translate", split_sentences=False)
        results = await self.ask(key, plan.requests)
        (found,) = await asyncio.to_thread(plan.join, results) if is_long else plan.join(results)
        return found

    async def ask(self, batch_key: BatchKey, texts: Sequence[tuple[Any, int]]) -> list[Any]:
        """The result of each text, given with its tokens; a long document waits slice by slice."""
        results = list[Any]()
        for start in range(0, len(texts), _SLICE):
            futures = self._workers.queue.put(batch_key, texts[start : start + _SLICE], self._job)
            results += await asyncio.gather(*futures)
        return results

    async def stream(self, request: TranslationRequest) -> AsyncIterator[str | Translation]:
        """The translation in pieces, and at last all of it."""
        route = self._route(request)
        if len(route) != 1 or request.glossary or request.memory or request.format == "html":
            found = await self.translate(request)
            yield found.text
            yield found
            return
        batch_key, pieces = request.batch_key(route[0], "stream"), self._job.pieces
        (future,) = self._workers.queue.put(batch_key, [_model_request(request)], self._job)
        future.add_done_callback(lambda _: pieces.put_nowait(None))
        while (piece := await pieces.get()) is not None:
            yield piece
        yield await future

    async def translate_file(self, path: Path, out: Path, source: str, target: str) -> DocumentReport:
        """Translate a file in its own form; raises ``TextError`` for one that is damaged or of another kind."""
        route, report = self._workers.languages.route(source, target), DocumentReport()
        for number, model in enumerate(route):
            last = out if number == len(route) - 1 else path.with_stem(f"{path.stem}.{model.target}")
            report = await asyncio.to_thread(_QueuedFiles(model, self.ask).translate, path, last)
            path = last
        return report


class _Plan:
    """Texts that have passed the steps up to their sentences.

    ``requests`` has each sentence once, with its tokens.
    """

    def __init__(self, texts: Sequence[Parts], options: TextOptions, steps: Sequence[Step]) -> None:
        self._passages = [RequestPassage(Request(text), Passage(text, options, steps), []) for text in texts]
        self._sentences = dict.fromkeys(parts for one in self._passages for parts in one.passage.texts)
        self.requests = [(Request(parts), count_tokens(join_parts(parts))) for parts in self._sentences]

    def join(self, results: Sequence[Translation]) -> list[Translation]:
        """The translation of each text, from those of ``requests``."""
        found = dict(zip(self._sentences, results, strict=True))
        return [one.join([found[parts] for parts in one.passage.texts]) for one in self._passages]


def _to_sentences(memory: Memory | None) -> tuple[Step, ...]:
    steps = file_steps(memory)
    return steps[: steps.index(read_sentences) + 1]


@dataclass(frozen=True)
class _Page(Change):
    """A page of HTML, and its texts."""

    page: str
    segments: tuple[FileSegment, ...]

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The page with the answers that leave its form as it is."""
        found = [
            Translation(segment.text, [], False, [replace(EMPTY, text=join_parts(parts), parts=parts)])
            for segment, parts in zip(self.segments, answers, strict=True)
        ]
        filling = Filling(self.page, count_segments(*_HTML), self.segments, found, is_bilingual=False)
        return (filling.fill()[0],)


def read_html(parts: Parts, options: TextOptions) -> Change:
    """A step: each text of a page is read alone."""
    page = join_parts(parts)
    segments = tuple(segment for segment in find_segments(*_HTML)(page) if not segment.is_blank)
    return _Page(tuple(segment.parts for segment in segments), page, segments)


class _QueuedFiles(FileTranslator):
    """Translates files by way of the queue; used in a thread."""

    def __init__(self, model: ServedModel, ask: Callable[..., Any]) -> None:
        super().__init__(model)  # type: ignore[arg-type]  # whose languages are read; the workers have the translators
        self._key = BatchKey(model.name, "translate", (("split_sentences", False),))
        self._ask, self._loop = ask, asyncio.get_running_loop()
        self._text_options = TextOptions(language=model.source)

    def translate_texts(self, texts: Sequence[Parts]) -> list[Translation]:
        """Wait for the workers."""
        plan = _Plan(texts, self._text_options, _to_sentences(None))
        asked = self._ask(self._key, plan.requests)
        return plan.join(asyncio.run_coroutine_threadsafe(asked, self._loop).result())


def _follow(first: Translation, second: Translation) -> Translation:
    """The translation of a translation, with what is to be said of both."""
    best, *others = second.hypotheses
    before = first.hypotheses[0]
    chances = [one.confidence for one in (before, best) if one.confidence is not None]
    both = replace(
        best,
        log_prob=before.log_prob + best.log_prob,
        score=before.score + best.score,
        confidence=min(chances, default=None),
    )
    return replace(
        second,
        source=first.source,
        hypotheses=[both, *others],
        engine=" and ".join(sorted({first.engine, second.engine} - {""})),
        doubt=first.doubt or second.doubt,
        flags=first.flags + second.flags,
        notes=first.notes + second.notes,
    )


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


def _model_request(request: TranslationRequest) -> tuple[Request, int]:
    asked = Request(request.text, request.prefix, tuple(request.must), tuple(request.ban))
    return asked, count_tokens(asked.source)
