"""Time and memory to prepare a large corpus, to order two epochs of it and to train on it.

    python benchmarks/large_corpus.py [--pairs 1000000 5000000 20000000] [--updates 40] [--json FILE]

The pairs are synthetic: sentences of 3 to 19 words, each word drawn from 20,000 by Zipf's law and translated by a
word of its own. The files are written to a temporary directory (some 0.3 GB for a million pairs) and removed. The
work runs in a separate process. Ten times a second the memory of it and of its children is read: anonymous memory,
and memory-mapped file pages, which the system can reclaim. Wall-clock seconds depend on other load of the machine;
processor seconds hardly do. A new result replaces an earlier one of the same size in the JSON; the others stay.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine
from rich.console import Console
from smoke import new_parser, parse_options, write_json

from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig
from glassformer.text.corpus.prepare import PrepareProgress, prepare
from glassformer.text.corpus.workers import available_cores
from glassformer.training.reporting.display import PlainDisplay
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import BatchStream, FileSource
from glassformer.training.train import train

WORDS = 20_000
LETTERS = np.array(list("etaoinshrdlucmfwypvbgk"))
BEYOND_THE_END = 2**40
SETTINGS: dict[str, Any] = {
    "model": {"name": "tiny", "d_model": 64, "n_encoder_layers": 1, "n_decoder_layers": 1},
    "text": {"vocab_size": 8000},
    "train": {"batch_tokens": 2048, "log_every": 10, "valid_translations": 20, "validate_every": 10**6},
}
MB = 2**20


def words(seed: int) -> np.ndarray[Any, Any]:
    """Different random words of 2 to 8 letters, in random order."""
    random = np.random.default_rng(seed)
    found: set[str] = set()
    while len(found) < WORDS:
        found.add("".join(random.choice(LETTERS, size=random.integers(2, 9))))
    return random.permutation(np.array(sorted(found), dtype=object))


def sentences(pairs: int) -> Iterator[tuple[str, str]]:
    """Blocks of lines: the sources and their translations."""
    random, src, tgt = np.random.default_rng(1), words(2), words(3)
    shares = np.cumsum(1 / np.arange(1, WORDS + 1))
    for start in range(0, pairs, 10_000):
        ends = np.cumsum(random.integers(3, 20, size=min(10_000, pairs - start)))
        drawn = np.searchsorted(shares, random.random(ends[-1]) * shares[-1])
        yield tuple(  # type: ignore[misc]
            "".join(" ".join(part) + "\n" for part in np.split(side[drawn], ends[:-1])) for side in (src, tgt)
        )


def write_corpus(directory: Path, pairs: int) -> None:
    with (directory / "corpus.src").open("w") as src, (directory / "corpus.tgt").open("w") as tgt:
        for src_lines, tgt_lines in sentences(pairs):
            src.write(src_lines)
            tgt.write(tgt_lines)


def work(directory: Path, updates: int) -> None:
    """The measured work; announces each stage on standard output."""
    begun: list[str] = []

    def begin(stage: str) -> None:
        if stage not in begun:
            begun.append(stage)
            print(json.dumps({"stage": stage}), flush=True)

    def on_prepare(progress: PrepareProgress, *, due: bool) -> None:
        begin(progress.stage)

    begin("fingerprint")
    source, run = FileSource(directory / "corpus.src", directory / "corpus.tgt"), RunDirectory(directory / "run")
    config = RunConfig.from_mapping({**SETTINGS, "train": {**SETTINGS["train"], "max_updates": updates}})
    mark = source.fingerprint()
    begin("pairs read")
    run.create()
    with run.lock():  # as a training begins
        text = prepare(source.pairs, None, config.text, run.text, source=mark, report=tell, on_progress=on_prepare)
    for epoch in (1, 2):
        begin(f"order of epoch {epoch}")
        BatchStream(text.train, config.train, epoch, BEYOND_THE_END)
    begin("training")
    train(TrainRequest(run.path, source, config), PlainDisplay(Console(stderr=True)))
    begin("end")


def tell(line: str) -> None:
    """Print to standard error, because standard output announces the stages."""
    print(line, file=sys.stderr, flush=True)


def family(pid: int) -> list[int]:
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(place.parent.name)] = int(place.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has ended since
    members = [pid]
    for member in members:
        members += [child for child, parent in parents.items() if parent == member]
    return members


def processor_s(pid: int) -> float:
    try:
        parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> dict[str, float]:
    """Resident memory of a process in MB: anonymous, and file pages."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {"RssAnon": 0.0, "RssFile": 0.0}
    values = dict(line.split(":", 1) for line in lines)
    return {name: int(values.get(name, "0").split()[0]) / 1024 for name in ("RssAnon", "RssFile")}


