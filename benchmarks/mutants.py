"""How many small changes of the source the fast tests find: the mutation score of the rooms where truth matters.

    python benchmarks/mutants.py [--sample 200] [--minutes 20] [--json FILE] [--again survivors]

A seeded sample of all mutants (mutations.py) of the rooms below. For each, a process that is forked once PyTorch is
imported takes a package in which it stands and runs the fast tests of the room until one fails: those of the same
name first, quick ones before slow ones. A mutant is found when a test fails, or when the tests need far more time
than without it. What is in the file already is left out, so that the measurement may be made in pieces;
``--again survivors`` runs the tests again on what they did not find. docs/generate.py writes the table of
docs/reliability.md from the results and mutants.toml.
"""

import contextlib
import importlib
import os
import resource
import shutil
import signal
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from faults import PRELOADED, read_results, run_child
from mutations import Mutant, find_mutants
from smoke import ROOT, new_parser, parse_options, write_json

PACKAGE = ROOT / "glassformer"
SEED = 1706
FAST = "not slow and not browser and not gpu"
MEMORY = 12 << 30  # of a child: a loop without end may not take what others need


@dataclass(frozen=True)
class Room:
    """Files below the package, by globs, and the tests that belong to them."""

    files: tuple[str, ...]
    tests: tuple[str, ...]

    def find_mutants(self) -> list[Mutant]:
        """All mutants of its files."""
        paths = sorted(path for glob in self.files for path in PACKAGE.glob(glob))
        return [one for path in paths for one in find_mutants(PACKAGE, path.relative_to(PACKAGE).as_posix())]


_STEPS = ("tests/explain/entries", "tests/explain/test_training_step.py")  # what a traced update shows
ROOMS = {
    "model": Room(("model/*.py",), ("tests/model",)),
    "search": Room(("decoding/search/*.py",), ("tests/decoding/search",)),
    "loss": Room(("training/objective/*.py",), ("tests/training/objective", *_STEPS)),
    "update": Room(tuple(f"training/loop/{name}.py" for name in ("update", "optimizer", "schedule")),
                   ("tests/training/loop", *_STEPS)),
    "entries": Room(("explain/entries/*.py",), (*_STEPS, "tests/explain/test_verify.py",
                    "tests/explain/test_gradients.py", "tests/explain/test_generation.py")),
}  # fmt: skip
with Path(__file__).with_suffix(".toml").open("rb") as _stream:
    REASONS = {one["name"]: one["reason"] for one in tomllib.load(_stream).get("equivalent", [])}


