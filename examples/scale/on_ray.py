"""Translate many files with Ray: a few tasks that are given all shards, each on a node with free cores.

    pip install ray '.[fast]'
    python examples/scale/on_ray.py --run runs/first --input 'shards/*.txt' --out translated --tasks 8 --cores 4

The shards, the run and ``--out`` lie on a file system that all nodes see. A task takes the shards that no other has,
so Ray may start a task that it lost again.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import ray


def translate(command: list[str]) -> str:
    """What one process says at its end."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stderr.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="the run; the bundled one by default")
    parser.add_argument("--input", required=True, help="a pattern of files")
    parser.add_argument("--out", required=True, type=Path, help="the directory for the translations")
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each task")
    options = parser.parse_args()
    ray.init()
    command = [sys.executable, "-m", "glassformer", "translate", "--engine", "ctranslate2"]
    command += ["--input", options.input, "--out", str(options.out.absolute()), "--workers", str(options.cores)]
    command += ["--run", options.run] if options.run else []
    task = ray.remote(num_cpus=options.cores, max_retries=3, retry_exceptions=True)(translate)
    waiting = [task.remote(command) for _ in range(options.tasks)]
    while waiting:
        (done,), waiting = ray.wait(waiting)
        print(ray.get(done))


if __name__ == "__main__":
    main()
