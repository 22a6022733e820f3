"""The command line, as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

# Runs the command with a clock that stands still while other processes have the core.
PROCESSOR_TIME = "import time; time.monotonic = time.process_time; from glassformer.cli.main import main; main()"


def glassformer(*words: str | Path, threads: int | None = None, processor_time: bool = False) -> str:
    """The standard output of one command, which must succeed."""
    start = ["-c", PROCESSOR_TIME] if processor_time else ["-m", "glassformer"]
    environment = dict(os.environ) if threads is None else {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, *start, *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