class Stages:
    """Peak memory, seconds and processor time of each stage of a process and its descendants."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._stage, self._began = "start", time.monotonic()
        self._worked: dict[int, float] = {}  # processor seconds of each process when last read
        self._worked_before = 0.0
        self.peaks: dict[str, dict[str, float]] = {}

    def watch(self) -> dict[str, dict[str, float]]:
        """Measure until the process ends; returns the stages by name."""
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        while self._process.poll() is None:
            self._listen()
            self._look()
            time.sleep(0.1)
        self._listen()
        if self._process.returncode:
            raise SystemExit(f"the measured process ended with {self._process.returncode}")
        return {name: peak for name, peak in self.peaks.items() if "seconds" in peak}

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            now = time.monotonic()
            self._look()
            worked = sum(self._worked.values())
            self._peaks().update(seconds=now - self._began, processor_s=worked - self._worked_before)
            self._stage, self._began, self._worked_before = json.loads(line)["stage"], now, worked

    def _peaks(self) -> dict[str, float]:
        return self.peaks.setdefault(self._stage, {"held_mb": 0.0, "of_files_mb": 0.0, "all_processes_mb": 0.0})

    def _look(self) -> None:
        members = family(self._process.pid)
        self._worked |= {member: max(self._worked.get(member, 0.0), processor_s(member)) for member in members}
        found = [memory(member) for member in members]
        now = {
            "held_mb": found[0]["RssAnon"],
            "of_files_mb": found[0]["RssFile"],
            "all_processes_mb": sum(one["RssAnon"] for one in found),
        }
        peaks = self._peaks()
        for name, value in now.items():
            peaks[name] = max(peaks[name], value)


def measure(pairs: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        directory = Path(scratch)
        began = time.monotonic()
        itself = [sys.executable, __file__, "--directory", scratch, "--updates", str(options.updates)]
        subprocess.run([*itself, "--write", str(pairs)], check=True)
        made = time.monotonic() - began
        with subprocess.Popen([*itself, "--work"], stdout=subprocess.PIPE, text=True) as process:
            stages = Stages(process).watch()
        sizes = {
            "text_mb": sum(path.stat().st_size for path in directory.glob("corpus.*")) / MB,
            "encoded_mb": sum(path.stat().st_size for path in (directory / "run" / "text" / "train").iterdir()) / MB,
        }
    told = {"pairs": pairs, "processes": available_cores(), "made_in_s": made, **sizes, "updates": options.updates}
    return {**told, "stages": stages}


def show(result: dict[str, Any]) -> None:
    print(f"\n{result['pairs']:,} pairs: {result['text_mb']:,.0f} MB of text, {result['encoded_mb']:,.0f} MB encoded")
    print(
        f"{'stage':18} {'seconds':>9} {'processor':>9} {'pairs/s':>9} {'held MB':>9} {'all processes':>14} "
        f"{'of files':>9}"
    )
    for stage, peak in result["stages"].items():
        rate = f"{result['pairs'] / max(peak['seconds'], 0.1):,.0f}" if stage != "training" else ""
        print(
            f"{stage:18} {peak['seconds']:9,.1f} {peak['processor_s']:9,.1f} {rate:>9} {peak['held_mb']:9,.0f} "
            f"{peak['all_processes_mb']:14,.0f} {peak['of_files_mb']:9,.0f}"
        )


def record(path: Path, results: list[dict[str, Any]]) -> None:
    """Add the results to the file, in place of earlier ones of the same sizes."""
    kept = json.loads(path.read_text())["results"] if path.exists() else []
    measured = {result["pairs"] for result in results}
    kept = [result for result in kept if result["pairs"] not in measured]
    write_json(path, {"results": sorted([*kept, *results], key=lambda one: one["pairs"])})


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--scratch", type=Path, help="where to put the temporary directory")
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parse_options(parser, "--pairs 5000 --updates 2 --scratch {scratch}", kept="large_corpus.json")
    if options.write:
        write_corpus(options.directory, options.write)
        return
    if options.work:
        work(options.directory, options.updates)
        return
    for pairs in options.pairs:
        result = {**measure(pairs, options), "load": os.getloadavg()[1], "machine": machine()}
        show(result)
        record(options.json, [result])
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
