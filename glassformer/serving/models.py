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
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from glassformer.decoding import Translator
from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.engines.auto_engine import find_fast_device, known_engine
from glassformer.decoding.engines.ctranslate2_run import open_engine
from glassformer.decoding.engines.engine import Engine
from glassformer.decoding.loading import make_torch_engine
from glassformer.decoding.search.job import SearchStoppedError, searching_while
from glassformer.run_directory import RunDirectory
from glassformer.serving.batcher import BatchedEngine, Batcher
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.languages import Languages

T = TypeVar("T")
_OF_EXPLANATION = ("text", "tokens", "ids", "log_prob", "score", "truncated")
_MAX_CALLS = 8  # of the process with PyTorch
_NICE = 10  # its priority: below that of translations


class Models:
    """Translators by the directories of their runs; ``engines`` names what they run on."""

    def __init__(self, runs: Languages, engine: str, batcher: Batcher) -> None:
        """Load all models, and let each translate once; ``GlassformerError`` for one that cannot be loaded."""
        self.batcher, self._engine, self._pool, self._calls = batcher, engine, _open_pool(), 0
        self.translators = {one.path: self._open(RunDirectory(one.path)) for one in runs.models}
        self.engines = {each.translate(["Hello."])[0].engine for each in self.translators.values()}
        self.languages = runs.with_targets({path: each.targets for path, each in self.translators.items()})

    def _open(self, run: RunDirectory) -> Translator:
        if self._choose_engine(run) == "torch":
            loaded = run.load("cpu")
            engine: Any = make_torch_engine([loaded.model.eval()], None, None)
            tokenizers, config = (loaded.src_tokenizer, loaded.tgt_tokenizer), loaded.config
        else:
            engine, tokenizers, config = open_engine(run, "cpu", None, len(self.batcher.threads))
        confidence, shared = Confidence.read(run.confidence_file), BatchedEngine(engine, self.batcher)
        return Translator.from_engine(cast("Engine", shared), tokenizers, config.decode, confidence, config.languages)

    def _choose_engine(self, run: RunDirectory) -> str:
        """The engine for a run; if it is not known yet, a process compares both and ends, its PyTorch with it."""
        if self._engine != "auto":
            return self._engine
        if find_fast_device("cpu", None) is None:
            return "torch"
        with _open_pool() as pool:
            return known_engine(run, "cpu") or pool.submit(_compare_engines, run.path).result()

    async def call(self, function: Callable[..., T], run: Path, *given: Any, seconds: float) -> T:
        """Call a function with the translator of a run by PyTorch; ``HTTPError`` if too much waits for it."""
        if self._calls >= _MAX_CALLS:
            raise HTTPError(429, f"Slowdown: {self._calls} texts wait for PyTorch", retry_after=5)
        self._calls += 1
        try:
            future = self._pool.submit(_run, run, function, given, time.time() + seconds)
            return await asyncio.wrap_future(future)
        except BrokenProcessPool:  # killed, or out of memory
            self._pool = _open_pool()
            raise HTTPError(503, "the process with PyTorch ended; ask again", retry_after=1) from None
        finally:
            self._calls -= 1

    def close(self) -> None:
        """Refuse what waits, and end all threads and the process with PyTorch, whatever it does."""
        self.batcher.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()


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


def _run(run: Path, function: Callable[..., T], given: Sequence[Any], until: float) -> T:
    """What a function returns; ``HTTPError`` once its time has passed."""
    try:
        with searching_while(lambda: time.time() < until):
            return function(_load(run), *given)
    except SearchStoppedError:
        raise HTTPError(503, "the time limit of the request has passed", retry_after=1) from None


@lru_cache(8)
def _load(run: Path) -> Translator:
    return Translator.load(run, device="cpu", engine="torch")


def _compare_engines(run: Path) -> str:
    (found,) = Translator.load(run, device="cpu", engine="auto", workers=1).translate(["Hello."])
    return found.engine


def _walk(translator: Translator, text: str, beam: int | None) -> tuple[Any, Translator]:
    """The walk of a sentence, and what it was made by."""
    from glassformer.explain.walks import walk

    options = translator.config if beam is None else translator.config.with_changes({"beam": beam})
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    by = Translator(translator.model, *tokenizers, options)
    return walk(by, [text]), by


def explain(translator: Translator, text: str, beam: int | None, values: bool) -> dict[str, Any]:
    """A sentence, its translation and its walk, with every number if ``values``."""
    made, by = _walk(translator, text, beam)
    (source,) = made.sentences.sources
    found = by.translate([source])[0].hypotheses[0].to_mapping(attention=False)
    answer = {"source": source} | {name: found[name] for name in _OF_EXPLANATION}
    return answer | {"engine": "torch", "walk": made.to_mapping(values=values)}


def make_page(translator: Translator, text: str, beam: int | None, run: str) -> str:
    """The living page of a sentence; ``run`` names the model on it."""
    made, _ = _walk(translator, text, beam)
    return str(made.to_page(run=run, run_option=None))
