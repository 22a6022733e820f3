"""The queue of sentences that wait for a worker; batches hold sentences of several clients.

A sentence's rank is its arrival time, plus a delay for each token of its request before it: a short text does not
wait for all of a long one, and no text waits for ever. One event loop uses a queue; there are no locks.
"""

import asyncio
import math
import time
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError

MAX_BATCH = 32  # sentences; more are not faster
_SECONDS_PER_TOKEN = 0.002  # of the delay in a sentence's rank
_CHARACTERS_PER_TOKEN = 4
_PATIENCE = 0.1  # share of the time of a batch that a worker waits for more texts
_MAX_PATIENCE_S = 0.1
_DECAY = 0.9  # of the usual number of open jobs, after each batch


class BatchKey(NamedTuple):
    """What all sentences of a batch share."""

    model: str
    kind: Literal["translate", "stream", "explain"]
    changes: tuple[tuple[str, Any], ...] = ()  # to the model's decode settings
    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()  # of a glossary, each with its accepted translations
    attention: bool = False

    @property
    def max_batch(self) -> int:
        """How many sentences may be translated at once."""
        return 1 if self.kind in ("stream", "explain") else MAX_BATCH


@dataclass(eq=False)
class Job:
    """One client's request while it is handled."""

    deadline: float  # by ``time.monotonic``
    tokens: int = 0  # of its sentences in the queue so far
    is_gone: bool = False  # nobody waits for the answer any more
    pieces: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)  # of a streamed translation


@dataclass(eq=False)
class QueuedSentence:
    """One sentence and the future of its result."""

    key: BatchKey
    text: Any
    tokens: int
    job: Job
    future: asyncio.Future[Any]
    rank: float  # sentences with a lower one are first
    came: float = field(default_factory=time.monotonic)
    tries: int = 0

    def fail(self, error: HTTPError) -> None:
        """Answer with an error, unless there is an answer or nobody waits for one."""
        if not (self.future.done() or self.job.is_gone):
            self.future.set_exception(error)


Batch = list[QueuedSentence]  # with the same key: a worker translates them together


def count_tokens(text: str) -> int:
    """An estimate of a text's tokens."""
    return 1 + len(text) // _CHARACTERS_PER_TOKEN


