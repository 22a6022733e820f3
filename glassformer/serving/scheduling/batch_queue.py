"""The queue of sentences that wait for a worker: those of all clients join in batches.

A sentence's rank is the time at which it came, and later for each token that its request has before it: a short text
does not wait for all of a long one, and no text waits for ever. One event loop uses a queue; there are no locks.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Literal, NamedTuple

from glassformer.serving.config import ServeConfig
from glassformer.serving.refusal import Refusal

MAX_BATCH = 32  # sentences; the engines are not faster with more
_SECONDS_PER_TOKEN = 0.002  # that a sentence ranks behind others for each token of its request before it
_CHARACTERS_PER_TOKEN = 4
_PATIENCE = 0.1  # how long a worker waits for more texts: this share of the time of a batch,
_MAX_PATIENCE_S = 0.1  # but no longer
_FORGET = 0.9  # what is left of the usual number of clients after each batch with fewer


class Recipe(NamedTuple):
    """What the sentences of a batch have in common."""

    model: str
    kind: Literal["document", "plain", "stream", "explain"]
    """Whether codes are kept and terms required, as in a file, or a text goes to the model as it is."""
    changes: tuple[tuple[str, Any], ...] = ()  # of the model's own decode settings
    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()  # of a glossary: what each is, and what may stand for it
    attention: bool = False

    @property
    def max_batch(self) -> int:
        """How many sentences may be translated at once."""
        return 1 if self.kind in ("stream", "explain") else MAX_BATCH


@dataclass(eq=False)
class Job:
    """One client's request while it is handled."""

    deadline: float  # by ``time.monotonic``
    tokens: int = 0  # of the sentences that it has put into the queue
    is_gone: bool = False  # whether nobody waits for the answer any more
    pieces: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)  # what is streamed of its translation


@dataclass(eq=False)
class Item:
    """One sentence, with the future of its result."""

    text: Any
    tokens: int
    job: Job
    future: asyncio.Future[Any]
    came: float = field(default_factory=time.monotonic)
    tries: int = 0

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, unless there is an answer or nobody waits for one."""
        if not (self.future.done() or self.job.is_gone):
            self.future.set_exception(refusal)


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentences that one worker translates at once."""

    recipe: Recipe
    items: list[Item]


def count_tokens(text: str) -> int:
    """About how many tokens a text has, without a tokenizer."""
    return 1 + len(text) // _CHARACTERS_PER_TOKEN


