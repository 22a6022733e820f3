"""Memory of a training of half an hour, and of translating 100,000 sentences: whether it grows.

    python benchmarks/memory.py [--minutes 30] [--sentences 100000] [--json FILE]

The training is that of the task ``dates`` with its own settings, which validates, translates and saves as it goes on.
The sentences are English sides of the task ``phrasebook-de``, again and again, each with another number at its end;
the bundled model translates them with greedy search, which ends after five tokens so that they take minutes, and
``translate_stream`` reads them one by one.

Memory is what the process holds in RAM. The slope is a least-squares line through the second half of the samples.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from decoding_growth import CHUNK, resident_mib, summarise
from machine import machine
from smoke import new_parser, parse_options, write_json

from glassformer import Translator
from glassformer.settings import DecodeConfig
from glassformer.tasks import load_task
from glassformer.training.reporting.run_log import Display, TrainProgress
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.train import train


class Sampler(Display):
    """Samples what the process holds, whenever a training writes a line to its log."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []
        self.most_files = 0

    def on_update(self, progress: TrainProgress, *, due: bool) -> None:
        """Take a sample when ``due``."""
        if due:
            self.samples.append((progress.elapsed_s / 60, resident_mib()))
            self.most_files = max(self.most_files, len(os.listdir("/proc/self/fd")))


def while_training(minutes: float) -> dict[str, Any]:
    """Memory by the minute of a training."""
    sampler = Sampler()
    with tempfile.TemporaryDirectory() as scratch:
        overrides = [
            f"train.max_minutes={minutes}",
            "train.max_updates=1000000",
            "train.patience=0",
            "train.stop_at=0",
        ]
        request = TrainRequest.make(run=Path(scratch, "run"), data={"task": "dates"}, overrides=overrides)
        outcome = train(request, sampler)
    summary = summarise(sampler.samples, "mib_per_hour", 60)
    return {"minutes": minutes, "updates": outcome.updates, "most_open_files": sampler.most_files, **summary}


def sentences(count: int) -> Iterator[str]:
    """Sentences that differ from one another."""
    texts = cycle(pair.src for pair in load_task("phrasebook-de").train)
    return (f"{text} {number}" for number, text in zip(range(count), texts, strict=False))


def while_translating(count: int) -> dict[str, Any]:
    """Memory by the number of sentences that are translated."""
    translator, samples = Translator.load(engine="torch"), list[tuple[float, float]]()
    start = time.perf_counter()
    options = DecodeConfig(beam=1, max_length_a=0.0, max_length_b=5)
    stream = translator.translate_stream(sentences(count), options)
    for done, _ in enumerate(stream, 1):
        if done % CHUNK == 0:
            samples.append((done, resident_mib()))
    spent = time.perf_counter() - start
    summary = summarise(samples, "mib_per_100000_sentences", 1e5)
    return {"sentences": count, "sentences_per_s": count / spent, **summary}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of the training; 0 leaves it out")
    parser.add_argument("--sentences", type=int, default=100_000, help="at least 2,000; 0 leaves them out")
    options = parse_options(parser, "--minutes 0.1 --sentences 2000")
    found: dict[str, Any] = {}
    if options.json and options.json.exists():
        found = json.loads(options.json.read_text(encoding="utf-8"))
    found["machine"] = machine()
    if options.sentences:
        found["translating"] = while_translating(options.sentences)
    if options.minutes:
        found["training"] = while_training(options.minutes)
    for part in ("translating", "training"):
        rows = {key: value for key, value in found.get(part, {}).items() if key != "samples"}
        print(part, *(f"  {key:26} {value:12.1f}" for key, value in rows.items()), sep="\n")
    write_json(options.json, found)


if __name__ == "__main__":
    main()
