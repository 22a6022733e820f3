"""Saves checkpoints of a series, and is killed or read meanwhile: ``python saving.py DIRECTORY`` reports it as JSON.

Each process is forked, so that many kills take seconds.
"""

import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

from glassformer.checkpoint import (
    checkpoints,
    newest_valid,
    prune,
    read_chosen,
    read_json,
    read_tensors,
    recover_interrupted,
    save_checkpoint,
    update_number,
)


def save(series: Path, number: int, update: int) -> None:
    """A checkpoint whose every part says which one it is."""
    weight = torch.full((300, 100), float(number))
    prune(save_checkpoint(series, update, {"model": {"weight": weight}}, {"number": number}), keep=1)


def start(work) -> int:
    """Call ``work`` in a new process."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def kill_at_event(event: int) -> None:
    """From now on, this process is killed right before it opens, renames, makes or deletes something so often."""
    seen = 0

    def count(name: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if name in {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.scandir"}:
            seen += 1
            if seen == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def fail(message: str) -> None:
    raise AssertionError(message)


def read(checkpoint: Path) -> tuple[int, int]:
    return read_json(checkpoint / "state.json")["number"], int(
        read_tensors(checkpoint, "model")["weight"].unique().item()
    )


def kill_at_each_event_while_a_checkpoint_is_replaced(series: Path) -> dict[str, int]:
    """The same update is saved again: whenever the process is killed, there is a whole one, the old or the new."""
    save(series, 0, update=5)
    number, killed, standing_in = 0, True, 0
    while killed:
        number += 1

        def save_and_die(number: int = number) -> None:
            kill_at_event(number)
            save(series, number, update=5)

        killed = os.waitpid(start(save_and_die), 0)[1] == signal.SIGKILL
        found = newest_valid(series, fail)
        assert found is not None
        standing_in += found.name.startswith(".")
        before = read(found)
        assert before[0] == before[1]
        recover_interrupted(series)
        assert [path.name for path in series.iterdir()] == ["update-00000005"]
        assert read(checkpoints(series)[0]) == before
    return {"kills": number - 1, "standing_in": standing_in}


def read_while_a_training_saves(series: Path) -> dict[str, int]:
    """Each reading finds one whole checkpoint, and no warning."""
    save(series, 1, update=1)

    def save_without_end() -> None:
        for number in itertools.count(2):
            save(series, number, update=number)
            time.sleep(0.002)

    child = start(save_without_end)
    try:
        for _ in range(200):
            number, weight = read_chosen(lambda: newest_valid(series, fail) or fail("none"), read)
            assert number == weight
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {"readings": 200, "saved": update_number(checkpoints(series)[-1])}


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    killed = kill_at_each_event_while_a_checkpoint_is_replaced(place / "final")
    sys.stdout.write(json.dumps({**killed, **read_while_a_training_saves(place / "best")}))