class BatchQueue:
    """Takes sentences of jobs and gives batches."""

    def __init__(self, config: ServeConfig, workers: int = 1) -> None:
        self._config, self._workers = config, workers
        self._waiting = Batch()  # by rank
        self.open_jobs = 0
        self.is_draining = False  # no further job is opened
        self.is_closed = False  # nothing is translated any more
        self._idle = list[asyncio.Future[None]]()  # waiting workers
        self._usual_jobs = 0.0  # open at a time: clients come again when they have their answers
        self.seconds_per_token, self._seconds_per_batch = 0.001, 0.0  # running means

    @property
    def waiting(self) -> int:
        """How many texts wait."""
        return len(self._waiting)

    def open(self, seconds: float) -> Job:
        """A job that ends after ``seconds``; ``HTTPError`` if too much is waiting, or the server stops."""
        if self.is_draining:
            raise self.stopping()
        if self.waiting >= self._config.queue:
            seconds = self.seconds_per_token * sum(one.tokens for one in self._waiting)
            raise HTTPError(429, f"Slowdown: {self.waiting:,} texts are waiting", retry_after=seconds)
        self.open_jobs += 1
        self._usual_jobs = max(self._usual_jobs, self.open_jobs)
        return Job(time.monotonic() + seconds)

    def close_job(self, job: Job) -> None:
        """Forget a job and what it has waiting."""
        self.open_jobs -= 1
        job.is_gone = True
        self._waiting = [one for one in self._waiting if one.job is not job]

    def put(self, key: BatchKey, texts: Sequence[tuple[Any, int]], job: Job) -> list[asyncio.Future[Any]]:
        """The future result of each text, given with its tokens; ``HTTPError`` if the server stops."""
        if self.is_closed or job.is_gone:
            raise self.stopping()
        now, futures = time.monotonic(), list[asyncio.Future[Any]]()
        for text, tokens in texts:
            futures.append(asyncio.get_running_loop().create_future())
            rank = now + job.tokens * _SECONDS_PER_TOKEN
            self._push(QueuedSentence(key, text, tokens, job, futures[-1], rank))
            job.tokens += tokens
        return futures

    def put_back(self, batch: Batch) -> None:
        """Try a batch whose worker ended once more, before all others; a streamed text is not tried again."""
        for sentence in batch:
            sentence.tries += 1
            if self.is_closed or sentence.tries > 1 or sentence.key.kind == "stream":
                message = "a worker ended while it translated this text; ask again"
                sentence.fail(HTTPError(503, message, retry_after=1))
            elif not (sentence.job.is_gone or sentence.future.done()):
                sentence.rank = 0.0
                self._push(sentence)

    def _push(self, sentence: QueuedSentence) -> None:
        insort(self._waiting, sentence, key=lambda one: one.rank)
        self._wake_workers()

    async def take(self) -> Batch | None:
        """The next batch, once there is one; None when the queue is closed."""
        idle_since = time.monotonic()
        while not self.is_closed:
            same = [one for one in self._waiting if one.key == self._waiting[0].key]
            seconds = self._patience(same, idle_since) if same else None
            if seconds is None or seconds > 0:
                await self._wait_for_change(seconds)
            elif batch := self._pop(same):
                return batch
        return None

    async def _wait_for_change(self, seconds: float | None) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            self._idle.remove(waiter)

    def _wake_workers(self) -> None:
        for waiter in reversed(self._idle):  # the one that worked last first: its caches are warm
            if not waiter.done():
                waiter.set_result(None)

    def _patience(self, same: Batch, idle_since: float) -> float:
        """Seconds to wait for more sentences, while fewer wait than the worker's share of all clients."""
        share = min(same[0].key.max_batch, math.ceil(self._usual_jobs / self._workers))
        tokens = sum(one.tokens for one in same[:MAX_BATCH])
        if len(same) >= share or tokens >= self._config.batch_tokens:
            return 0.0
        seconds = max(self._config.patience_ms / 1000, min(_MAX_PATIENCE_S, _PATIENCE * self._seconds_per_batch))
        return max(idle_since, same[0].came) + seconds - time.monotonic()

    def _pop(self, same: Batch) -> Batch:
        batch, tokens = Batch(), 0
        most = min(same[0].key.max_batch, math.ceil(len(same) / (1 + len(self._idle))))  # idle workers share
        for sentence in same:
            if len(batch) == most or (batch and tokens + sentence.tokens > self._config.batch_tokens):
                break
            self._waiting.remove(sentence)
            if time.monotonic() > sentence.job.deadline:
                sentence.fail(HTTPError(503, "the time limit of the request has passed", retry_after=1))
            elif not sentence.future.done():
                batch.append(sentence)
                tokens += sentence.tokens
        return batch

    def measure(self, batch: Batch, seconds: float) -> None:
        """Learn how long a batch took."""
        tokens = sum(one.tokens for one in batch)
        self._usual_jobs = max(self.open_jobs, _DECAY * self._usual_jobs)
        self._seconds_per_batch += 0.1 * (seconds - self._seconds_per_batch)
        self.seconds_per_token += 0.1 * (seconds / max(1, tokens) - self.seconds_per_token)

    def close(self) -> None:
        """Refuse what waits and what comes; idle workers get None."""
        self.is_draining = self.is_closed = True
        for sentence in self._waiting:
            sentence.fail(self.stopping())
        self._waiting.clear()
        self._wake_workers()

    def stopping(self) -> HTTPError:
        """The error for a client that is not served any more."""
        message = "the server stops; ask another one, or ask again soon"
        return HTTPError(503, message, retry_after=self._config.drain_s)
