"""From a request to its answers: the texts of all contracts go one way, as documents do, so that no code is lost.

A text's sentences wait in the queue with those of other clients. Where no model leads from one language to another,
two do, by way of a third language.
"""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from glassformer.decoding.request import Request
from glassformer.decoding.sentences import RequestPassage
from glassformer.decoding.translation import EMPTY, Translation
from glassformer.documents import FileTranslator, Memory
from glassformer.documents.checklist import DocumentReport
from glassformer.documents.translate_file import file_steps
from glassformer.serving.batcher import Batcher, BatchKey, count_tokens
from glassformer.serving.http_errors import bad_request
from glassformer.serving.languages import ServedModel
from glassformer.serving.markup import protect_links, read_html
from glassformer.serving.models import Models
from glassformer.serving.models import translate as translate_by_torch
from glassformer.text.codes.checks import code_changes
from glassformer.text.codes.code import Parts, join_parts
from glassformer.text.codes.find import find_codes
from glassformer.text.corpus.corpus import Pair
from glassformer.text.steps.passage import Passage
from glassformer.text.steps.sentences import read_sentences
from glassformer.text.steps.step import Step, TextOptions

_SLICE = 256  # sentences of one request that wait at a time
_INLINE = 2000  # characters; the sentences of longer texts are found in a thread
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
    def needs_torch(self) -> bool:
        """Whether only PyTorch does it."""
        return bool(self.prefix or self.must or self.ban or self.alignment or self.glossary)

    @property
    def needs_model_output(self) -> bool:
        """Whether the answer needs what only the model's own output has."""
        return bool(self.n_best > 1 or self.prefix or self.must or self.ban or self.alignment)

    def key(self, model: ServedModel, *, splits: bool) -> BatchKey:
        """What sentences in the same batch share."""
        changes: dict[str, Any] = {"split_sentences": splits}
        changes |= {} if self.beam is None else {"beam": self.beam}
        changes |= {"n_best": self.n_best} if self.n_best > 1 else {}
        return BatchKey(model.name, tuple(sorted(changes.items())))

    def steps(self, markup: Sequence[Step]) -> tuple[Step, ...]:
        """The steps that its text passes before its sentences wait in the queue."""
        memory = Memory(Pair(*pair) for pair in self.memory) if self.memory else None
        return (*markup, *((protect_links, read_html) if self.format == "html" else ()), *_to_sentences(memory))


class Service:
    """Translates by the models of a server."""

    def __init__(self, models: Models, batcher: Batcher, time_limit_s: float) -> None:
        self.models, self._batcher, self._time_limit_s = models, batcher, time_limit_s

    async def translate(self, request: TranslationRequest, markup: Sequence[Step] = ()) -> Translation:
        """The translation that a request asks for, whose text passes ``markup`` first.

        Raises ``HTTPError`` for what the models cannot do.
        """
        parts = _parts(request.text)
        best = replace(EMPTY, text=join_parts(parts), parts=parts)
        found = Translation(best.text, [], False, [best])
        for model in self._route(request):
            text = request.text if not found.engine else found.text if isinstance(request.text, str) else found.parts
            following = await self._translate_by(model, msgspec.structs.replace(request, text=text), markup)
            found = _follow(found, following) if found.engine else following
        return found

    def _route(self, request: TranslationRequest) -> tuple[ServedModel, ...]:
        route = self.models.languages.route(request.source, request.target)
        if (request.glossary or request.memory) and len(route) > 1:
            raise bad_request(
                f"a glossary or a memory from {request.source} to {request.target}, by way of {route[0].target}, "
                "expected languages that one model translates"
            )
        return route

    async def _translate_by(
        self, model: ServedModel, request: TranslationRequest, markup: Sequence[Step]
    ) -> Translation:
        """The translation by one model; its own outputs are of the whole text."""
        if request.needs_model_output and model.target == request.target:
            splits = request.split_sentences and not (request.prefix.strip() or request.must)
            asked = Request(request.text, request.prefix, tuple(request.must), tuple(request.ban))
            return (await self.ask(request, request.key(model, splits=splits), [asked]))[0]
        plan = await self._plan(model, request, markup)
        results = await self.ask(request, request.key(model, splits=False), plan.requests)
        is_long = len(plan.requests) > _SLICE
        (found,) = await asyncio.to_thread(plan.join, results) if is_long else plan.join(results)
        return found

    async def _plan(self, model: ServedModel, request: TranslationRequest, markup: Sequence[Step]) -> "_Plan":
        options = TextOptions(language=model.source, splits_sentences=request.split_sentences)
        make = partial(_Plan, [_parts(request.text)], options, request.steps(markup))
        return await asyncio.to_thread(make) if len(join_parts(_parts(request.text))) > _INLINE else make()

    async def ask(
        self, request: TranslationRequest, key: BatchKey, sentences: Sequence[Request]
    ) -> list[Translation]:
        """The translation of each sentence; a long document waits slice by slice."""
        if request.needs_torch and sentences:
            terms = tuple((src, tuple(forms)) for src, *forms in request.glossary)
            given = sentences, terms, request.alignment
            return await self.models.call(translate_by_torch, key, *given, seconds=self._time_limit_s)
        results, done = list[Translation](), 0
        for start in range(0, len(sentences), _SLICE):
            some = sentences[start : start + _SLICE]
            results += await asyncio.gather(*map(asyncio.wrap_future, self._batcher.put(key, some, done)))
            done += sum(count_tokens(one.source) for one in some)
        return results

    async def stream(self, request: TranslationRequest) -> AsyncGenerator[str | Translation, None]:
        """The translation sentence by sentence, each as soon as it is complete, and at last all of it."""
        route = self._route(request)
        if len(route) != 1 or request.needs_torch or request.needs_model_output or request.format == "html":
            found = await self.translate(request)
            yield found.text
            yield found
            return
        plan = await self._plan(route[0], request, ())
        waiting = self._batcher.put(request.key(route[0], splits=False), plan.requests)
        try:
            done, shown = list[Translation](), ""
            for future in waiting:
                done.append(await asyncio.wrap_future(future))
                certain = plan.join_start(done)
                if len(certain) > len(shown):
                    yield certain[len(shown) :]
                    shown = certain
            (found,) = plan.join(done)
            yield found.text[len(shown) :]
            yield found
        finally:
            for future in waiting:
                future.cancel()

    async def translate_file(self, path: Path, out: Path, source: str, target: str) -> DocumentReport:
        """Translate a file in its own form; raises ``TextError`` for one that is damaged or of another kind."""
        route, report = self.models.languages.route(source, target), DocumentReport()
        if not route:
            shutil.copy(path, out)
        for number, model in enumerate(route):
            last = out if number == len(route) - 1 else path.with_stem(f"{path.stem}.{model.target}")
            files = _QueuedFiles(model, self)
            try:
                report = await asyncio.to_thread(files.translate, path, last)
            finally:
                files.stop()
            path = last
        return report


