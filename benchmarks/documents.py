"""Processor seconds and memory to fill a large file of each format, with each text as its own translation.

    python benchmarks/documents.py [--segments 200000] [--limit 600] [--name now] [--json FILE]

So all is measured that stands beside the model: reading, finding the segments and the placeholders, putting the texts
in, and checking and writing the file. Each file is filled in a process of its own, one with a quarter of the segments
before: ``exponent`` is the growth between the two, 1 if the time is proportional. What exceeds ``--limit`` seconds is
stopped, and so noted. Results of other names stay in the file.
"""

import json
import math
import multiprocessing
import resource
import signal
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from large_files import LARGE_FILES
from machine import machine
from smoke import new_parser, parse_options, write_json

from glassformer.documents import FileTranslator
from glassformer.documents.restore import Result
from glassformer.text.formats import FORMATS, FormatOptions
from glassformer.text.formats.segment import Part


class Repeater(FileTranslator):
    """Says each text again."""

    def _translate_texts(self, waiting: Collection[tuple[Part, ...]]) -> dict[tuple[Part, ...], Result]:
        return {parts: Result(parts) for parts in waiting}


def fill(name: str, segments: int, limit: int, answer: Any) -> None:
    """Fill such a file in this process; send its CPU seconds, and how many MB it needs beside those of the start."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    ending = next(one.endings[0] for one in FORMATS if one.name == name)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, f"in{ending}")
        path.write_text(LARGE_FILES[name](segments), encoding="utf-8")
        before, start = _peak(), time.process_time()
        report = Repeater(None).translate(path, Path(scratch, f"out{ending}"), FormatOptions(language="de"))  # type: ignore[arg-type]
        answer.send((time.process_time() - start, _peak(), _peak() - before, report.segments))


def _peak() -> float:
    """The most memory that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, segments: int, limit: int) -> dict[str, float] | None:
    """What ``fill`` sends; None if it was stopped; ``ChildProcessError`` if it failed."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=fill, args=(name, segments, limit, theirs))
    process.start()
    theirs.close()
    try:
        seconds, peak, added, found = ours.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            return None
        raise ChildProcessError(f"{name}: see above") from None
    process.join()
    return {"segments": found, "cpu_seconds": seconds, "peak_mb": round(peak), "added_mb": round(added)}


def measure_growth(name: str, segments: int, limit: int) -> dict[str, Any]:
    """Of a file with so many segments, and how the time grew since a quarter of them."""
    quarter = measure(name, segments // 4, limit)
    whole = measure(name, segments, limit) if quarter else None
    if quarter is None or whole is None:
        return {"stopped_after_cpu_seconds": limit, "quarter": quarter}
    return {**whole, "exponent": round(math.log(whole["cpu_seconds"] / quarter["cpu_seconds"], 4), 2)}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--segments", type=int, default=200_000)
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds for one file")
    parser.add_argument("--name", default="now", help="under which the results are kept")
    options = parse_options(parser, "--segments 400", kept="documents.json")
    kept = json.loads(options.json.read_text("utf-8")) if options.json.exists() else {}
    rows = {}
    for name in LARGE_FILES:
        rows[name] = measure_growth(name, options.segments, options.limit)
        print(f"{name:10} {rows[name]}", flush=True)
        kept[options.name] = {"machine": machine(), "formats": rows}
        write_json(options.json, kept)


if __name__ == "__main__":
    main()
