"""``glassformer`` started by torchrun, as a user starts it, with gloo on the CPU."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST_S = 300


def free_endpoint() -> str:
    """A host and a port that nobody listens on, unless somebody takes it at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def start(processes: int, *arguments: str | Path, restarts: int = 0, endpoint: str = "") -> "subprocess.Popen[str]":
    """torchrun with its workers; one of two machines where an ``endpoint`` is named."""
    place = ["--standalone"]
    if endpoint:
        place = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--rdzv-id=test"]
    return subprocess.Popen(
        [
            sys.executable, "-m", "torch.distributed.run", *place, f"--nproc-per-node={processes}",
            f"--max-restarts={restarts}", "-m", "--", "glassformer", *map(str, arguments),
        ],
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200",
            "PYTHONFAULTHANDLER": "1",  # if PyTorch itself aborts, the log says where
        },
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def end(started: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Its exit code, standard output and standard error; a hang fails."""
    try:
        out, err = started.communicate(timeout=LONGEST_S)
    finally:
        started.kill()
    return started.returncode, out, err


def torchrun(processes: int, *arguments: str | Path) -> str:
    """What it printed, once it has ended well.

    The C library once aborted a process ("double free"); the cause was not found. Such a run is continued, as a user
    would continue it, and must give the same.
    """
    code, out, err = end(start(processes, *arguments))
    if "(SIGABRT)" in err:
        sys.stderr.write(err)
        code, out, err = end(start(processes, *arguments))
    assert code == 0, f"{out}\n{err}"
    return out


def workers(started: "subprocess.Popen[str]") -> list[int]:
    """The process numbers of torchrun's workers."""
    tasks = Path(f"/proc/{started.pid}/task").glob("*/children")
    children = [int(pid) for task in tasks for pid in task.read_text().split()]
    return [pid for pid in children if b"glassformer" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_until(holds: Callable[[], bool]) -> None:
    """Look again and again; what never comes to hold fails."""
    ends = time.monotonic() + LONGEST_S
    while not holds():
        assert time.monotonic() < ends, "it never came to hold"
        time.sleep(0.05)
