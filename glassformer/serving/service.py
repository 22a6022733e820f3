"""From a request to its answers: the texts of all contracts go one way, as documents do, so that no code is lost.

A text's sentences wait in the queue with those of other clients. Where no model leads from one language to another,
two do, by way of a third language.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from glassformer.decoding.codes.restore import ModelScore, Result
from glassformer.decoding.request import Request
from glassformer.documents import FileTranslator, Memory
from glassformer.documents.filling import Filling
from glassformer.documents.report import DocumentReport
from glassformer.documents.segment_texts import SegmentTexts
from glassformer.documents.translate_file import find_segments
from glassformer.serving.languages import ServedModel
from glassformer.serving.refusal import Refusal, bad_request
from glassformer.serving.scheduling.batch_queue import Job, Recipe, count_tokens
from glassformer.serving.scheduling.workers import Loaded
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
_HTML = Path("text.html")
Text = str | Parts
"""A text, or one whose codes a client has marked."""


@dataclass(frozen=True)
class Order:
    """What a client asks for, in the languages that are served. A ``is_plain`` one goes to the model as it is."""

    text: Text
    source: str
    target: str
    format: Literal["text", "html"] = "text"
    split: bool = True
    n_best: int = 1
    changes: tuple[tuple[str, Any], ...] = ()
    prefix: str = ""
    must: tuple[str, ...] = ()
    ban: tuple[str, ...] = ()
    alignment: bool = False
    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    memory: tuple[tuple[str, str], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the request needs something that only the model's own output has."""
        return bool(self.n_best > 1 or self.prefix or self.must or self.ban or self.alignment)


@dataclass(frozen=True)
class Answer:
    """A translation; ``check`` says which codes of its source it does not have as often as that."""

    text: str
    parts: Parts = ()
    check: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    scores: tuple[ModelScore, ...] = ()
    output: dict[str, Any] | None = None
    """Of a plain order what the model gave, as ``Translation.to_mapping`` has it."""

    @property
    def engine(self) -> str:
        """What translated; empty where nothing had to be translated."""
        engines = {score.engine for score in self.scores} | {str((self.output or {}).get("engine", ""))}
        return " and ".join(sorted(engines - {""}))


class Service:
    """Translates with what is ``loaded`` now; a request that has begun stays with the models that it began with."""

    def __init__(self, loaded: Loaded, time_limit_s: float) -> None:
        self.loaded, self._time_limit_s = loaded, time_limit_s

    @asynccontextmanager
    async def job(self, *, is_gone: Callable[[], Any] | None = None, times: int = 1) -> AsyncIterator["Task"]:
        """What handles one client's request within the time limit. If ``is_gone`` ends, the client has left."""
        loaded, seconds = self.loaded, times * self._time_limit_s
        job = loaded.queue.open(seconds)
        watch = asyncio.create_task(_cancel_when(is_gone, asyncio.current_task())) if is_gone is not None else None
        try:
            async with asyncio.timeout(seconds):
                yield Task(loaded, job)
        except TimeoutError:
            message = f"the translation takes longer than the {seconds:g} seconds that a request may take"
            raise Refusal(503, message, retry_after=seconds) from None
        except asyncio.CancelledError:
            if watch is None or not watch.done():
                raise
            if (me := asyncio.current_task()) is not None:
                me.uncancel()
            raise Refusal(499, "the client has left") from None
        finally:
            loaded.queue.close_job(job)
            if watch is not None:
                watch.cancel()


async def _cancel_when(is_gone: Callable[[], Any], task: "asyncio.Task[Any] | None") -> None:
    await is_gone()
    if task is not None:
        task.cancel()


