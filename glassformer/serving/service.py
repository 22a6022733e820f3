"""From texts to their translations: requests of one kind are one call in a thread, and searches share batches.

Where no model leads from one language to another, two do, by way of a third language.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from anyio import CapacityLimiter, to_thread
from msgspec import Meta, Struct

from glassformer.decoding import Translator
from glassformer.decoding.request import Request
from glassformer.decoding.search.job import searching_while
from glassformer.decoding.sentences import RequestPassage
from glassformer.decoding.translation import EMPTY, Translation
from glassformer.documents import FileTranslator, Memory
from glassformer.documents.checklist import DocumentReport, Remark
from glassformer.documents.glossary import Glossary, Term
from glassformer.documents.translate_file import file_steps
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.serving.markup import read_html
from glassformer.serving.models import Models
from glassformer.settings import DecodeConfig
from glassformer.text.codes.code import join_parts
from glassformer.text.corpus.corpus import Pair
from glassformer.text.formats import find_format
from glassformer.text.steps.passage import STEPS, Passage
from glassformer.text.steps.sentences import read_sentences
from glassformer.text.steps.step import Step, TextOptions

T = TypeVar("T")
_AT_ONCE = 64  # calls for each thread with an engine
_SHARED_TEXTS, _SHARED_CHARACTERS = 32, 4000  # of requests in one call; a longer one has a call to itself
_MAX_STREAMED = 32  # sentences that are translated before the next piece of a stream
_TO_SENTENCES = STEPS[: STEPS.index(read_sentences) + 1]
UNCHANGED = "is in the target language and stays as it is"


class Options(Struct, kw_only=True):
    """How to translate. With n_best, prefix, must, ban or alignment an answer has the model's own outputs."""

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
    def has_outputs(self) -> bool:
        """Whether an answer has the model's own outputs."""
        return bool(self.n_best > 1 or self.prefix or self.must or self.ban or self.alignment)

    @property
    def needs_torch(self) -> bool:
        """Whether only PyTorch does it."""
        return bool(self.prefix or self.must or self.ban or self.alignment or self.glossary)

    def settings(self, translator: Translator, target: str) -> DecodeConfig:
        """The decode settings for a translator, whose target is one of several if it has some."""
        splits = self.split_sentences and not (self.prefix.strip() or self.must)
        changes: dict[str, Any] = {"keep_codes": True, "copy_wordless": True, "split_sentences": splits}
        changes |= {} if self.beam is None else {"beam": self.beam}
        changes |= {"n_best": self.n_best} if self.n_best > 1 else {}
        changes |= {"tgt_language": target} if translator.targets else {}
        return _change(translator.config, tuple(changes.items()))


@lru_cache(256)
def _change(config: DecodeConfig, changes: tuple[tuple[str, Any], ...]) -> DecodeConfig:
    return config.with_changes(dict(changes))


def translate(
    translator: Translator, target: str, texts: Sequence[str], options: Options, markup: Sequence[Step] = ()
) -> list[Translation]:
    """The translation of each text, which passes ``markup`` first; ``target`` is for a model of several.

    It is also called in the process with PyTorch.
    """
    settings, review = options.settings(translator, target), None
    if options.glossary:
        glossary = Glossary([Term(term, tuple(forms)) for term, *forms in options.glossary])
        review = partial(glossary.review, translator=translator, options=settings)
    memory = Memory(Pair(*pair) for pair in options.memory) if options.memory else None
    html = (read_html,) if options.format == "html" else ()
    found = translator.translate_requests(
        [Request(text, options.prefix, tuple(options.must), tuple(options.ban)) for text in texts],
        settings,
        steps=(*markup, *html, *file_steps(memory)),
        attention=options.alignment,
        check_content=not options.alignment,
        review=review,
    )
    return [one.without_attention() for one in found]


@dataclass
class _Asked:
    """The texts of a request for a model, and the future of their translations."""

    texts: Sequence[str]
    options: Options
    translations: "asyncio.Future[list[Translation]]"


