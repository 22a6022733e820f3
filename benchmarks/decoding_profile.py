"""Where the time of translating in int8 goes, part by part, and how fast CTranslate2 is in the same turns.

    python benchmarks/decoding_profile.py [--cells small-greedy ...] [--turns 7] [--sentences 128]
                                          [--single-sentences 10] [--json FILE]

Seconds are processor time of one thread, which other programs disturb less than the clock. In each turn both
systems translate the same sentences with the same random weights (``decoding_models.py``); then glassformer does so
with a clock around each part. The time of a part is its own, without the parts that it calls; of the turns the median
counts. The clock takes time, too: it is subtracted as measured.
"""

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from decoding import CELLS, SEARCHES, versions
from decoding_models import convert_model, output_limit, sentences_of
from decoding_systems import CTranslate2, Glassformer, Search, Setting
from machine import machine, ratio, spread
from smoke import new_parser, parse_options, write_json
from torch import nn

from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.decoding.search import beam, beam_search, greedy, steps
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.linears import Bf16Linear, Float32Linear, Int8Linear
from glassformer.model.norm import LayerNorm

BATCHES = {"greedy": (2048, 64), "beam": (4096, 32), "single": (1, 1)}  # glassformer's in tokens, CTranslate2's
LINEARS = (nn.Linear, Float32Linear, Bf16Linear, Int8Linear)
PARTS = {
    "the int8 kernel": "the product itself, whose kernel rounds and scales as well",
    "around the kernel": "the maximum of each row, the division by it, scale and bias",
    "float32 products": "matrices that stay float32",
    "attention": "equation 1: two products and a softmax of each layer",
    "layer norm": "the kernel of each norm",
    "modules": "what is left in the modules: residuals, heads, cache, embeddings, idle taps, calls",
    "log-probabilities": "log-softmax over the vocabulary",
    "choice": "the best of them: top-k, in a beam search the next state",
    "search": "what is left of a job: checks, masks, the loop, candidates",
}
FUNCTIONS = [
    (MultiHeadAttention, "attend", "attention"), (steps, "token_log_probs", "log-probabilities"),
    (greedy, "top_k", "choice"), (beam_search, "advance", "choice"), (beam, "top_k_of_beams", "choice"),
    (beam_search, "is_done", "choice"), (Int8Linear, "_product", "around the kernel"), (TorchEngine, "run", "search"),
]  # fmt: skip
KERNEL = "linear_with_input_q_dq_qweight_dq_output_fp32"


