"""A small run and commands on it, each in a forked process that may be killed, starved or misled; and the count.

A fork of a process that has PyTorch loaded starts at once, so that thousands of commands take minutes.
"""

import fcntl
import io
import itertools
import json
import math
import os
import re
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch
from kill import SETTINGS, write_corpus

from glassformer.checkpoint import checkpoints
from glassformer.cli.main import main as glassformer

LONGEST_S, LONGEST_CPU_S = 600, 60  # a command that takes longer hangs
MAX_MEMORY_MB = 3000  # and one that takes more has no end either
MAX_OUTPUT = 2**20  # bytes that a pipe holds
STOPPING = (signal.SIGINT, signal.SIGTERM)
EXAMPLES_KEPT = 5
TEXTS = ["abc", "fade", "bad cafe", ""]
UPDATES, MORE_UPDATES = 4, 8
# What a command says when it goes on in spite of damage.
REMARK = re.compile(
    r"warning|skipped|damaged|missing|does not match|anew|stands in|again with|made again", re.IGNORECASE
)


class Ended(NamedTuple):
    """How a command ended: its exit status, or minus the signal that killed it; what it printed, whether it hung."""

    status: int
    out: str
    err: str
    hung: bool
    seconds: float = 0.0  # of the processor
    megabytes: float = 0.0  # the most that it held

    @property
    def has_traceback(self) -> bool:
        """Whether a person saw a fault of ours."""
        crashed = self.status in {70, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE}
        return crashed or any("Traceback (most recent call last)" in text for text in (self.out, self.err))

    @property
    def remarks(self) -> bool:
        """Whether the command said that something was wrong."""
        return self.status != 0 or bool(REMARK.search(self.err) or REMARK.search(self.out))


@dataclass
class Tally:
    """What became of the injections of one kind of fault."""

    fault: str
    injections: int = 0
    silent: int = 0
    tracebacks: int = 0
    hangs: int = 0
    skipped: str = ""
    examples: list[str] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)  # of single injections: what each one took, and what it said

    @property
    def survived(self) -> int:
        """Injections after which nothing was lost and nothing wrong was given out unsaid."""
        return self.injections - self.silent - self.tracebacks - self.hangs

    def count(self, what: str, ended: Ended, *, silent: str | None) -> None:
        """One injection; ``silent`` says what went wrong without a word, None if nothing did."""
        self.injections += 1
        if ended.hung:
            self.hangs += 1
            self._keep(f"hang: {what}: {ended.err[-300:]}")
        elif ended.has_traceback:
            self.tracebacks += 1
            self._keep(f"traceback: {what}: status {ended.status}: {ended.err[-900:]}")
        elif silent is not None:
            self.silent += 1
            self._keep(f"silent: {what}: {silent}: {ended.err[-300:]}")

    def _keep(self, example: str) -> None:
        if len(self.examples) < EXAMPLES_KEPT:
            self.examples.append(example)


class Clock:
    """The time that one kind of fault may take."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds."""
        return self._end - time.monotonic()

    def while_time(self, items: Iterator) -> Iterator:
        """The items, at least one of them, as long as there is time."""
        for item in items:
            yield item
            if self.left() < 0:
                return


