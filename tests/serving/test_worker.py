"""A worker's loop: what it answers, and that its memory does not grow with the shapes of its batches."""

import asyncio
import platform
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from glassformer.bundled import BUNDLED
from glassformer.serving.config import ServeConfig
from glassformer.serving.languages import read_models
from glassformer.serving.middleware import Metrics
from glassformer.serving.scheduling import model_workers, worker
from glassformer.serving.scheduling.batch_queue import Batch, BatchKey
from glassformer.serving.scheduling.model_workers import ModelWorkers
from glassformer.serving.scheduling.worker import answer_messages, trim_memory


def resident_bytes() -> int:
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library holds memory in another way")
def test_holes_in_memory_are_given_back():
    blocks = [bytes(60_000) for _ in range(600)]
    del blocks[::2]
    before = resident_bytes()
    trim_memory()
    assert before - resident_bytes() > 10_000_000
    assert len(blocks) == 300


def test_memory_is_given_back_between_batches(monkeypatch):
    calls = list[str]()
    monkeypatch.setattr(worker, "trim_memory", lambda: calls.append("trimmed"))
    monkeypatch.setattr(worker, "_TRIM_S", 0.0)
    ours, theirs = Pipe()
    for message in ("a", "b"):
        ours.send(message)
    answers = []

    def answer(message: str) -> str:
        answers.append(message)
        if message == "b":
            ours.close()
        return message

    answer_messages(theirs, answer)
    assert (answers, calls) == (["a", "b"], ["trimmed"])


class FakeProcess:
    """Fails once in a way that nobody foresaw."""

    failures = iter([KeyError("a text of a client")])

    def __init__(self, plan: Any) -> None:
        pass

    async def load(self) -> dict[str, str]:
        return {"en-de": "torch"}

    async def translate(self, batch: Batch) -> list[str]:
        for failure in self.failures:
            raise failure
        return [sentence.text.upper() for sentence in batch]

    def kill(self) -> None:
        pass


def test_an_error_that_nobody_foresaw_ends_a_worker_and_not_the_translating(monkeypatch, caplog):
    monkeypatch.setattr(model_workers, "WorkerProcess", FakeProcess)

    async def run() -> str:
        running = await ModelWorkers(read_models([BUNDLED], []), ServeConfig(workers=1), Metrics()).start()
        (future,) = running.queue.put(BatchKey("en-de", "translate"), [("a", 1)], running.queue.open(10))
        try:
            return str(await asyncio.wait_for(future, 10))
        finally:
            running.kill()

    assert asyncio.run(run()) == "A"
    assert "a worker ended: KeyError in test_worker.py" in caplog.text
    assert "client" not in caplog.text
