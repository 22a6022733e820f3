"""The models of a server: translators in its own process, and a process for what only PyTorch can do.

CTranslate2 translates without the interpreter's lock, so that threads are enough. Required phrases, prefixes,
glossaries, alignments and explanations need PyTorch: 250 MB, in a process that starts when it is first needed.
"""

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from glassformer.decoding import Translator
from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.engines.auto_engine import find_fast_device, known_engine
from glassformer.decoding.engines.ctranslate2_run import open_engine
from glassformer.decoding.request import Request
from glassformer.decoding.search.job import SearchStoppedError, searching_while
from glassformer.decoding.translation import Translation
from glassformer.documents.glossary import Glossary, Term
from glassformer.errors import InputError
from glassformer.run_directory import RunDirectory
from glassformer.serving.batcher import BatchKey
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.languages import Languages
from glassformer.settings import DecodeConfig

T = TypeVar("T")
Terms = tuple[tuple[str, tuple[str, ...]], ...]  # of a glossary, each with its accepted translations
_OF_EXPLANATION = ("text", "tokens", "ids", "log_prob", "score", "truncated")
_MAX_CALLS = 8  # of the process with PyTorch
_NICE = 10  # its priority: below that of translations


class Models:
    """Translators by the names of their models; ``engines`` says what each of them runs on."""

    def __init__(self, languages: Languages, engine: str, threads: int) -> None:
        """Raises ``GlassformerError`` for a model that cannot be loaded."""
        self.languages, self._engine, self._threads = languages, engine, threads
        self._pool, self._calls = _open_pool(), 0
        self.load()

    def load(self) -> None:
        """Load all models, again where they were loaded before, and let each translate once."""
        found = {one.name: self._open(one.path) for one in self.languages.models}
        self.engines = {name: each.translate(["Hello."])[0].engine for name, each in found.items()}
        self._translators = found

    def _open(self, run: Path) -> Translator:
        engine = self._engine
        if engine == "auto":
            has_both = find_fast_device("cpu", None) is not None
            engine = (known_engine(RunDirectory(run), "cpu") or _find_engine(run)) if has_both else "torch"
        if engine == "torch":
            return Translator.load(run, device="cpu", engine=engine)
        fast, tokenizers, config = open_engine(RunDirectory(run), "cpu", None, self._threads)
        fast.workers = 1  # for a batch: the threads have batches of their own
        confidence = Confidence.read(RunDirectory(run).confidence_file)
        return Translator.from_engine(fast, tokenizers, config.decode, confidence, config.languages)

    def translate(self, key: BatchKey, requests: Sequence[Request]) -> list[Translation]:
        """The translations of a batch."""
        translator = self._translators[key.model]
        return translator.translate_requests(requests, _options(translator, key), check_content=True)

    async def call(self, function: Callable[..., T], key: BatchKey, *given: Any, seconds: float) -> T:
        """Call a function of this module in the process with PyTorch; ``HTTPError`` if too much waits there."""
        if self._calls >= _MAX_CALLS:
            raise HTTPError(429, f"Slowdown: {self._calls} texts wait for PyTorch", retry_after=5)
        path = next(one.path for one in self.languages.models if one.name == key.model)
        self._calls += 1
        try:
            future = self._pool.submit(_run, partial(function, path, key, *given), time.time() + seconds)
            return await asyncio.wrap_future(future)
        except BrokenProcessPool:  # killed, or out of memory
            self._pool = _open_pool()
            raise HTTPError(503, "the process with PyTorch ended; ask again", retry_after=1) from None
        finally:
            self._calls -= 1

    def close(self) -> None:
        """End the process with PyTorch, whatever it does."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()


def _options(translator: Translator, key: BatchKey) -> DecodeConfig:
    return translator.config.with_changes({"keep_codes": True, "copy_wordless": True, **dict(key.changes)})


def _find_engine(run: Path) -> str:
    """The engine for a run, by a process that compares both and ends, and its PyTorch with it."""
    with _open_pool() as pool:
        return pool.submit(_compare_engines, run).result()


# What follows runs in the process with PyTorch.


def _open_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)


def _begin() -> None:
    os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)


def _run(call: Callable[[], T], until: float) -> T:
    """What a call returns; ``HTTPError`` once its time has passed."""
    try:
        with searching_while(lambda: time.time() < until):
            return call()
    except SearchStoppedError:
        raise HTTPError(503, "the time limit of the request has passed", retry_after=1) from None


def _compare_engines(run: Path) -> str:
    (found,) = Translator.load(run, device="cpu", engine="auto", workers=1).translate(["Hello."])
    return found.engine


@lru_cache(8)
def _load(run: Path) -> Translator:
    return Translator.load(run, device="cpu", engine="torch")


def translate(
    run: Path, key: BatchKey, requests: Sequence[Request], terms: Terms, attention: bool
) -> list[Translation]:
    """The translations by PyTorch, with the terms of a glossary; with links if ``attention``."""
    translator = _load(run)
    options, review = _options(translator, key), None
    if terms:
        glossary = Glossary([Term(src, forms) for src, forms in terms])
        review = partial(glossary.review, translator=translator, options=options)
    found = translator.translate_requests(
        requests, options, attention=attention, check_content=not attention, review=review
    )
    return [one.without_attention() for one in found]


def _walk(run: Path, key: BatchKey, text: str) -> tuple[Any, str, Any]:
    """The walk of a sentence, the sentence as it is read, and its best output."""
    from glassformer.explain.walks import walk

    ours = _load(run)
    options = ours.config.with_changes(dict(key.changes))
    translator = Translator(ours.model, ours.src_tokenizer, ours.tgt_tokenizer, options)
    made = walk(translator, [text])
    (source,) = made.sentences.sources
    return made, source, translator.translate([source])[0].hypotheses[0]


def explain(run: Path, key: BatchKey, text: str, values: bool) -> dict[str, Any]:
    """A sentence, its translation and its walk, with every number if ``values``."""
    made, source, best = _walk(run, key, text)
    found = best.to_mapping(attention=False)
    answer = {"source": source} | {name: found[name] for name in _OF_EXPLANATION}
    return answer | {"engine": "torch", "walk": made.to_mapping(values=values)}


def make_page(run: Path, key: BatchKey, text: str, number: str, ids: Sequence[int]) -> str:
    """The page of answer ``number``, which had these ids; ``InputError`` if the model writes others now."""
    made, _, best = _walk(run, key, text)
    if best.ids != ids:
        raise InputError(f"{number}: the model has changed since that answer. Ask for a new one.")
    return str(made.to_page(run=f"{key.model}, answer {number}", run_option=None))