class Task:
    """One request in progress."""

    def __init__(self, loaded: Loaded, job: Job) -> None:
        self.loaded, self._job = loaded, job

    async def translate(self, order: Order) -> Answer:
        """The answer to an order; ``Refusal`` for what the models cannot do."""
        text, route = order.text, self._route(order)
        answer = Answer(join_parts(_parts(text)), _parts(text))
        for model in route:
            is_plain = order.is_plain and model is route[-1]
            following = await (self._translate_plain if is_plain else self._translate_document)(model, text, order)
            flags, scores = answer.flags + following.flags, answer.scores + following.scores
            answer = replace(following, flags=flags, scores=scores)
            text = answer.text
        return replace(answer, check=_check(order.text, answer)) if route else answer

    def _route(self, order: Order) -> tuple[ServedModel, ...]:
        route = self.loaded.languages.route(order.source, order.target)
        if (order.terms or order.memory) and len(route) > 1:
            raise bad_request(
                f"a glossary or a memory from {order.source} to {order.target}, by way of {route[0].target}, "
                "expected languages that one model translates"
            )
        return route

    async def _translate_document(self, model: ServedModel, text: Text, order: Order) -> Answer:
        is_long = len(join_parts(_parts(text))) > _INLINE
        plan = await _in_thread(is_long, partial(_Plan, text, order, model.source))
        recipe = Recipe(model.name, "document", order.changes, order.terms)
        results = await self._ask(recipe, [(parts, count_tokens(join_parts(parts))) for parts in plan.texts])
        answer: Answer = await _in_thread(is_long, partial(plan.fill, results))
        return answer

    async def _translate_plain(self, model: ServedModel, text: Text, order: Order) -> Answer:
        constrained = bool(order.prefix.strip() or order.must)
        changes = dict(order.changes) | {"split_sentences": order.split and not constrained}
        if order.n_best > 1:
            changes["n_best"] = order.n_best
        recipe = Recipe(model.name, "plain", tuple(sorted(changes.items())), attention=order.alignment)
        request = _request(text, order)
        (output,) = await self._ask(recipe, [(request, count_tokens(request.text))])
        return _plain_answer(output)

    async def _ask(self, recipe: Recipe, texts: Sequence[tuple[Any, int]]) -> list[Any]:
        """The result of each text; a long document waits slice by slice."""
        results = list[Any]()
        for start in range(0, len(texts), _SLICE):
            results += await asyncio.gather(*self.loaded.queue.put(recipe, texts[start : start + _SLICE], self._job))
        return results

    async def stream(self, order: Order) -> AsyncIterator[str | Answer]:
        """The translation in pieces and at last the answer; whole where codes have to be put in."""
        route, parts = self._route(order), find_codes(_parts(order.text))
        has_codes = not all(isinstance(part, str) for part in parts)
        if has_codes or len(route) != 1 or order.terms or order.memory or order.format == "html":
            answer = await self.translate(order)
            yield answer.text
            yield answer
            return
        request, pieces = _request(order.text, order), self._job.pieces
        recipe = Recipe(route[0].name, "stream", order.changes)
        (future,) = self.loaded.queue.put(recipe, [(request, count_tokens(request.text))], self._job)
        future.add_done_callback(lambda _: pieces.put_nowait(None))
        while (piece := await pieces.get()) is not None:
            yield piece.text
        answer = _plain_answer(await future)
        yield replace(answer, check=_check(order.text, answer))

    async def translate_file(self, path: Path, out: Path, source: str, target: str) -> DocumentReport:
        """Translate a file in its own form; raises ``TextError`` for one that is damaged or of another kind."""
        route, report = self.loaded.languages.route(source, target), DocumentReport()
        for number, model in enumerate(route):
            last = out if number == len(route) - 1 else path.with_stem(f"{path.stem}.{model.target}")
            files = _QueuedFiles(model, self._ask, asyncio.get_running_loop())
            report = await asyncio.to_thread(files.translate, path, last, files.options_for(path))
            path = last
        return report


