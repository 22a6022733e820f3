"""A process's place among others, as far as one process by itself can see it; the rest is in training and decoding."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.world import ALONE, join_world

RESTARTED = """
import os, signal, sys
from pathlib import Path
from glassformer.world import join_world

start, made = os.environ["TORCHELASTIC_RESTART_COUNT"], Path(sys.argv[1])
with join_world() as world:
    assert world.sum(1.0 + world.rank) == [3.0]
    with world.first_process_first():
        if world.is_first:
            made.write_text(start)
        assert made.read_text() == start, "went ahead of the first process"
    if start != "2" and world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    found = world.gather(f"from process {world.rank}")
if world.is_first:
    print(start, found)
"""


def launched(patch: pytest.MonkeyPatch, **places: str) -> None:
    for name, value in {
        "TORCHELASTIC_RUN_ID": "1",
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        **places,
    }.items():
        patch.setenv(name, value)


def test_alone_all_that_is_shared_is_ones_own() -> None:
    with join_world() as world:
        assert world is ALONE
        assert world.is_first
        assert world.all_gather(2.0, 3.0) == [[2.0, 3.0]]
        assert world.sum(2.0, 3.0) == [2.0, 3.0]
        assert world.broadcast(lambda: "made") == "made"
        assert world.gather("mine") == ["mine"]
        assert world.device("cuda:1") == "cuda:1"


def test_torchrun_says_which_process_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch)
    world = join_world()
    assert (world.rank, world.size, world.local_rank, world.is_first) == (5, 8, 1, False)


def test_one_process_of_torchrun_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    assert join_world() is ALONE


def test_a_world_size_that_torchrun_did_not_set_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler may set RANK and WORLD_SIZE in every shell; to wait for others there would be a hang."""
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "1")
    assert join_world() is ALONE


def test_each_process_takes_the_gpu_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch)
    world = join_world()
    assert world.device("cpu") == "cpu"
    with pytest.raises(ConfigError, match="found 'cuda:0' for 8 processes"):
        world.device("cuda:0")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert world.device("auto") == world.device("cuda") == "cuda:1"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(ConfigError, match="found 1 GPUs for more processes"):
        world.device("auto")


@pytest.mark.slow
def test_what_a_killed_start_left_with_torchrun_misleads_no_restart(tmp_path: Path) -> None:
    """torchrun keeps one store for all restarts: addresses and signs in it may be those of processes long ended."""
    script = tmp_path / "restarted.py"
    script.write_text(RESTARTED)
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2",
            script, tmp_path / "made",
        ],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 ['from process 0', 'from process 1']\n"