@dataclass
class Clock:
    """The own time and the calls of each part."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    inner: list[float] = field(default_factory=list)

    def around(self, function: Callable[..., Any], part: Callable[..., str]) -> Callable[..., Any]:
        """The function, timed; ``part`` names its part from its arguments."""

        def timed(*given: Any, **named: Any) -> Any:
            self.inner.append(0.0)
            start = time.thread_time()
            found = function(*given, **named)
            spent = time.thread_time() - start
            name, own = part(*given), spent - self.inner.pop()
            self.seconds[name] = self.seconds.get(name, 0.0) + own
            self.calls[name] = self.calls.get(name, 0) + 1
            if self.inner:
                self.inner[-1] += spent
            return found

        return timed


def part_of(module: nn.Module, *_: Any) -> str:
    if isinstance(module, Int8Linear):
        return "around the kernel"
    if isinstance(module, LINEARS):
        return "float32 products"
    return "layer norm" if isinstance(module, LayerNorm) else "modules"


@contextmanager
def time_parts() -> Iterator[Clock]:
    """A block in which the parts are timed."""
    clock = Clock()
    with ExitStack() as patches:
        call = nn.Module.__call__
        patches.enter_context(patch.object(nn.Module, "__call__", clock.around(call, part_of)))
        for owner, name, part in FUNCTIONS:
            timed = clock.around(getattr(owner, name), lambda *_, part=part: part)
            patches.enter_context(patch.object(owner, name, timed))
        kernel = getattr(torch.ops.quantized, KERNEL)
        timed = clock.around(kernel, lambda *_: "the int8 kernel")
        patches.enter_context(patch.object(torch.ops.quantized, KERNEL, timed))
        yield clock


def clock_cost() -> float:
    """Seconds that one timed call takes more than the call itself and does not see."""
    clock, times = Clock(), 20_000
    timed = clock.around(lambda: None, lambda: "nothing")
    start = time.thread_time()
    for _ in range(times):
        timed()
    return (time.thread_time() - start - clock.seconds["nothing"]) / times


def measure(cell: str, options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """One cell: both systems by turns, and the parts of ours."""
    name, kind = cell.split("-")
    count, one_by_one = SEARCHES[kind]
    ids = sentences_of(None, None, options.single_sentences if one_by_one else options.sentences)
    ours_batch, theirs_batch = BATCHES[kind]
    systems = {
        "glassformer int8": Glassformer(name, None, directory, Setting("glassformer", "int8", 1)),
        "ct2 int8": CTranslate2(name, None, directory, Setting("ct2", "int8", 1)),
    }
    searches = {
        arm: Search(count, output_limit(name, None), one_by_one, batch)
        for arm, batch in zip(systems, (ours_batch, theirs_batch), strict=True)
    }
    seconds: dict[str, list[float]] = {arm: [] for arm in systems}
    clocks = []
    for turn in range(options.turns + 1):
        for arm, system in systems.items():
            start = time.process_time()
            system(ids, searches[arm])
            if turn:  # the first only warms up
                seconds[arm].append(time.process_time() - start)
        with time_parts() as clock:
            systems["glassformer int8"](ids, searches["glassformer int8"])
        clocks.append(clock)
    gc.collect()
    return report(cell, len(ids), seconds, clocks[1:])


def report(cell: str, sentences: int, seconds: dict[str, list[float]], clocks: list[Clock]) -> dict[str, Any]:
    """Print and return sentences a second, the ratio, and milliseconds a sentence of each part."""
    over = ratio(seconds["glassformer int8"], seconds["ct2 int8"])
    speeds = {arm: spread([sentences / value for value in values]) for arm, values in seconds.items()}
    print(f"\n{cell}: {sentences} sentences; " + ", ".join(
        f"{arm} {row['median']:.1f}/s ({row['lower_quartile']:.1f} to {row['upper_quartile']:.1f})"
        for arm, row in speeds.items()
    ) + f"; ratio {over['median']:.2f} (95 % {over['low']:.2f} to {over['high']:.2f})")  # fmt: skip
    cost = clock_cost()
    parts = {}
    for part in PARTS:
        calls = clocks[0].calls.get(part, 0)
        own = statistics.median(clock.seconds.get(part, 0.0) for clock in clocks)
        parts[part] = {"ms": 1e3 * own / sentences, "calls": calls / sentences}
    # What a clock does not see of itself is seen by the part that called: nearly always a module.
    hidden = 1e3 * cost * sum(row["calls"] for row in parts.values())
    parts["modules"]["ms"] = max(0.0, parts["modules"]["ms"] - hidden)
    total = sum(row["ms"] for row in parts.values())
    for part, row in parts.items():
        print(f"  {part:20} {row['ms']:8.3f} ms a sentence  {100 * row['ms'] / total:5.1f} %  "
              f"{row['calls']:8.1f} calls")  # fmt: skip
    return {"sentences": sentences, "sentences_per_s": speeds, "ratio": over, "seconds": seconds, "parts": parts}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=CELLS)
    parser.add_argument("--turns", type=int, default=7, help="at least 2")
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--single-sentences", type=int, default=10)
    options = parse_options(parser, "--cells small-greedy --turns 2 --sentences 4", modules=["ctranslate2"])
    if options.turns < 2:
        parser.error(f"--turns: found {options.turns}, expected at least 2, for a spread.")
    torch.set_num_threads(1)
    results: dict[str, Any] = {"machine": machine(), "turns": options.turns, "versions": versions(), "cells": {}}
    for key, value in {**results["machine"], **results["versions"]}.items():
        print(f"{key:12} {value}")
    with tempfile.TemporaryDirectory() as scratch:
        for cell in options.cells:
            convert_model(cell.split("-")[0], None, Path(scratch))
            results["cells"][cell] = measure(cell, options, Path(scratch))
            write_json(options.json, results)


if __name__ == "__main__":
    main()