class _Plan:
    """Texts that have passed the steps up to their sentences; ``requests`` has each sentence once."""

    def __init__(self, texts: Sequence[Parts], options: TextOptions, steps: Sequence[Step]) -> None:
        self._passages = [RequestPassage(Request(text), Passage(text, options, steps), []) for text in texts]
        self._sentences = list(dict.fromkeys(parts for one in self._passages for parts in one.passage.texts))
        self.requests = [Request(parts) for parts in self._sentences]

    def join(self, results: Sequence[Translation]) -> list[Translation]:
        """The translation of each text, from those of ``requests``."""
        found = dict(zip(self._sentences, results, strict=True))
        return [one.join([found[parts] for parts in one.passage.texts]) for one in self._passages]

    def join_start(self, results: Sequence[Translation]) -> str:
        """What is certain of the only text, from the first of ``requests``."""
        found = {parts: one.parts for parts, one in zip(self._sentences, results, strict=False)}
        (passage,) = (one.passage for one in self._passages)
        known = list[Parts]()
        for parts in passage.texts:
            if parts not in found:
                return join_parts(passage.restore_start([*known, ()]))
            known.append(found[parts])
        return ""  # all of it is there


def _to_sentences(memory: Memory | None) -> tuple[Step, ...]:
    steps = file_steps(memory)
    return steps[: steps.index(read_sentences) + 1]


class _QueuedFiles(FileTranslator):
    """Translates files by way of the queue; used in a thread."""

    def __init__(self, model: ServedModel, service: Service) -> None:
        super().__init__(model)  # type: ignore[arg-type]  # whose languages are read
        self._request = TranslationRequest(text="", source=model.source, target=model.target)
        self._model, self._service, self._loop = model, service, asyncio.get_running_loop()
        self._asked: Future[list[Translation]] | None = None

    def translate_texts(self, texts: Sequence[Parts]) -> list[Translation]:
        """Wait for the batches."""
        plan = _Plan(texts, TextOptions(language=self._model.source), _to_sentences(None))
        asked = self._service.ask(self._request, self._request.key(self._model, splits=False), plan.requests)
        self._asked = asyncio.run_coroutine_threadsafe(asked, self._loop)
        return plan.join(self._asked.result())

    def stop(self) -> None:
        """Cancel what waits: the client has left, or its time is over."""
        if self._asked is not None:
            self._asked.cancel()


def _follow(first: Translation, second: Translation) -> Translation:
    """The translation of a translation, with what is to be said of both."""
    before, (best, *others) = first.hypotheses[0], second.hypotheses
    chances = [one.confidence for one in (before, best) if one.confidence is not None]
    sums: dict[str, Any] = {"log_prob": before.log_prob + best.log_prob, "score": before.score + best.score}
    return replace(
        second,
        source=first.source,
        hypotheses=[replace(best, **sums, confidence=min(chances, default=None)), *others],
        engine=" and ".join(sorted({first.engine, second.engine} - {""})),
        doubt=first.doubt or second.doubt,
        flags=first.flags + second.flags,
        notes=first.notes + second.notes,
    )


def check_codes(source: Text, translation: Text) -> tuple[str, ...]:
    """In words, the codes of a source that its translation lacks, and those that it has too often."""
    return tuple(code_changes(find_codes(_parts(source)), find_codes(_parts(translation))))


def _parts(text: Text) -> Parts:
    return (text,) if isinstance(text, str) else text