class Laboratory:
    """A text, a trained run, what its commands print, and what the same training leads to when nothing happens."""

    def __init__(self, place: Path, seed: int) -> None:
        self.seed, self.reading = seed, {
            "translate": ("translate", *TEXTS), "score": ("score", "--src", "test.src", "--tgt", "test.tgt"),
            "evaluate": ("evaluate", "--src", "test.src", "--ref", "test.tgt"), "trace": ("trace", "abc"),
        }  # fmt: skip
        self._use(place)
        torch.set_num_threads(1)
        self.src, self.tgt = write_corpus(place)
        (place / "test.src").write_text("\n".join(TEXTS[:3]) + "\n")
        (place / "test.tgt").write_text("\n".join(text[::-1] for text in TEXTS[:3]) + "\n")
        self._load_all()
        self._train(self.run, UPDATES)
        shutil.copytree(self.run, self.whole)
        self._train(self.whole, MORE_UPDATES)
        began = time.monotonic()
        self._train(place / "timed", MORE_UPDATES)
        self.training_s = time.monotonic() - began
        self.printed = {name: self.read(name, self.run).out for name in self.reading}
        assert all(self.printed.values())

    def _load_all(self) -> None:
        run = self.place / "loaded"
        for words in (self.train(run, UPDATES), ["average"], *self.reading.values()):
            said = self.carry_out_here(*words, *(["--run", str(run)] if words[0] != "train" else []))
            assert "error" not in said, said
        shutil.rmtree(run)

    def carry_out_here(self, *words: str) -> str:
        """Carry out a command in this process, so that its forks have what it imports; what it says of errors."""
        before = os.getcwd()
        os.chdir(self.place)
        sys.argv = ["glassformer", *words]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said, suppress(SystemExit):
            glassformer()
        os.chdir(before)
        return said.getvalue()

    def _use(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self.place, self.random = place, Random(self.seed)
        self.run, self.whole = place / "trained", place / "whole"

    def _train(self, run: Path, updates: int) -> None:
        ended = self.command(*self.train(run, updates))
        assert ended.status == 0, ended.err

    def move(self, place: Path) -> None:
        """Use another directory from now on, with copies of what this one holds."""
        shutil.copytree(self.place, place)
        self._use(place)

    def train(self, run: Path, updates: int = MORE_UPDATES) -> list[str]:
        """The command that trains in ``run``."""
        settings = {section: {**values} for section, values in SETTINGS.items()}
        settings["train"] |= {"max_updates": updates, "cooldown": 0.0, "average_last": 2}
        changes = [
            f"{section}.{key}={value}" for section, values in settings.items() for key, value in values.items()
        ]
        return ["train", "--src", str(self.src), "--tgt", str(self.tgt), "--run", str(run),
                *(word for change in changes for word in ("--set", change))]  # fmt: skip

    def read(self, name: str, run: Path) -> Ended:
        """Use a run by one of the commands that only read it."""
        ended = self.command(*self.reading[name], "--run", str(run))
        return ended._replace(out=ended.out.replace(str(run), "RUN"))

    def weights(self, run: Path) -> dict[str, bytes]:
        """The last weights of a run: those to resume from, and the final model."""
        found = {series: checkpoints(run / series) for series in ("latest", "final")}
        return {series: (each[-1] / "model.safetensors").read_bytes() for series, each in found.items() if each}

    def differs(self, run: Path) -> str | None:
        """None if a run has come to the weights of the whole training, else what is another."""
        expected, found = self.weights(self.whole), self.weights(run)
        different = [series for series in expected if found.get(series) != expected[series]]
        return f"other weights in {', '.join(different)}" if different else None

    def finish(self, run: Path) -> tuple[Ended, str | None]:
        """Repeat the command that trains; what is wrong with where it leads to."""
        ended = self.command(*self.train(run))
        if ended.status != 0:
            return ended, f"it does not resume: {ended.err[-300:]}"
        return ended, self.differs(run)

    def copy(self) -> Path:
        """A copy of the trained run, which may be spoiled; the one before is gone."""
        spoiled = self.place / "spoiled"
        shutil.rmtree(spoiled, ignore_errors=True)
        return Path(shutil.copytree(self.run, spoiled, symlinks=True))

    def command(self, *words: str, during: Callable[[int], None] | None = None, **conditions) -> Ended:
        """Carry out ``glassformer WORDS``; ``during`` is called with the process, which has started."""
        process = Command(words, self.place, **conditions)
        if during is not None:
            during(process.pid)
        return process.wait()


class Command:
    """A command in a process of its own. What it prints goes to pipes, which no limit of files concerns."""

    def __init__(
        self,
        words: Sequence[str],
        place: Path,
        *,
        prepare: Callable[[], None] | None = None,
        stdout: int | Path | None = None,
    ) -> None:
        """``prepare`` is called in the process first; ``stdout`` is a descriptor or a file instead of what is kept."""
        self._pipes = [os.pipe() for _ in range(2)]
        for _, end in self._pipes:
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, MAX_OUTPUT)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        self.pid = os.fork()
        if self.pid == 0:
            self._carry_out(words, place, prepare, stdout)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for _, end in self._pipes:
            os.close(end)

    def _carry_out(self, words: Sequence[str], place: Path, prepare, stdout: int | Path | None) -> None:
        status = 1
        try:
            os.chdir(place)
            out, err = (end for _, end in self._pipes)
            if stdout is not None:
                writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                out = os.open(stdout, writing) if isinstance(stdout, Path) else stdout
            for number, source in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
                os.dup2(source, number)
            sys.stdin, sys.stdout, sys.stderr = (
                os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate("rww")
            )
            if prepare is not None:
                prepare()
            sys.argv = ["glassformer", *words]
            status = carry_out()
        finally:
            os._exit(status)

    def wait(self) -> Ended:
        """How it ended; it is killed if it takes too long."""
        handle = os.pidfd_open(self.pid)
        written: dict[int, list[bytes]] = {end: [] for end, _ in self._pipes}
        hung = not self._read_until_it_ends(handle, written)
        if hung:
            os.kill(self.pid, signal.SIGKILL)
        os.close(handle)
        _, status, usage = os.wait4(self.pid, 0)
        hung = hung or usage.ru_maxrss > 1024 * MAX_MEMORY_MB or usage.ru_utime + usage.ru_stime > LONGEST_CPU_S
        out, err = (b"".join([*pieces, self._read(end)]).decode(errors="replace") for end, pieces in written.items())
        seconds = usage.ru_utime + usage.ru_stime
        return Ended(os.waitstatus_to_exitcode(status), out, err, hung, seconds, usage.ru_maxrss / 1024)

    @staticmethod
    def _read_until_it_ends(handle: int, written: dict[int, list[bytes]]) -> bool:
        """Keep what it writes, lest a full pipe stops it; False if it takes too long."""
        poller, deadline = select.poll(), time.monotonic() + LONGEST_S
        for each in (handle, *written):
            poller.register(each, select.POLLIN)
        while ready := dict(poller.poll(max(0, 1000 * (deadline - time.monotonic())))):
            if handle in ready:
                return True
            for end in ready:
                written[end].append(os.read(end, MAX_OUTPUT))
                if not written[end][-1]:
                    poller.unregister(end)
        return False

    @staticmethod
    def _read(end: int) -> bytes:
        """What is left."""
        os.set_blocking(end, False)  # a process that the command left behind may hold the other end
        with open(end, "rb") as stream:
            return stream.read() or b""


def carry_out() -> int:
    """The exit status of the command line that sys.argv says; only it meets signals, as in a process of its own."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        try:
            glassformer()
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # before the command began, where Python has not yet called it either
        status = -signal.SIGINT % 256
    else:
        status = 0
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return status or 120  # as Python itself ends
    return status


def limit_file_size(size: int) -> Callable[[], None]:
    """What makes a process unable to write larger files."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def evenly(count: int) -> Iterator[int]:
    """0 to ``count - 1``, each once, in an order that is spread evenly wherever it is broken off."""
    step = next(step for step in itertools.count(max(1, int(0.618 * count))) if math.gcd(step, count) == 1)
    return (number * step % count for number in range(count))


def send(process: int, number: int) -> None:
    """A signal, unless the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def write_tallies(path: Path, tallies: list[Tally]) -> None:
    """Keep the counts for the process that makes the table."""
    path.write_text(json.dumps([tally.__dict__ for tally in tallies]))


def read_tallies(path: Path) -> list[Tally]:
    """The counts that ``write_tallies`` kept."""
    return [Tally(**each) for each in json.loads(path.read_text())]
