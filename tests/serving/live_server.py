"""A server in a process of its own, at a port of this machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

HOUSE = {"q": "The house is small.", "source": "en", "target": "de"}
GERMAN = "Das Haus ist klein."


@dataclass
class Live:
    """A server that was started, and what it wrote after its first line, once it has ended."""

    url: str
    process: "subprocess.Popen[str]"
    log: str = field(default="", init=False)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def translate(self, **more: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/translate", json=HOUSE | more, timeout=60)

    def waiting(self) -> float:
        """The texts that wait in its queue."""
        text = httpx.get(f"{self.url}/metrics").text
        return float(text.partition("\nglassformer_waiting_texts ")[2].partition("\n")[0])

    def processes(self) -> list[int]:
        """The processes that the server has started and that run Python."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = path.read_text().rpartition(")")
                command = path.with_name("cmdline").read_text()
            except OSError:
                continue
            if int(rest.split()[1]) == self.process.pid and "spawn_main" in command:
                found.append(int(name.split()[0]))
        return found

    def stop(self, sign: int = signal.SIGTERM) -> int:
        """Tell it to end, and wait; its exit code."""
        self.process.send_signal(sign)
        assert self.process.stderr is not None
        self.log = self.process.stderr.read()
        return self.process.wait(timeout=60)


@contextmanager
def live_server(*options: str) -> Iterator[Live]:
    command = [sys.executable, "-m", "glassformer", "serve", "--port", "0", *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("http://"), line + process.stderr.read()
        yield Live(line.partition(": ")[0], process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=60)
        process.stderr.close()


def wait_for(condition: Any, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
