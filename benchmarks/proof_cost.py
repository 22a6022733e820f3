"""What `trace --verify` costs today beside an earlier commit: processor seconds of whole commands, taking turns.

    python benchmarks/proof_cost.py dd35302 [--rounds 3] [--walks pass search update] [--json FILE]

Each commit is checked out into a directory of its own and verifies walks of one sentence through its own bundled
model, with one thread. Uncommitted changes do not count: "today" is HEAD.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from decoding_revisions import git
from machine import machine
from smoke import new_parser, parse_options, write_json

SENTENCE, TARGET = "I love you, too.", "Ich liebe dich auch."
WALKS = {
    "pass": [],
    "search": ["--generate", "--beam", "4"],
    "update": ["--training", "--tgt", TARGET],
}


def processor_seconds(tree: Path, words: list[str]) -> float:
    """What one command takes, with all of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "glassformer", "trace", SENTENCE, *words, "--verify"],
        check=True, cwd=tree, stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("earlier", nargs="?", default="dd35302", help="a commit (dd35302)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--walks", nargs="+", choices=WALKS, default=list(WALKS))
    options = parse_options(parser, "HEAD --rounds 1 --walks pass", kept="proof_cost.json")
    commits = {"earlier": git("rev-parse", options.earlier), "today": git("rev-parse", "HEAD")}
    seconds: dict[str, dict[str, list[float]]] = {walk: {name: [] for name in commits} for walk in options.walks}
    with tempfile.TemporaryDirectory() as scratch:
        trees = {name: Path(scratch) / name for name in commits}
        try:
            for name, commit in commits.items():
                git("worktree", "add", "--detach", str(trees[name]), commit)
            for _ in range(options.rounds):
                for walk, of_commits in seconds.items():
                    for name, tree in trees.items():
                        of_commits[name].append(processor_seconds(tree, WALKS[walk]))
        finally:
            for tree in trees.values():
                git("worktree", "remove", "--force", str(tree))
    for walk, of_commits in seconds.items():
        middle = {name: median(found) for name, found in of_commits.items()}
        ratio = middle["today"] / middle["earlier"]
        print(f"{walk}: {middle['earlier']:.1f} s earlier, {middle['today']:.1f} s today, {ratio:.2f} times")
    write_json(options.json, {"machine": machine(), "commits": commits, "seconds": seconds})


if __name__ == "__main__":
    main()
