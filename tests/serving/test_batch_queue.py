"""The queue: texts of all clients join, long ones do not hold up short ones, and nothing is forgotten."""

import asyncio
import time
from typing import Any

import pytest

from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.scheduling.batch_queue import MAX_BATCH, Batch, BatchKey, BatchQueue, Job

DOCUMENT, PLAIN = BatchKey("en-de", "translate"), BatchKey("en-de", "translate", (("beam", 2),))


def queue_of(**changes: Any) -> BatchQueue:
    return BatchQueue(ServeConfig(**{"patience_ms": 0.0, **changes}))


def texts_of(batch: Batch | None) -> list[str]:
    assert batch is not None
    return [sentence.text for sentence in batch]


def put(queue: BatchQueue, texts: str, key: BatchKey = DOCUMENT, job: Job | None = None, tokens: int = 5) -> Job:
    job = job or queue.open(10)
    queue.put(key, [(text, tokens) for text in texts], job)
    return job


def test_texts_of_several_clients_form_one_batch_and_other_batch_keys_another():
    async def run() -> None:
        queue = queue_of()
        put(queue, "a")
        put(queue, "x", PLAIN)
        put(queue, "b")
        assert texts_of(await queue.take()) == ["a", "b"]
        assert texts_of(await queue.take()) == ["x"]
        assert queue.waiting == 0

    asyncio.run(run())


def test_a_batch_has_a_limit_of_tokens_and_of_texts():
    async def run() -> None:
        queue = queue_of(batch_tokens=10)
        job = put(queue, "abc")
        assert texts_of(await queue.take()) == ["a", "b"]
        put(queue, "d", job=job, tokens=100)
        assert texts_of(await queue.take()) == ["c"]
        assert texts_of(await queue.take()) == ["d"]
        queue = queue_of()
        put(queue, "e" * 100, tokens=1)
        assert len(texts_of(await queue.take())) == MAX_BATCH

    asyncio.run(run())


def test_a_short_text_that_comes_later_goes_before_the_end_of_a_long_one():
    async def run() -> None:
        queue = queue_of(batch_tokens=100)
        put(queue, "abcdefghijklmnop", tokens=50)
        assert texts_of(await queue.take()) == ["a", "b"]
        put(queue, "s")
        assert "s" in texts_of(await queue.take())

    asyncio.run(run())


def test_a_long_text_is_not_put_off_for_ever():
    async def run() -> None:
        queue = queue_of(batch_tokens=10)
        long = put(queue, "ab", tokens=10)
        taken = list[str]()
        began = time.monotonic()
        while "b" not in taken:
            put(queue, "s", tokens=10)
            taken += texts_of(await queue.take())
            await asyncio.sleep(0.001)
            assert time.monotonic() - began < 5
        assert long.tokens == 20

    asyncio.run(run())


def test_what_a_client_that_left_has_waiting_is_dropped():
    async def run() -> None:
        queue = queue_of()
        gone = put(queue, "abc")
        put(queue, "x")
        queue.close_job(gone)
        assert queue.waiting == 1
        assert texts_of(await queue.take()) == ["x"]
        with pytest.raises(HTTPError):
            put(queue, "d", job=gone)

    asyncio.run(run())


def test_what_is_too_late_is_refused_before_it_is_translated():
    async def run() -> None:
        queue = queue_of()
        late = queue.open(-1)
        (future,) = queue.put(DOCUMENT, [("a", 1)], late)
        put(queue, "b")
        assert texts_of(await queue.take()) == ["b"]
        with pytest.raises(HTTPError, match="time limit") as refused:
            await future
        assert refused.value.status == 503

    asyncio.run(run())


def test_a_full_queue_says_when_to_come_again():
    async def run() -> None:
        queue = queue_of(queue=3)
        queue.seconds_per_token = 0.5
        put(queue, "abcd")
        with pytest.raises(HTTPError, match="Slowdown: 4 texts are waiting") as refused:
            queue.open(10)
        assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "10"})

    asyncio.run(run())


def test_a_batch_whose_worker_ended_is_tried_once_more_and_then_refused():
    async def run() -> None:
        queue = queue_of()
        job = queue.open(10)
        (future,) = queue.put(DOCUMENT, [("a", 1)], job)
        batch = await queue.take()
        assert batch is not None
        queue.put_back(batch)
        again = await queue.take()
        assert texts_of(again) == ["a"]
        assert again is not None
        queue.put_back(again)
        with pytest.raises(HTTPError, match="a worker ended"):
            await future

    asyncio.run(run())


def test_a_queue_that_is_closed_refuses_what_waits_and_wakes_the_workers():
    async def run() -> None:
        queue = queue_of()
        job = queue.open(10)
        taker = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        (future,) = queue.put(DOCUMENT, [("a", 1)], job)
        assert texts_of(await taker) == ["a"]
        (future,) = queue.put(DOCUMENT, [("b", 1)], job)
        queue.close()
        assert await queue.take() is None
        with pytest.raises(HTTPError, match="stops"):
            await future
        with pytest.raises(HTTPError, match="stops"):
            queue.open(10)

    asyncio.run(run())


def test_two_idle_workers_share_what_waits():
    async def run() -> None:
        queue = queue_of()
        takers = [asyncio.create_task(queue.take()) for _ in range(2)]
        await asyncio.sleep(0)
        put(queue, "abcd")
        assert sorted(len(texts_of(batch)) for batch in await asyncio.gather(*takers)) == [2, 2]

    asyncio.run(run())


def test_a_lone_client_never_waits_and_others_only_until_a_worker_has_its_share_of_them():
    async def run() -> None:
        queue = queue_of(patience_ms=60_000.0)
        first = put(queue, "a")
        assert texts_of(await queue.take()) == ["a"]
        queue.open(10)
        put(queue, "b", job=first)
        taker = asyncio.create_task(queue.take())
        await asyncio.sleep(0.01)
        assert not taker.done()
        put(queue, "c", job=first)
        assert texts_of(await taker) == ["b", "c"]
        shared = BatchQueue(ServeConfig(patience_ms=60_000.0), workers=2)
        job, _ = shared.open(10), shared.open(10)
        put(shared, "d", job=job)
        assert texts_of(await shared.take()) == ["d"]

    asyncio.run(run())


def test_of_idle_workers_the_one_that_worked_last_is_first():
    async def run() -> None:
        queue = queue_of()
        first, last = (asyncio.create_task(queue.take()) for _ in range(2))
        await asyncio.sleep(0)
        put(queue, "a")
        assert texts_of(await last) == ["a"]
        assert not first.done()
        queue.close()
        assert await first is None

    asyncio.run(run())