class FirstFailure:
    """A plugin of pytest: tests of the mutated file's name come first, then quick ones; the one that fails stays."""

    def __init__(self, stem: str, durations: dict[str, float]) -> None:
        self.stem, self.durations, self.name = stem, durations, ""
        self.measured: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the tests of the same name first, and quick ones before slow ones."""
        items.sort(key=lambda item: (self.stem not in item.path.stem, self.durations.get(item.nodeid, 0.0)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first test that fails, and how long each takes with what it sets up."""
        self.measured[report.nodeid] = self.measured.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.name = self.name or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the first file that cannot be read."""
        if report.failed:
            self.name = self.name or report.nodeid


def run_tests(
    package: Path, tests: tuple[str, ...], seconds: int, stem: str = "", durations: dict[str, float] | None = None
) -> dict[str, Any]:
    """The first test that fails, if one does, and the processor time; the process ends when it takes too long."""
    started = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.alarm(20 * seconds)  # one that waits takes no processor time
    os.environ["PYTHONPATH"] = str(package)
    os.chdir(ROOT)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    first = FirstFailure(stem, durations or {})
    options = ["-x", "-m", FAST, "-p", "no:cacheprovider", "-o", f"pythonpath={package}", "--tb=no",
               "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip
    code = int(pytest.main([*options, *tests], plugins=[first]))
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise SystemExit(f"{', '.join(tests)}: no tests.")
    found = first.name or ("when the tests begin" if code else "")
    measured = {} if durations is not None else {"durations": first.measured}
    return {"found_by": found, "seconds": round(time.process_time() - started, 1), **measured}


def copy_package(place: Path) -> Path:
    """A directory to import from, in which every file is a link to ours."""
    shutil.copytree(PACKAGE, place / "glassformer", copy_function=os.symlink,
                    ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    (place / "benchmarks").symlink_to(ROOT / "benchmarks")
    return place


@contextlib.contextmanager
def mutated(package: Path, mutant: Mutant) -> Iterator[None]:
    """The package with the mutant in place of one of its links."""
    path = package / "glassformer" / mutant.file
    text = mutant.source(PACKAGE)
    path.unlink()
    path.write_bytes(text)
    _forget_compiled(path)
    try:
        yield
    finally:
        path.unlink()
        path.symlink_to(PACKAGE / mutant.file)
        _forget_compiled(path)


def _forget_compiled(path: Path) -> None:
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def examine(package: Path, mutant: Mutant, room: Room, measured: dict[str, Any]) -> dict[str, Any]:
    """What finds the mutant, and the processor time: three times what the tests take without it is too much."""
    seconds, slow, stem = int(3 * measured["seconds"]) + 20, measured["slow_tests"], Path(mutant.file).stem
    with mutated(package, mutant):
        found = run_child(package, lambda: run_tests(package, room.tests, seconds, stem, slow))
    if found.get("failed") == "the process ended":
        return {"found_by": "more than the time or the memory that the tests need", "seconds": seconds}
    if "failed" in found:
        raise SystemExit(f"{mutant.name}: {found['failed']}")
    return found


def choose(sample: int) -> list[tuple[str, Mutant]]:
    """The sample, each mutant with its room, room by room."""
    every = [(name, mutant) for name, room in ROOMS.items() for mutant in room.find_mutants()]
    chosen = sorted(every, key=lambda one: one[1].rank(SEED))[:sample]
    return sorted(chosen, key=lambda one: one[0])


def measure(chosen: list[tuple[str, Mutant]], results: dict[str, Any], options: Any) -> None:
    """Examine each mutant that has no result, until the time is over."""
    stop = time.monotonic() + 60 * options.minutes
    for name in (*PRELOADED, "hypothesis", "beartype", "sacrebleu"):
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as directory:
        package = copy_package(Path(directory))
        for name, mutant in chosen:
            known = results["mutants"].get(mutant.name)
            settled = known and (known["found_by"] or mutant.name in REASONS)
            if settled or (known and options.again != "survivors"):
                continue
            if time.monotonic() > stop:
                print("stopped: call it again for the others")
                return
            if name not in results["rooms"]:
                results["rooms"][name] = measure_room(package, name)
            found = examine(package, mutant, ROOMS[name], results["rooms"][name])
            at_first = known["at_first"] if known else bool(found["found_by"])
            results["mutants"][mutant.name] = {"room": name, "at_first": at_first, **found}
            print(f"{mutant.name}: {found['found_by'] or 'SURVIVES'}, {found['seconds']} s", flush=True)
            write_json(options.json, results)


def measure_room(package: Path, name: str) -> dict[str, Any]:
    """How many mutants a room has, and how long its tests take without one, which must pass."""
    found = run_child(package, lambda: run_tests(package, ROOMS[name].tests, 600))
    if found.get("failed") or found["found_by"]:
        raise SystemExit(f"{name}: without any mutant {found.get('failed') or found['found_by']} fails.")
    slow = {test: round(duration, 1) for test, duration in found["durations"].items() if duration > 0.1}
    print(f"{name}: the tests need {found['seconds']} s", flush=True)
    return {"mutants": len(ROOMS[name].find_mutants()), "seconds": found["seconds"], "slow_tests": slow}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants (200)")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), help="only these rooms' mutants")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no mutant after so long (20)")
    parser.add_argument("--again", choices=("survivors", "all"), help="measure again what no test found, or all")
    options = parse_options(parser, "--sample 1", kept="mutants.json")
    results = {} if options.again == "all" else read_results(options.json)
    results = {"seed": SEED, "rooms": {}, "mutants": {}, **results}
    chosen = choose(options.sample)
    names = {mutant.name for _, mutant in chosen}
    results["mutants"] = {name: one for name, one in results["mutants"].items() if name in names}
    measure([one for one in chosen if one[0] in options.rooms], results, options)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