class Service:
    """Translates by the models of a server."""

    def __init__(self, models: Models, config: ServeConfig) -> None:
        self.models, self._config, self.waiting = models, config, 0
        self._limiter = CapacityLimiter(_AT_ONCE * len(models.batcher.threads))
        self._asked = dict[tuple[Path, str, bytes], deque[_Asked]]()
        self._tasks, self._answering = set[asyncio.Task[None]](), 0

    def check_room(self) -> None:
        """Raise ``HTTPError`` if too much is waiting."""
        if self.waiting >= self._config.queue:
            raise HTTPError(429, f"Slowdown: {self.waiting:,} texts are waiting", retry_after=5)

    async def translate(
        self, texts: Sequence[str], source: str, target: str, options: Options, markup: Sequence[Step] = ()
    ) -> list[Translation]:
        """The translation of each text; raises ``HTTPError`` for what the models cannot do."""
        self.waiting += len(texts)
        try:
            return await self._translate(texts, source, target, options, markup)
        finally:
            self.waiting -= len(texts)

    async def _translate(
        self, texts: Sequence[str], source: str, target: str, options: Options, markup: Sequence[Step]
    ) -> list[Translation]:
        route, found = self.models.languages.route(source, target), list(map(_copy, texts))
        if len(route) > 1 and (options.glossary or options.memory):
            raise bad_request(
                f"a glossary or a memory from {source} to {target}, by way of {route[0].target}, expected languages "
                "that one model translates"
            )
        for model in route:
            is_last = model is route[-1]
            given = model.token, texts, options if is_last else Options(format=options.format), markup
            if is_last and options.needs_torch:
                later = await self.models.call(translate, model.path, *given, seconds=self._config.time_limit_s)
            elif markup or options.memory or len(texts) > _SHARED_TEXTS or sum(map(len, texts)) > _SHARED_CHARACTERS:
                later = await self._call(partial(translate, self.models.translators[model.path], *given))
            else:
                later = await self._share(model.path, *given[:3])
            found = later if model is route[0] else list(map(_follow, found, later))
            texts = [one.text for one in found]
        return found

    async def _call(self, call: Callable[[], T], is_wanted: Callable[[], bool] = lambda: True) -> T:
        """What a call gives in a thread; once nobody waits for it, it stops at its next search."""
        stopped = threading.Event()
        try:
            with searching_while(lambda: is_wanted() and not stopped.is_set()):
                return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            stopped.set()

    async def _share(self, path: Path, token: str, texts: Sequence[str], options: Options) -> list[Translation]:
        """The translation of each text, in one call with what others ask of the model with the same options."""
        one = _Asked(texts, options, asyncio.get_running_loop().create_future())
        self._asked.setdefault((path, token, msgspec.json.encode(options)), deque()).append(one)
        if self._answering < len(self.models.batcher.threads):
            self._answering += 1
            task = asyncio.create_task(self._answer())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await one.translations

    async def _answer(self) -> None:
        """Answer what is asked, until nothing is left."""
        try:
            while self._asked:
                kind = next(iter(self._asked))
                waiting, some, size = self._asked.pop(kind), list[_Asked](), 0
                while waiting and size + len(waiting[0].texts) <= _SHARED_TEXTS:
                    some.append(waiting.popleft())
                    size += len(some[-1].texts)
                if waiting:
                    self._asked[kind] = waiting  # behind the other kinds
                await self._answer_some(kind[:2], [one for one in some if not one.translations.cancelled()])
        finally:
            self._answering -= 1  # at once: what is asked next starts another

    async def _answer_some(self, model: tuple[Path, str], some: Sequence[_Asked]) -> None:
        if not some:
            return
        texts = [text for one in some for text in one.texts]
        call = partial(translate, self.models.translators[model[0]], model[1], texts, some[0].options)
        try:
            found = iter(await self._call(call, lambda: not all(one.translations.done() for one in some)))
            for one in some:
                own = list(islice(found, len(one.texts)))
                if not one.translations.done():
                    one.translations.set_result(own)
        except Exception as error:
            for one in some:
                if not one.translations.done():
                    one.translations.set_exception(error)

    async def stream(
        self, text: str, source: str, target: str, options: Options
    ) -> AsyncGenerator[str | Translation, None]:
        """The translation sentence by sentence, each as soon as it is complete, and at last all of it."""
        is_whole = options.needs_torch or options.n_best > 1 or options.format == "html" or options.memory
        if is_whole or len(self.models.languages.route(source, target)) != 1:
            (whole,) = await self.translate([text], source, target, options)
            yield whole.text
            yield whole
            return
        read = TextOptions(language=source, splits_sentences=options.split_sentences)
        passage, done, shown = Passage((text,), read, _TO_SENTENCES), list[Translation](), ""
        while len(done) < len(passage.texts):
            some = passage.texts[len(done) : len(done) + min(_MAX_STREAMED, max(1, len(done)))]
            done += await self.translate(list(map(join_parts, some)), source, target, options)
            if len(done) < len(passage.texts):
                certain = join_parts(passage.restore_start([*(one.parts for one in done), ()]))
                yield certain[len(shown) :]
                shown = certain
        whole = RequestPassage(Request(text), passage, []).join(done)
        yield whole.text[len(shown) :]
        yield whole

    async def translate_file(
        self, name: str, content: bytes, source: str, target: str
    ) -> tuple[bytes, DocumentReport]:
        """A translated file, and what is to be said of it; raises ``TextError`` for one that is damaged.

        One in the target language, by ``source`` or by what it says itself, stays as it is.
        """
        route, report = self.models.languages.route(source, target), DocumentReport()
        with TemporaryDirectory(prefix="glassformer-") as directory:
            path = Path(directory) / name
            path.write_bytes(content)
            named = find_format(path).languages
            if source == target or (named and target in self._read_codes(named(path)[:1])):
                report.flagged.append(Remark(1, "", "", f"the file {UNCHANGED}"))
                return content, report
            for model in route:
                translator, out = self.models.translators[model.path], path.with_stem(f"{path.stem}.{model.target}")
                files = FileTranslator(translator, Options().settings(translator, model.token))
                report = await self._call(partial(files.translate, path, out))
                path = out
            return path.read_bytes(), report

    def _read_codes(self, codes: Sequence[str]) -> list[str]:
        """The served languages of a file's codes."""
        known = self.models.languages
        return [known.read(code) for code in codes if code.partition("-")[0].lower() in map(str.lower, known.codes)]


def _copy(text: str) -> Translation:
    """A text that stays as it is."""
    return Translation(text, [], False, [replace(EMPTY, text=text)], flags=(UNCHANGED,))


def _follow(first: Translation, second: Translation) -> Translation:
    """The translation of a translation, with what is to be said of both."""
    chances = [one.hypotheses[0].confidence for one in (first, second)]
    sure = min((one for one in chances if one is not None), default=None)
    hypotheses = [replace(one, confidence=sure) for one in second.hypotheses]
    doubt, flags = first.doubt or second.doubt, first.flags + second.flags
    return replace(second, source=first.source, hypotheses=hypotheses, doubt=doubt, flags=flags)