class BatchQueue:
    """Takes sentences of jobs and gives batches; refuses what is too much."""

    def __init__(self, config: ServeConfig, workers: int = 1) -> None:
        self._config, self._workers = config, workers
        self._heaps = defaultdict[Recipe, list[tuple[float, int, Item]]](list)
        self._numbers = count()
        self.open_jobs = 0
        self.is_draining = False  # no further job is opened
        self.is_closed = False  # nothing is translated any more
        self._idle = list[asyncio.Future[None]]()  # workers that wait
        self._usual_jobs = 0.0  # that are open at a time: their clients come again when they have their answers
        self.seconds_per_token, self._seconds_per_batch = 0.001, 0.0  # as measured of the last batches

    @property
    def waiting(self) -> int:
        """How many texts wait."""
        return sum(map(len, self._heaps.values()))

    def open(self, seconds: float) -> Job:
        """A job that ends after ``seconds``; ``Refusal`` if too much is waiting, or the server stops."""
        if self.is_draining:
            raise self.stopping()
        if (waiting := self.waiting) >= self._config.queue:
            tokens = sum(item.tokens for heap in self._heaps.values() for _, _, item in heap)
            message = f"Slowdown: {waiting:,} texts are waiting"
            raise Refusal(429, message, retry_after=tokens * self.seconds_per_token)
        self.open_jobs += 1
        self._usual_jobs = max(self._usual_jobs, self.open_jobs)
        return Job(time.monotonic() + seconds)

    def close_job(self, job: Job) -> None:
        """Forget a job and what it has waiting."""
        self.open_jobs -= 1
        job.is_gone = True
        for recipe, heap in list(self._heaps.items()):
            heap[:] = [entry for entry in heap if entry[2].job is not job]
            heapify(heap)
            if not heap:
                del self._heaps[recipe]

    def put(self, recipe: Recipe, texts: Sequence[tuple[Any, int]], job: Job) -> list[asyncio.Future[Any]]:
        """The future result of each text, given with its tokens; ``Refusal`` if nothing is translated any more."""
        if self.is_closed or job.is_gone:
            raise self.stopping()
        loop = asyncio.get_running_loop()
        items = [Item(text, tokens, job, loop.create_future()) for text, tokens in texts]
        for item in items:
            self._push(recipe, item, item.came + job.tokens * _SECONDS_PER_TOKEN)
            job.tokens += item.tokens
        return [item.future for item in items]

    def put_back(self, batch: Batch) -> None:
        """Let a batch whose worker ended be tried once more, before all others; refuse what was tried twice.

        A text whose first pieces were sent is not tried again.
        """
        for item in batch.items:
            item.tries += 1
            if self.is_closed or item.tries > 1 or batch.recipe.kind == "stream":
                item.refuse(Refusal(503, "a worker ended while it translated this text; ask again", retry_after=1))
            elif not (item.job.is_gone or item.future.done()):
                self._push(batch.recipe, item, 0.0)

    def _push(self, recipe: Recipe, item: Item, rank: float) -> None:
        heappush(self._heaps[recipe], (rank, next(self._numbers), item))
        self._wake_workers()

    async def take(self) -> Batch | None:
        """The next batch, once there is one; None when the queue is closed."""
        idle_since = time.monotonic()
        while not self.is_closed:
            recipe = min(self._heaps, key=lambda one: self._heaps[one][0], default=None)
            if (seconds := self._patience(recipe, idle_since)) is None or seconds > 0:
                await self._wait_for_change(seconds)
            elif recipe is not None and (items := self._pop(recipe)):
                return Batch(recipe, items)
        return None

    async def _wait_for_change(self, seconds: float | None) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._idle.remove(waiter)

    def _wake_workers(self) -> None:
        for waiter in reversed(self._idle):  # first the one that worked last: its caches hold the model
            if not waiter.done():
                waiter.set_result(None)

    def _patience(self, recipe: Recipe | None, idle_since: float) -> float | None:
        """The seconds that a worker waits for more sentences, while fewer wait than its share of all clients."""
        if recipe is None:
            return None
        heap, share = self._heaps[recipe], min(recipe.max_batch, math.ceil(self._usual_jobs / self._workers))
        tokens = sum(item.tokens for _, _, item in heap[:MAX_BATCH])
        if len(heap) >= share or tokens >= self._config.batch_tokens:
            return 0.0
        seconds = max(self._config.patience_ms / 1000, min(_MAX_PATIENCE_S, _PATIENCE * self._seconds_per_batch))
        return max(idle_since, heap[0][2].came) + seconds - time.monotonic()

    def _pop(self, recipe: Recipe) -> list[Item]:
        heap, items, tokens = self._heaps[recipe], list[Item](), 0
        most = min(recipe.max_batch, -(-len(heap) // (1 + len(self._idle))))  # idle workers share
        while heap and len(items) < most:
            if items and tokens + heap[0][2].tokens > self._config.batch_tokens:
                break
            item = heappop(heap)[2]
            if time.monotonic() > item.job.deadline:
                item.refuse(Refusal(503, "the time limit of the request has passed", retry_after=1))
            elif not item.future.done():
                items.append(item)
                tokens += item.tokens
        if not heap:
            del self._heaps[recipe]
        return items

    def measure(self, batch: Batch, seconds: float) -> None:
        """Learn how long a batch took."""
        tokens = sum(item.tokens for item in batch.items)
        self._usual_jobs = max(self.open_jobs, _FORGET * self._usual_jobs)
        self._seconds_per_batch += 0.1 * (seconds - self._seconds_per_batch)
        self.seconds_per_token += 0.1 * (seconds / max(1, tokens) - self.seconds_per_token)

    def close(self) -> None:
        """Refuse what waits, and whatever comes; wake the workers, which find nothing."""
        self.is_draining = self.is_closed = True
        for heap in self._heaps.values():
            for _, _, item in heap:
                item.refuse(self.stopping())
        self._heaps.clear()
        self._wake_workers()

    def stopping(self) -> Refusal:
        """The message to a client that is not served any more."""
        return Refusal(503, "the server stops; ask another one, or ask again soon", retry_after=self._config.drain_s)
