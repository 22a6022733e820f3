"""Lines a second of whole commands: by ``--engine auto``, on its first use and later, and by PyTorch.

    python benchmarks/engines.py --tatoeba en-de-large.tsv.gz [--run DIR] [--lines 1 100 10000] [--rounds 3]
                                 [--json FILE]

A line is an English sentence of the corpus, taken at even distances, so that lengths are as everywhere in it. The
most lines are translated as a document too (Markdown, a paragraph each), and in ten shards. Each command is a new
process with the settings of the run and as many threads as it chooses, and all write to files. ``torch`` was the
default before there was ``auto``. On a first use nothing was exported: the command writes the export and compares it.
The commands take turns; outputs are compared line by line with those of ``torch``.
"""

import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from machine import machine, ratio, spread
from smoke import new_parser, parse_options, write_json

from glassformer.bundled import BUNDLED

SHARDS = 10
ENGINES = {"torch": "torch", "auto": "auto", "auto, first use": "auto"}
FIRST = "auto, first use"


def read_sentences(corpus: Path, count: int) -> list[str]:
    """The first column of ``count`` lines at even distances."""
    with gzip.open(corpus, "rt", encoding="utf-8") as file:
        sentences = [line.split("\t")[0].strip() for line in file]
    return [sentences[index * len(sentences) // count] for index in range(count)]


def write_inputs(sentences: list[str], lines: list[int], directory: Path) -> Iterator[tuple[str, Path, int]]:
    """Each input's name, its path, and its lines."""
    for count in lines:
        path = directory / f"{count}.txt"
        path.write_text("\n".join(sentences[:count]) + "\n", encoding="utf-8")
        yield f"{count:,} lines", path, count
    path = directory / "document.md"
    path.write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    yield "document", path, len(sentences)
    path = directory / "shards"
    path.mkdir()
    for number in range(SHARDS):
        (path / f"{number}.txt").write_text("\n".join(sentences[number::SHARDS]) + "\n", encoding="utf-8")
    yield "shards", path, len(sentences)


def translate(source: Path, run: Path, engine: str, cache: Path) -> tuple[float, list[str]]:
    """Seconds of the command, and all that it wrote."""
    pattern = str(source / "*.txt") if source.is_dir() else str(source)
    command = [sys.executable, "-m", "glassformer", "translate", "--run", str(run), "--engine", engine]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / f"out{source.suffix}"
        is_file = source.suffix == ".txt"
        words = [] if is_file else ["--out", str(out)]
        with (out if is_file else Path(scratch) / "printed").open("w") as printed:
            start = time.perf_counter()
            subprocess.run(
                [*command, "--input", pattern, *words],
                check=True, stdout=printed, stderr=subprocess.DEVNULL, env=environment,
            )  # fmt: skip
            seconds = time.perf_counter() - start
        files = sorted(out.glob("*.txt")) if out.is_dir() else [out]
        return seconds, [path.read_text("utf-8") for path in files]


def count_differences(outputs: list[str], expected: list[str]) -> int:
    """In how many lines two lists of files differ, line by line."""
    lines, others = ([line for text in texts for line in text.splitlines()] for texts in (outputs, expected))
    return sum(one != other for one, other in zip_longest(lines, others))


def measure(source: Path, run: Path, rounds: int, cache: Path) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Seconds of each engine in each round; in how many lines it differed from PyTorch, in its worst round."""
    seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
    differing = dict.fromkeys(ENGINES, 0)
    for _ in range(rounds):
        outputs = {}
        for name, engine in ENGINES.items():
            with tempfile.TemporaryDirectory() as empty:
                used = Path(empty) if name == FIRST else cache
                taken, outputs[name] = translate(source, run, engine, used)
            seconds[name].append(taken)
            differing[name] = max(differing[name], count_differences(outputs[name], outputs["torch"]))
    return seconds, differing


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--tatoeba", type=Path, required=True, metavar="FILE")
    parser.add_argument("--run", type=Path, default=BUNDLED)
    parser.add_argument("--lines", type=int, nargs="+", default=[1, 100, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    corpus = "tatoeba/en-de-large.tsv.gz"
    smallest = f"--tatoeba {{data}}/{corpus} --lines 1 10 --rounds 1"
    options = parse_options(parser, smallest, modules=["ctranslate2"], files=[corpus])
    results: dict[str, Any] = {"machine": machine(), "rounds": options.rounds, "inputs": {}}
    with tempfile.TemporaryDirectory() as scratch:
        cache = Path(scratch) / "cache"
        sentences = read_sentences(options.tatoeba, max(options.lines))
        inputs = list(write_inputs(sentences, options.lines, Path(scratch)))
        translate(inputs[0][1], options.run, "auto", cache)  # the export that later uses find
        for name, path, lines in inputs:
            seconds, differing = measure(path, options.run, options.rounds, cache)
            speeds = {engine: spread([lines / each for each in values]) for engine, values in seconds.items()}
            ratios = {engine: ratio(seconds[engine], seconds["torch"]) for engine in ENGINES if engine != "torch"}
            results["inputs"][name] = {"lines_per_s": speeds, "over_torch": ratios, "lines_that_differ": differing}
            print(name, ", ".join(f"{engine} {each['median']:.2f}" for engine, each in speeds.items()),
                  "lines/s;", ", ".join(f"{engine} {each['median']:.2f} of torch" for engine, each in ratios.items()),
                  f"lines that differ: {differing}" if any(differing.values()) else "", flush=True)  # fmt: skip
    write_json(options.json, results)


if __name__ == "__main__":
    main()
