"""Kills, signals, readers that leave, and power cuts: the same command leads to the same weights."""

import itertools
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kill import SETTINGS, at_events, kill_at
from laboratory import Clock, Command, Ended, Laboratory, Tally, evenly, send
from power_cut import Disk, Trainer

from glassformer.settings import RunConfig

# How a command may end after SIGINT and SIGTERM.
GENTLE = {0, 130, 143, -signal.SIGINT, -signal.SIGTERM, -signal.SIGINT % 256}
SECOND_SIGNAL_S = 0.3


def kill_at_random_moments(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """One training after the other, each killed until it ends by itself."""
    tally, run = Tally("kill -9 at random moments"), laboratory.place / "killed"
    for _ in clock.while_time(itertools.count()):
        shutil.rmtree(run, ignore_errors=True)
        killed, kills = Ended(-signal.SIGKILL, "", "", hung=False), 0
        while killed.status == -signal.SIGKILL and kills < 20:

            def kill_later(process: int) -> None:
                time.sleep(laboratory.random.uniform(0, laboratory.training_s))
                send(process, signal.SIGKILL)

            killed = laboratory.command(*laboratory.train(run), during=kill_later)
            kills += killed.status == -signal.SIGKILL
        ended, wrong = laboratory.finish(run)
        for number in range(kills):
            last = number == kills - 1
            tally.count(f"kill {number + 1} of {kills}", ended if last else killed, silent=wrong if last else None)
    return [tally]


def kill_at_file_system_events(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """A new training is killed before each event, as far as time allows, and then resumed."""
    tally, run = Tally("kill -9 at file-system events"), laboratory.place / "killed-at-events"
    events = _count_events(laboratory, run)
    for event in clock.while_time(evenly(events)):
        shutil.rmtree(run, ignore_errors=True)
        laboratory.command(*laboratory.train(run), prepare=lambda event=event: kill_at(run, event + 1))
        ended, wrong = laboratory.finish(run)
        tally.count(f"event {event + 1} of {events}", ended, silent=wrong)
    tally.fault += f" ({events} in a training)"
    return [tally]


def _count_events(laboratory: Laboratory, run: Path) -> int:
    with mmap.mmap(-1, 8) as seen:  # memory that the process shares with this one

        def note(number: int) -> None:
            seen[:8] = number.to_bytes(8)

        ended = laboratory.command(*laboratory.train(run), prepare=lambda: at_events(run, note))
        assert ended.status == 0, ended.err
        return int.from_bytes(seen[:8])


def send_signals(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """SIGINT and SIGTERM, often a second one of either kind, at random moments of each command."""
    training, others = Tally("signals to a training"), Tally("signals to other commands")
    run, random = laboratory.place / "stopped", laboratory.random
    names = [*laboratory.reading, "average"]
    (laboratory.place / "many").write_text("bad cafe fade\n" * 200)
    for number in clock.while_time(itertools.count()):
        train = number % 2 == 0
        first, second = random.choices((signal.SIGINT, signal.SIGTERM), k=2)
        delay_s, gap_s = random.uniform(0, laboratory.training_s), random.uniform(0, SECOND_SIGNAL_S)
        twice = random.random() < 0.5

        def interrupt(process: int) -> None:
            time.sleep(delay_s)  # noqa: B023 - called at once
            send(process, first)  # noqa: B023
            if twice:  # noqa: B023
                time.sleep(gap_s)  # noqa: B023
                send(process, second)  # noqa: B023

        if train:
            shutil.rmtree(run, ignore_errors=True)
            words = laboratory.train(run)
        else:
            name = random.choice(names)
            target = laboratory.copy() if name == "average" else laboratory.run
            words = ["average"] if name == "average" else list(laboratory.reading[name])
            if name == "translate":
                words = ["translate", "--input", "many"]
            words += ["--run", str(target)]
        stopped = laboratory.command(*words, during=interrupt)
        wrong = None if stopped.status in GENTLE else f"status {stopped.status}"
        if train:
            ended, other = laboratory.finish(run)
            stopped = (
                stopped if stopped.has_traceback or stopped.hung else ended._replace(err=stopped.err + ended.err)
            )
            wrong = wrong or other
        what = (
            f"{words[0]}: {first.name}{f' and {second.name} after {gap_s:.3f} s' if twice else ''} at {delay_s:.2f} s"
        )
        (training if train else others).count(what, stopped, silent=wrong)
    return [training, others]


def signals_at_the_start(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """Ctrl-C in the first moments of real processes, while Python still loads what a command needs."""
    tally = Tally("signals while a command starts")
    for number in clock.while_time(iter(range(40))):
        command = [sys.executable, "-m", "glassformer", "translate", "--run", str(laboratory.run), "abc"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(laboratory.random.uniform(0.05, 4))
        process.send_signal(signal.SIGINT if number % 2 else signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        if "<frozen site>" in err:  # Python itself still starts: nobody's program can be asked for words
            continue
        ended = Ended(process.returncode, out, err, hung=False)
        tally.count("translate", ended, silent=None if ended.status in GENTLE else f"status {ended.status}")
    return [tally]


def readers_leave(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """``| head -N`` of each command: a training goes on, and none complains."""
    tally, run = Tally("readers that leave"), laboratory.place / "unread"
    (laboratory.place / "many").write_text("bad cafe fade\n" * 200)
    names = itertools.cycle(["train", *laboratory.reading])
    for name in clock.while_time(names):
        shutil.rmtree(run, ignore_errors=True)
        words = laboratory.train(run) if name == "train" else list(laboratory.reading[name])
        words = ["translate", "--input", "many"] if name == "translate" else words
        words += [] if name == "train" else ["--run", str(laboratory.run)]
        ours, theirs = os.pipe()
        command = Command(words, laboratory.place, stdout=theirs, prepare=lambda ours=ours: os.close(ours))
        os.close(theirs)
        os.read(ours, laboratory.random.choice((1, 100)))
        os.close(ours)
        ended = command.wait()
        wrong = None if ended.status in {0, 141, -signal.SIGPIPE} else f"status {ended.status}"
        if name == "train":
            wrong = wrong or laboratory.differs(run)
        tally.count(name, ended, silent=wrong)
    return [tally]


def cut_the_power(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """An ext4 file system that loses what had not reached the disk, at random moments of a training."""
    tally = Tally("power cuts (ext4 on a loop device)")
    try:
        home = laboratory.place / "power"
        home.mkdir()
        disk = Disk(home)
        disk.format()
    except OSError as error:
        tally.skipped = f"no file system can be mounted from a loop device here: {error}"
        return [tally]
    try:
        for what, ended, wrong in _cuts(laboratory, clock, disk):
            tally.count(what, ended, silent=wrong)
    finally:
        disk.unmount()
    return [tally]


def _cuts(laboratory: Laboratory, clock: Clock, disk: Disk) -> Iterator[tuple[str, Ended, str | None]]:
    settings = {**SETTINGS, "train": {**SETTINGS["train"], "max_updates": 12, "validate_every": 4, "cooldown": 0.0}}
    config = RunConfig.from_mapping(settings)
    trainer = Trainer((laboratory.src, laboratory.tgt), config, laboratory.place / "errors")
    run = disk.place / "runs" / "first"
    length_s = trainer.train(run)
    whole = laboratory.weights(run)
    for _ in clock.while_time(itertools.count()):
        disk.unmount()
        disk.format()
        delay_s = laboratory.random.uniform(0, length_s)
        trainer.train_until_cut(run, disk, delay_s)
        disk.mount()
        wrong = None
        try:
            trainer.train(run)
        except AssertionError as error:
            wrong = f"it does not resume: {error}"
        if wrong is None and laboratory.weights(run) != whole:
            wrong = "other weights"
        yield f"after {delay_s:.2f} s", Ended(0, "", "", hung=False), wrong
