"""A worker process: it holds the models and translates the batches that come through a pipe.

It ends with its pipe, so that no worker outlives its server. An error in one text of a batch is the answer to that
text alone. Log messages contain no text.
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
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from glassformer.decoding import Translator
from glassformer.decoding.search.job import SearchStoppedError, searching_while
from glassformer.documents.glossary import Glossary, Term
from glassformer.errors import GlassformerError, InputError
from glassformer.serving.http_errors import INTERNAL, HTTPError, place_of
from glassformer.serving.scheduling.batch_queue import BatchKey
from glassformer.settings import DecodeConfig

logger = logging.getLogger(__name__)
STOP = "stop"  # the message that nobody waits for the current batch
_MAX_GLOSSARIES = 16
_OF_EXPLANATION = ("text", "tokens", "ids", "log_prob", "score", "truncated")
_TRIM_S = 10.0  # between two trims of memory; one takes about 20 ms


@dataclass(frozen=True)
class WorkerPlan:
    """What a worker is started with: names and directories of the models, the engine, threads."""

    models: tuple[tuple[str, Path], ...]
    engine: str
    threads: int
    is_background: bool  # runs at the lowest priority


def run_worker(connection: Connection, plan: WorkerPlan) -> None:
    """Load all models, send their engines or why that failed, and answer batches until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, meant for the server
    os.environ["OMP_NUM_THREADS"] = str(min(plan.threads, int(os.environ.get("OMP_NUM_THREADS", plan.threads))))
    os.nice(19 if plan.is_background else 0)
    worker = _Worker(connection, plan)
    connection.send(guard(worker.load))
    threading.Thread(target=worker.warm_up, daemon=True).start()
    answer_messages(connection, worker.answer)


def answer_messages(connection: Connection, answer: Callable[[Any], Any]) -> None:
    """Send the answer to each message until the pipe ends."""
    trimmed = time.monotonic()
    while True:
        try:
            message = connection.recv()
            if message == STOP:  # too late: its batch is done
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
    """Return free memory to the system: batches of many shapes fragment it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def guard(call: Callable[[], Any]) -> Any:
    """What a call returns, or an ``HTTPError`` instead; a fault of ours is logged, without any text."""
    try:
        return call()
    except SearchStoppedError:
        return HTTPError(499, "the client has left")
    except GlassformerError as error:
        return HTTPError(400, str(error))
    except (EOFError, BrokenPipeError):  # the server has ended
        raise
    except Exception as error:
        logger.error("a worker failed: %s. Please report it.", place_of(error))
        return HTTPError(500, INTERNAL)


class _Worker:
    def __init__(self, connection: Connection, plan: WorkerPlan) -> None:
        self._connection, self._plan = connection, plan
        self._translators = dict[str, Translator]()

    def load(self) -> dict[str, str]:
        """Load all models and let each translate once; the engine of each."""
        engines = {}
        for name, path in self._plan.models:
            self._translators[name] = Translator.load(path, device="cpu", engine=self._plan.engine, workers=1)
            engines[name] = self._translators[name].translate(["Hello."])[0].engine
        return engines

    def warm_up(self) -> None:
        """Load the weights that give attention, which takes seconds, before a text with tags needs them."""
        for translator in self._translators.values():
            with suppress(Exception):  # a text that needs them reports it
                translator.translate(["Hello."], attention=True)

    def answer(self, message: Any) -> Any:
        """A result or an ``HTTPError`` for each text of a batch."""
        key, texts = message
        found = guard(lambda: getattr(self, f"_{key.kind}")(key, texts))
        if not isinstance(found, HTTPError):
            return found
        if found.status != 400 or len(texts) == 1:
            return [found] * len(texts)
        return [result for text in texts for result in self.answer((key, [text]))]

    def _translate(self, key: BatchKey, texts: Sequence[Any]) -> list[Any]:
        translator = self._translators[key.model]
        options = replace(self._options(key), keep_codes=True, copy_wordless=True)
        review = None
        if key.terms:
            review = partial(_glossary(key.terms).review, translator=translator, options=options)
        found = translator.translate_requests(
            texts, options, attention=key.attention, check_content=not key.attention, review=review
        )
        return [one.without_attention() for one in found]

    def _options(self, key: BatchKey) -> DecodeConfig:
        return self._translators[key.model].config.with_changes(dict(key.changes))

    def _stream(self, key: BatchKey, texts: Sequence[Any]) -> list[Any]:
        """Send one translation in pieces, and return all of it. A client that leaves ends it within a step."""
        options = replace(self._options(key), split_sentences=True)
        pieces = self._translators[key.model].stream(texts[0], options, check_content=True)
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                return [end.value]
            if self._connection.poll():
                self._connection.recv()
                pieces.close()
                raise SearchStoppedError
            if piece:
                self._connection.send(piece)

    def _explain(self, key: BatchKey, texts: Sequence[Any]) -> list[Any]:
        """The answer to one text with its walk, or the page of an earlier answer."""
        from glassformer.explain.walks import walk

        ours, (asked,) = self._translators[key.model], texts
        translator = Translator(ours.model, ours.src_tokenizer, ours.tgt_tokenizer, self._options(key))
        made = walk(translator, [asked.text])
        (source,) = made.sentences.sources
        best = translator.translate([source])[0].hypotheses[0]
        if asked.page and tuple(best.ids) != asked.ids:
            raise InputError(f"{asked.page}: the model has changed since that answer. Ask for a new one.")
        if asked.page:
            return [made.to_page(run=f"{key.model}, answer {asked.page}", run_option=None)]
        found = best.to_mapping(attention=False)
        answer = {"source": source} | {name: found[name] for name in _OF_EXPLANATION}
        return [answer | {"engine": "torch", "walk": made.to_mapping(values=asked.values)}]


@lru_cache(_MAX_GLOSSARIES)
def _glossary(terms: tuple[tuple[str, tuple[str, ...]], ...]) -> Glossary:
    return Glossary([Term(src, forms) for src, forms in terms])
