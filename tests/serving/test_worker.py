"""A worker's loop: what it answers, and that its memory does not grow with the shapes of its batches."""

import platform
from multiprocessing import Pipe
from pathlib import Path

import pytest

from glassformer.serving.scheduling import worker
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

    answer_messages(theirs, "ready", answer)
    assert (answers, calls) == (["a", "b"], ["trimmed"])
