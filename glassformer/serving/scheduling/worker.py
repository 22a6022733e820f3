"""A worker process: it holds the models and translates one batch after another, which come through a pipe.

It ends with its pipe, so that no worker outlives its server. What is wrong with one text of a batch is an answer to
that text alone. Its messages name no text.
"""

import ctypes
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.decoding import Translation, Translator
from glassformer.decoding.codes.restore import ModelScore
from glassformer.decoding.search.job import SearchStoppedError, searching_while
from glassformer.documents import FileTranslator, Glossary
from glassformer.documents.glossary import Term
from glassformer.errors import GlassformerError, InputError
from glassformer.serving.refusal import INTERNAL, Refusal, place_of
from glassformer.serving.scheduling.batch_queue import Recipe
from glassformer.settings import DecodeConfig

logger = logging.getLogger(__name__)
STOP = "stop"  # what the server says to a worker whose batch nobody waits for
_RECIPES = 16  # that are held ready; each may have a glossary
_TRIM_S = 10.0  # between two returns of memory; each takes some 20 ms


class Output(NamedTuple):
    """The model's own outputs for a text, as ``Translation.to_mapping`` has them."""

    values: dict[str, Any]
    score: ModelScore
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class WorkerPlan:
    """What a worker is started with: the directory of each model by its name, the engine, and threads."""

    models: tuple[tuple[str, Path], ...]
    engine: str
    threads: int
    is_background: bool  # whether others go first on the processor


def run_worker(connection: Connection, plan: WorkerPlan) -> None:
    """Load all models, say so or why not, and answer batches until the pipe ends."""
    os.environ["OMP_NUM_THREADS"] = str(min(plan.threads, int(os.environ.get("OMP_NUM_THREADS", plan.threads))))
    os.nice(19 if plan.is_background else 0)
    worker = _Worker(connection, plan)
    answer_messages(connection, guard(worker.load), worker.answer, worker.warm_up)


def answer_messages(
    connection: Connection, first: Any, answer: Callable[[Any], Any], meanwhile: Callable[[], None] | None = None
) -> None:
    """Send ``first``, and then the answer to each message, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, meant for the server
    connection.send(first)
    if meanwhile is not None:
        threading.Thread(target=meanwhile, daemon=True).start()
    trimmed = time.monotonic()
    while True:
        try:
            message = connection.recv()
            if message == STOP:  # of a batch that was done in the meantime
                continue
            with searching_while(lambda: not connection.poll()):
                found = answer(message)
            connection.send(found)
        except (EOFError, OSError):
            return
        if time.monotonic() - trimmed > _TRIM_S:
            trim_memory()
            trimmed = time.monotonic()


def trim_memory() -> None:
    """Give free memory back to the system: each new shape of a batch leaves other holes between what is in use."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def guard(call: Callable[[], Any]) -> Any:
    """What a call gives, or a refusal in its place; a fault of ours is logged, without any text."""
    try:
        return call()
    except SearchStoppedError:
        return Refusal(499, "the client has left")
    except GlassformerError as error:
        return Refusal(400, str(error))
    except (EOFError, BrokenPipeError):  # of a server that has ended
        raise
    except Exception as error:
        logger.error("a worker failed: %s. Please report it.", place_of(error))
        return Refusal(500, INTERNAL)


class _Worker:
    def __init__(self, connection: Connection, plan: WorkerPlan) -> None:
        self._connection, self._plan = connection, plan
        self._translators = dict[str, Translator]()
        self._files = lru_cache(_RECIPES)(self._make_files)

    def load(self) -> dict[str, str]:
        """Load all models and let each translate once; the engine of each."""
        engines = {}
        for name, path in self._plan.models:
            self._translators[name] = Translator.load(path, device="cpu", engine=self._plan.engine, workers=1)
            engines[name] = self._translators[name].translate(["Hello."])[0].engine
        return engines

    def warm_up(self) -> None:
        """Load what shows attention, which takes seconds, before a text with tags in a sentence needs it."""
        for translator in self._translators.values():
            with suppress(Exception):  # the answer to the text that needs it says so
                translator.translate(["Hello."], attention=True)

    def answer(self, message: Any) -> Any:
        """A result, or a refusal, for each text of a batch."""
        recipe, texts = message
        found = guard(lambda: getattr(self, f"_{recipe.kind}")(recipe, texts))
        if not isinstance(found, Refusal):
            return found
        if found.status != 400 or len(texts) == 1:
            return [found] * len(texts)
        return [result for text in texts for result in self.answer((recipe, [text]))]

    def _document(self, recipe: Recipe, texts: Sequence[Any]) -> list[Any]:
        results = self._files(recipe).translate_texts(dict.fromkeys(texts))
        return [results[parts] for parts in texts]

    def _make_files(self, recipe: Recipe) -> FileTranslator:
        glossary = Glossary([Term(src, forms) for src, forms in recipe.terms]) if recipe.terms else None
        return FileTranslator(self._translators[recipe.model], self._options(recipe), glossary=glossary)

    def _plain(self, recipe: Recipe, texts: Sequence[Any]) -> list[Any]:
        translator, options = self._translators[recipe.model], self._options(recipe)
        return list(map(_to_output, translator.translate_stream(texts, options, attention=recipe.attention)))

    def _options(self, recipe: Recipe) -> DecodeConfig:
        return self._translators[recipe.model].config.with_changes(dict(recipe.changes))

    def _stream(self, recipe: Recipe, texts: Sequence[Any]) -> list[Any]:
        """Send one text in pieces as they come, and give all of it. A client that leaves ends it within a step."""
        options = replace(self._options(recipe), split_sentences=True)
        pieces = self._translators[recipe.model].stream(texts[0], options)
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                return [_to_output(end.value)]
            if self._connection.poll():
                self._connection.recv()
                pieces.close()
                raise SearchStoppedError
            if piece:
                self._connection.send(piece)

    def _explain(self, recipe: Recipe, texts: Sequence[Any]) -> list[Any]:
        """Of one text the answer with its walk, or the page of an answer that was given."""
        from glassformer.explain.walks import walk

        ours, (asked,) = self._translators[recipe.model], texts
        translator = Translator(ours.model, ours.src_tokenizer, ours.tgt_tokenizer, self._options(recipe))
        made = walk(translator, [asked.text])
        (source,) = made.sentences.sources
        best = translator.translate([source])[0].hypotheses[0]
        if asked.page and tuple(best.ids) != asked.ids:
            raise InputError(f"{asked.page}: the model has changed since that answer. Ask for a new one.")
        if asked.page:
            return [made.to_page(run=f"{recipe.model}, answer {asked.page}", run_option=None)]
        answer = best.to_mapping(attention=False) | {"engine": "torch", "source": source}
        return [answer | {"walk": made.to_mapping(values=asked.values)}]


def _to_output(translation: Translation) -> Output:
    warnings = (translation.limit_warning,) if translation.limit_warning else ()
    return Output(translation.to_mapping(attention=False), ModelScore.from_translation(translation), warnings)
