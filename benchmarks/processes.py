"""A process that answers requests: a line of JSON on its standard input, a line on its standard output."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class Answerer:
    """A Python script that was started once and waits; it ends with its standard input."""

    def __init__(self, script: str | Path, *words: str, cwd: Path | None = None, **environment: str) -> None:
        self._command = [sys.executable, str(script), *words]
        self._process = subprocess.Popen(
            self._command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip

    def send(self, request: Any) -> None:
        """Ask, without waiting."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """The next answer; ends this process if the other one has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self._command[1:])}: ended before it answered; see its message above.")
        return json.loads(line)

    def ask(self, request: Any) -> Any:
        """Send one request and wait for its answer."""
        self.send(request)
        return self.receive()

    def close(self) -> None:
        """Close its standard input and wait for its end."""
        self._process.communicate()