class _Plan:
    """The segments of a text, their sentences in ``texts``, and how the translations are put in."""

    def __init__(self, text: Text, order: Order, source: str) -> None:
        self._text, self._find = text, find_segments(_HTML, FormatOptions())
        self._is_html = order.format == "html" and isinstance(text, str)
        found = (
            self._find(text) if isinstance(text, str) and self._is_html else [FileSegment(_parts(text), 0, _write)]
        )
        self._segments = [segment for segment in found if not is_blank(segment.text)]
        memory = Memory(Pair(*pair) for pair in order.memory) if order.memory else None
        split = partial(split_sentences, language=source) if order.split else split_lines
        self._plan = SegmentTexts(self._segments, memory, split)
        self.texts = self._plan.texts

    def fill(self, translations: Sequence[Result]) -> Answer:
        """The answer, from the translation of each of ``texts``."""
        report = DocumentReport()
        results = self._plan.join(dict(zip(self.texts, translations, strict=True)), report)
        parts = self._fill(results) if self._segments else _parts(self._text)
        flags, notes = (tuple(one.remark for one in remarks) for remarks in (report.checks, report.notes))
        return Answer(
            join_parts(parts), parts, (), flags, notes, tuple(one for each in results for one in each.scores)
        )

    def _fill(self, results: list[Result]) -> Parts:
        if not (isinstance(self._text, str) and self._is_html):
            return results[0].parts
        filled, _ = Filling(self._text, self._find, self._segments, results, is_bilingual=False).fill()
        return (filled,)


class _QueuedFiles(FileTranslator):
    """Translates files by way of the queue; used in a thread."""

    def __init__(self, model: ServedModel, ask: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # the workers have the translators
        self._model, self._queue, self._loop = model, ask, loop
        self._split = partial(split_sentences, language=model.source)

    def options_for(self, path: Path) -> FormatOptions:
        """The target language, where a file may not name it."""
        from glassformer.text.formats import find_format

        return FormatOptions(language=self._model.target if "language" in find_format(path).options else None)

    def translate_texts(self, waiting: Collection[Parts]) -> dict[Parts, Result]:
        """Wait for the workers."""
        recipe, texts = Recipe(self._model.name, "document"), list(waiting)
        sized = [(parts, count_tokens(join_parts(parts))) for parts in texts]
        results = asyncio.run_coroutine_threadsafe(self._queue(recipe, sized), self._loop).result()
        return dict(zip(texts, results, strict=True))


def lost_codes(source: str, text: str) -> bool:
    """Whether a translation lacks a code of its source, or has one too many."""
    return bool(code_changes(find_codes((source,)), find_codes((text,))))


def mark_untranslated(text: str, tags: Sequence[str]) -> Parts:
    """A text in which the elements with these tags, and what they enclose, are codes."""
    names = "|".join(map(re.escape, tags))
    pattern = re.compile(rf"<({names})\b[^<>]*/>|<({names})\b[^<>]*>.*?</\2\s*>", re.DOTALL)
    return mark_codes((text,), pattern, lambda match: Code(match[0], is_text=True))


async def _in_thread(is_long: bool, call: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(call) if is_long else call()


def _parts(text: Text) -> Parts:
    return (text,) if isinstance(text, str) else text


def _request(text: Text, order: Order) -> Request:
    return Request(join_parts(_parts(text)), order.prefix, order.must, order.ban)


def _check(source: Text, answer: Answer) -> tuple[str, ...]:
    """In words, the codes that are missing or were added."""
    parts = answer.parts if not isinstance(source, str) and answer.parts else (answer.text,)
    return tuple(code_changes(find_codes(_parts(source)), find_codes(parts)))


def _plain_answer(output: dict[str, Any]) -> Answer:
    return Answer(
        output["hypotheses"][0]["text"], output=output, flags=tuple(filter(None, (output["limit_warning"],)))
    )


def _write(_: Any) -> list[Any]:
    """A text by itself is no part of a file that it would be written into."""
    return []
