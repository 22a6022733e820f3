"""Does to glassformer what disks, kills, people and strangers do, for some minutes, and prints what became of it.

    python tests/torture [--minutes 20] [--jobs 2] [--seed 1] [--only NAME ...] [--large] [--json FILE]

Every kind of fault gets its share of the time, and ``--jobs`` of them run at once. A fault is survived if the command
gives the right result, or says what is wrong and ends with another status than 0; if nothing that was there before is
lost; and if the same command repeated leads a training to the very same weights. It is silent if the result is wrong
or something is lost without a word, a traceback if a person sees one, and a hang if it takes a minute of the processor or three gigabytes.
The exit status is 1 unless every fault was survived.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "training"), str(HERE.parents[1])]
os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # threads do not survive a fork

from damage import damage_files, fill_disks, limit_files  # noqa: E402
from documents import attack_documents  # noqa: E402
from hostile_runs import odd_options, use_hostile_runs  # noqa: E402
from interruptions import (  # noqa: E402
    cut_the_power,
    kill_at_file_system_events,
    kill_at_random_moments,
    readers_leave,
    send_signals,
    signals_at_the_start,
)
from laboratory import Clock, Laboratory, Tally, read_tallies, write_tallies  # noqa: E402

import glassformer.explain.walks  # noqa: E402 - what commands import, before they are forked
import glassformer.training.train  # noqa: E402, F401
from benchmarks.machine import machine  # noqa: E402

WHOLE_MINUTES = 20
# Each kind of fault with its share of the time; the longest come first.
FAULTS: dict[str, tuple[Callable[[Laboratory, Clock], list[Tally]], int]] = {
    "damage": (damage_files, 10), "hostile": (use_hostile_runs, 10),
    "events": (kill_at_file_system_events, 6), "kills": (kill_at_random_moments, 5), "signals": (send_signals, 4),
    "full-disks": (fill_disks, 4), "file-sizes": (limit_files, 3), "power": (cut_the_power, 3),
    "documents": (attack_documents, 8), "options": (odd_options, 3), "readers": (readers_leave, 2), "start": (signals_at_the_start, 1),
}  # fmt: skip


def start(name: str, options: argparse.Namespace, laboratory: Laboratory, place: Path, seconds: float) -> int:
    """A process that does one kind of fault; what became of it is in ``NAME.json``."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        make = FAULTS[name][0]
        if name == "documents":
            make = partial(make, whole=options.large or options.minutes >= WHOLE_MINUTES)
        laboratory.move(place / name)
        write_tallies(place / f"{name}.json", make(laboratory, Clock(seconds)))
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def carry_out(options: argparse.Namespace, place: Path) -> dict[str, list[Tally]]:
    """All kinds of faults, some at a time."""
    names, laboratory = options.only or list(FAULTS), Laboratory(place / "laboratory", options.seed)
    second = 60 * options.minutes * options.jobs / sum(FAULTS[name][1] for name in names)
    waiting, running, found = list(names), dict[int, str](), dict[str, list[Tally]]()
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            running[start(name, options, laboratory, place, second * FAULTS[name][1])] = name
        process, status = os.wait()
        name = running.pop(process)
        if status:
            raise SystemExit(f"torture: {name} did not come to its end.")
        found[name] = read_tallies(place / f"{name}.json")
        say(f"{name}: {sum(tally.injections for tally in found[name]):,} injections")
    return {name: found[name] for name in names}


def say(line: str = "") -> None:
    """A line on standard output, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_table(tallies: list[Tally]) -> None:
    """One row for each kind of fault, then examples of what was not survived."""
    columns = ("injections", "survived", "silent", "tracebacks", "hangs")
    say(f"\n{'fault':52}" + "".join(f"{column:>11}" for column in columns))
    for tally in tallies:
        numbers = f"  skipped: {tally.skipped}" if tally.skipped else "".join(
            f"{getattr(tally, column):11,}" for column in columns)  # fmt: skip
        say(f"{tally.fault:52}{numbers}")
    say(f"{'all':52}" + "".join(f"{sum(getattr(tally, column) for tally in tallies):11,}" for column in columns))
    for tally in tallies:
        for example in tally.examples:
            say(f"\n{tally.fault}: {example}")


def write_result(path: Path, found: dict[str, list[Tally]], run: dict[str, float]) -> None:
    """Add this run to the file; of a kind of fault the last run counts."""
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": [], "faults": {}}
    date = datetime.now(UTC).date().isoformat()
    result |= {"date": date, "machine": machine()}
    result["runs"].append({"date": date, "kinds": list(found), **run})
    for name, tallies in found.items():
        result["faults"][name] = [{**tally.__dict__, "survived": tally.survived} for tally in tallies]
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=WHOLE_MINUTES)
    parser.add_argument("--jobs", type=int, default=2, help="kinds of faults at once")
    parser.add_argument("--seed", type=int, default=1, help="of every random choice")
    parser.add_argument("--only", nargs="+", choices=list(FAULTS))
    parser.add_argument("--large", action="store_true", help="documents of 1 MB, as in 20 minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results are added")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-") as place:
        found = carry_out(options, Path(place))
    tallies = [tally for each in found.values() for tally in each]
    print_table(tallies)
    minutes = (time.monotonic() - began) / 60
    say(f"\nseed {options.seed}, {minutes:.1f} minutes, {options.jobs} at once")
    if options.json:
        write_result(options.json, found, {"minutes": minutes, "jobs": options.jobs, "seed": options.seed})
    raise SystemExit(any(tally.silent or tally.tracebacks or tally.hangs for tally in tallies))


if __name__ == "__main__":
    main()
