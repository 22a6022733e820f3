"""Batches: sentences of all clients wait in one queue, and threads translate those of one kind together.

A sentence's rank is its arrival time, plus a delay for each token of its request before it: a short text does not
wait for all of a long one, and no text waits for ever.
"""

import ctypes
import math
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.metrics import Metrics

MAX_BATCH = 32  # sentences; more are not faster
_SECONDS_PER_TOKEN = 0.002  # of the delay in a sentence's rank
_CHARACTERS_PER_TOKEN = 4
_PATIENCE = 0.1  # share of the time of a batch that a thread waits for more texts
_DECAY = 0.9  # of the usual number of texts that come together, after each batch
_CLOSING_S = 5.0
_TRIM_S = 10.0  # between two trims of memory; one takes about 20 ms


class BatchKey(NamedTuple):
    """What all sentences of a batch share: the model, and changes to its decode settings."""

    model: str
    changes: tuple[tuple[str, Any], ...] = ()


Translate = Callable[[BatchKey, Sequence[Request]], list[Translation]]


@dataclass(eq=False)
class _Waiting:
    """One sentence and the future of its translation."""

    key: BatchKey
    request: Request
    tokens: int
    rank: float  # sentences with a lower one are first
    future: Future[Translation] = field(default_factory=Future)
    came: float = field(default_factory=time.monotonic)


def count_tokens(text: str) -> int:
    """An estimate of a text's tokens."""
    return 1 + len(text) // _CHARACTERS_PER_TOKEN


def trim_memory() -> None:
    """Return free memory to the system: batches of many shapes fragment it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Batcher:
    """Translates in threads of its own until it is closed."""

    def __init__(self, translate: Translate, threads: int, config: ServeConfig, metrics: Metrics) -> None:
        self._translate, self._config, self._metrics = translate, config, metrics
        self._waiting = list[_Waiting]()  # by rank
        self._changed = threading.Condition()
        self._is_closed = False
        self._usual = 0.0  # texts that come together: clients come again when they have their answers
        self._idle = self._running = 0  # threads, and texts that others translate
        self._seconds_per_batch, self._trimmed = 0.0, time.monotonic()  # running mean; when memory was trimmed
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many sentences wait."""
        return len(self._waiting)

    @property
    def is_working(self) -> bool:
        """Whether something translates what waits."""
        return not self._is_closed and all(thread.is_alive() for thread in self._threads)

    def check_room(self) -> None:
        """Raise ``HTTPError`` if too much is waiting."""
        if self.waiting >= self._config.queue:
            seconds = self._seconds_per_batch * self.waiting / MAX_BATCH / len(self._threads)
            raise HTTPError(429, f"Slowdown: {self.waiting:,} texts are waiting", retry_after=seconds)

    def put(self, key: BatchKey, requests: Sequence[Request], done: int = 0) -> list[Future[Translation]]:
        """The future translation of each; one that is cancelled is not translated.

        ``done`` are the tokens of the same text that came before.
        """
        now, added = time.monotonic(), list[_Waiting]()
        for request in requests:
            tokens = count_tokens(request.source)
            added.append(_Waiting(key, request, tokens, now + done * _SECONDS_PER_TOKEN))
            done += tokens
        with self._changed:
            for one in added:
                insort(self._waiting, one, key=lambda other: other.rank)
            self._changed.notify(len(added))
        return [one.future for one in added]

    def close(self) -> None:
        """End the threads once they have done their batches; what waits is cancelled."""
        with self._changed:
            self._is_closed = True
            for one in self._waiting:
                one.future.cancel()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_CLOSING_S)

    def _work(self) -> None:
        while batch := self._take():
            began = time.monotonic()
            for one in batch:
                self._metrics.queue_seconds.observe(began - one.came)
            for one, answer in zip(batch, self._answers(batch), strict=True):
                if isinstance(answer, Exception):
                    one.future.set_exception(answer)
                else:
                    one.future.set_result(answer)
            seconds = time.monotonic() - began
            self._metrics.batch_seconds.observe(seconds)
            self._metrics.batch_texts.observe(len(batch))
            with self._changed:
                self._running -= len(batch)
                self._seconds_per_batch += 0.1 * (seconds - self._seconds_per_batch)
            if time.monotonic() - self._trimmed > _TRIM_S:
                self._trimmed = time.monotonic()
                trim_memory()

    def _answers(self, batch: Sequence[_Waiting]) -> Iterator[Translation | Exception]:
        """A translation or an error for each; an error in one text of a batch is the answer to that text alone."""
        try:
            yield from self._translate(batch[0].key, [one.request for one in batch])
        except Exception as error:
            if len(batch) == 1:
                yield error
            else:
                yield from (answer for one in batch for answer in self._answers([one]))

    def _take(self) -> list[_Waiting]:
        """The next batch, once there is one; none when the batcher is closed."""
        with self._changed:
            idle_since, self._idle = time.monotonic(), self._idle + 1
            try:
                while not self._is_closed:
                    self._waiting = [one for one in self._waiting if not one.future.cancelled()]
                    same = [one for one in self._waiting if one.key == self._waiting[0].key]
                    seconds = self._patience(same, idle_since) if same else None
                    if seconds is None or seconds > 0:
                        self._changed.wait(seconds)
                    elif batch := self._pop(same):
                        return batch
                return []
            finally:
                self._idle -= 1

    def _patience(self, same: Sequence[_Waiting], idle_since: float) -> float:
        """Seconds to wait for more sentences, while fewer wait than this thread's share of all clients."""
        share = min(MAX_BATCH, math.ceil(self._usual / len(self._threads)))
        tokens = sum(one.tokens for one in same[:MAX_BATCH])
        if len(same) >= share or tokens >= self._config.batch_tokens:
            return 0.0
        seconds = max(self._config.patience_ms / 1000, _PATIENCE * min(1.0, self._seconds_per_batch))
        return max(idle_since, same[0].came) + seconds - time.monotonic()

    def _pop(self, same: Sequence[_Waiting]) -> list[_Waiting]:
        batch, tokens = list[_Waiting](), 0
        most = min(MAX_BATCH, math.ceil(len(same) / self._idle))  # idle threads share
        for one in same:
            if len(batch) == most or (batch and tokens + one.tokens > self._config.batch_tokens):
                break
            self._waiting.remove(one)
            if one.future.set_running_or_notify_cancel():
                batch.append(one)
                tokens += one.tokens
        self._changed.notify()  # another thread, of what is left
        self._running += len(batch)
        self._usual = max(self._running + len(self._waiting), _DECAY * self._usual)
        return batch
