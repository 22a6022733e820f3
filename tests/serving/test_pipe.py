"""A pipe between a server and its worker: messages of any size, either way, and an end in the middle of one."""

import asyncio
import os
import pickle
import struct
import threading
import time
from collections.abc import Callable, Coroutine
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import pytest
import uvloop

from glassformer.errors import WorkerError
from glassformer.serving.scheduling.pipe import AsyncPipe

LARGE = "x" * 5_000_000
STARTED = "started"
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    def run_in(coroutine: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(coroutine)

    return run_in


@pytest.fixture
def ends():
    """Both ends of a pipe; the other one is closed in the end, so that no thread waits."""
    ours, theirs = Pipe()
    yield ours, theirs
    theirs.close()


def echo(theirs: Connection) -> None:
    """Answer each message with itself, as a worker answers batches, until "end"."""
    while (message := theirs.recv()) != "end":
        theirs.send(message)


def test_messages_of_several_megabytes_pass_both_ways(run, ends):
    async def talk() -> None:
        pipe = AsyncPipe(ends[0])
        pipe.start_reading()
        for message in ["a", LARGE, ["b", LARGE], "c"]:
            await pipe.send(message, 10)
            assert await pipe.receive(10) == message
        await pipe.send("end", 10)

    worker = threading.Thread(target=echo, args=ends[1:])
    worker.start()
    run(talk())
    worker.join()


def test_a_stop_arrives_while_a_large_answer_is_on_its_way(run, ends):
    def answer() -> None:
        ends[1].send(STARTED)
        ends[1].send(LARGE)

    async def talk() -> None:
        pipe = AsyncPipe(ends[0])
        worker = threading.Thread(target=answer)
        worker.start()
        await asyncio.sleep(0.05)  # the pipe is full
        await pipe.send("stop", 10)
        pipe.start_reading()
        assert await pipe.receive(10) == STARTED
        assert await pipe.receive(10) == LARGE
        assert await pipe.receive(0.01) is None
        worker.join()
        assert ends[1].recv() == "stop"

    run(talk())


def test_a_worker_that_takes_nothing_blocks_only_its_own_batch(run, ends):
    async def talk() -> None:
        pipe = AsyncPipe(ends[0])
        sending = asyncio.create_task(pipe.send(LARGE, 0.2))
        began = time.monotonic()
        await asyncio.sleep(0.01)
        assert time.monotonic() - began < 0.15  # others are served
        with pytest.raises(WorkerError):
            await sending
        ends[1].close()  # as killing the worker does

    run(talk())


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        struct.pack("!i", 1000),
        struct.pack("!i", 5_000_000) + b"x" * 100_000,
        struct.pack("!i", 1) + pickle.dumps("not a whole pickle")[:1],
    ],
    ids=["nothing", "a length", "half a message", "no message"],
)
def test_what_ends_in_the_middle_of_a_message_is_an_end(run, ends, sent):
    async def talk() -> None:
        pipe = AsyncPipe(ends[0])
        pipe.start_reading()
        os.write(ends[1].fileno(), sent)
        ends[1].close()
        with pytest.raises(WorkerError):
            await pipe.receive(10)
        with pytest.raises(WorkerError):
            await pipe.send(LARGE, 10)

    run(talk())


def test_an_answer_that_comes_after_the_loop_has_ended_is_dropped(run, ends):
    async def talk() -> None:
        AsyncPipe(ends[0]).start_reading()

    before = set(threading.enumerate())
    run(talk())
    ends[1].send(LARGE)
    ends[1].close()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()
