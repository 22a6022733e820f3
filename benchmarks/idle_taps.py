"""What taps cost: a forward pass and a cached decoding step with idle taps, without any, and while traced.

    python benchmarks/idle_taps.py [--rounds N] [--threads N] [--json FILE]

"Without any" replaces ``tap``, ``show`` and ``note``, in the modules that use them, by functions that return at
once; that is done here alone. The arms are run by turns in one process, in an order drawn anew for each round, so
that a machine that slows down slows all of them. Printed are the median and the quartiles of each arm's times, and
the median of the ratios within a round with the interval in which 95 of 100 resampled medians lie. ``control`` is
the first arm again: what it shows beside 1 is noise. Where noise hides the taps, their number times the cost of one
still tells.
"""

import random
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from machine import machine, spread
from smoke import new_parser, parse_options, write_json
from torch import Tensor

from glassformer.model import Transformer
from glassformer.settings import ModelConfig
from glassformer.trace import tracing

BATCH, LENGTH, DECODED = 32, 16, 8
PACKAGES, NAMES = ("glassformer.model.", "glassformer.decoding."), ("tap", "show", "note")
Work = Callable[[], object]


def tapping_modules() -> list[Any]:
    """The modules of the model and of decoding that have ``tap``, ``show`` or ``note`` among their names."""
    modules = [module for name, module in sys.modules.items() if name.startswith(PACKAGES)]
    return [module for module in modules if any(hasattr(module, name) for name in NAMES)]


@contextmanager
def without_taps() -> Iterator[None]:
    """The model with the cheapest functions that can stand where its taps stand."""
    replacements: dict[str, Any] = {
        "tap": lambda _module, _name, value, _axes: value, "show": lambda *_: None, "note": lambda *_: None,
    }  # fmt: skip
    kept = [(module, name, getattr(module, name)) for module in tapping_modules() for name in replacements
            if hasattr(module, name)]  # fmt: skip
    for module, name, _ in kept:
        setattr(module, name, replacements[name])
    try:
        yield
    finally:
        for module, name, original in kept:
            setattr(module, name, original)


@contextmanager
def idle() -> Iterator[None]:
    """The model as it is."""
    yield


def forward_work(model: Transformer) -> Work:
    """One forward pass of 32 pairs of 16 tokens."""
    src, tgt = (torch.randint(3, 8000, (BATCH, LENGTH)) for _ in range(2))
    return lambda: model(src, tgt)


def step_work(model: Transformer) -> Work:
    """Eight single-token steps of one sentence with a cache, as greedy search takes them."""
    memory, mask = model.encode(torch.randint(3, 8000, (1, LENGTH)))
    token = torch.full((1, 1), 3)

    def decode() -> Tensor:
        cache = model.new_cache()
        for _ in range(DECODED):
            logits = model.decode(token, memory, mask, cache)
        return logits

    return decode


def milliseconds(work: Work, arm: Callable[[], Any]) -> float:
    with arm():
        start = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - start)


def measure(work: Work, arms: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Times of each arm, one a round; the first tenth warms up and is dropped."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    order = list(arms)
    warm_up = max(3, rounds // 10)
    for index in range(-warm_up, rounds):
        random.shuffle(order)
        for name in order:
            spent = milliseconds(work, arms[name])
            if index >= 0:
                times[name].append(spent)
    return times


def ratio(over: list[float], under: list[float]) -> dict[str, float]:
    """Median of the ratios within each round, and the 95 % interval of that median by resampling."""
    ratios = [a / b for a, b in zip(over, under, strict=True)]
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(1000))
    return {"median": statistics.median(ratios), "low": medians[25], "high": medians[974]}


def report(name: str, times: dict[str, list[float]], taps_ms: float) -> dict[str, Any]:
    share = taps_ms / statistics.median(times["idle"])
    rows = {arm: spread(values) for arm, values in times.items()}
    ratios = {
        "idle / without": ratio(times["idle"], times["without"]),
        "control / without": ratio(times["control"], times["without"]),
        "control / idle": ratio(times["control"], times["idle"]),
        "traced / idle": ratio(times["traced"], times["idle"]),
    }
    print(f"\n{name}")
    for arm, row in rows.items():
        print(f"  {arm:18} {row['median']:9.3f} ms   {row['lower_quartile']:.3f} to {row['upper_quartile']:.3f}")
    for label, row in ratios.items():
        print(f"  {label:18} {row['median']:9.4f}      95 % {row['low']:.4f} to {row['high']:.4f}")
    print(f"  taps passed, each at the cost above: {taps_ms:.3f} ms, {100 * share:.2f} % of idle")
    return {"milliseconds": rows, "ratios": ratios, "taps_ms": taps_ms, "taps_share": share}


def tap_cost_ns() -> float:
    """Nanoseconds of one idle tap, call included, less those of a function that returns its argument."""
    from glassformer.trace import tap

    module, value = torch.nn.Identity(), torch.zeros(1)

    def loop(function: Callable[..., Tensor], times: int = 100_000) -> float:
        start = time.perf_counter_ns()
        for _ in range(times):
            function(module, "x", value, "batch")
        return (time.perf_counter_ns() - start) / times

    return min(loop(tap) for _ in range(5)) - min(loop(lambda _m, _n, x, _a: x) for _ in range(5))


def calls_of_taps(work: Work) -> int:
    """How often the work passes a ``tap``, a ``show`` or a ``note``."""
    calls = 0

    def count(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        return given[2]

    with without_taps():
        for module in tapping_modules():
            for name in NAMES:
                if hasattr(module, name):
                    setattr(module, name, count)
        work()
    return calls


def begin(description: str | None, rounds: int) -> tuple[Namespace, dict[str, Any]]:
    """The options, with seeds and threads set, and the results, in which there is the machine."""
    parser = new_parser(description)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"measurements of each arm (default {rounds})")
    parser.add_argument("--threads", type=int, default=0, help="threads of PyTorch; 0 leaves its own choice")
    options = parse_options(parser, "--rounds 3")
    torch.manual_seed(1)
    random.seed(1)
    if options.threads:
        torch.set_num_threads(options.threads)
    results: dict[str, Any] = {"machine": machine(), "rounds": options.rounds}
    for key, value in results["machine"].items():
        print(f"{key:8} {value}")
    return options, results


def main() -> None:
    options, results = begin(__doc__, 200)
    results["tap_ns"] = tap_cost_ns()
    print(f"one idle tap costs {results['tap_ns']:.0f} ns more than a function that returns its argument")
    for name in ("tiny", "small"):
        model = Transformer(ModelConfig.from_name(name)).eval()
        arms = {"idle": idle, "control": idle, "without": without_taps, "traced": lambda model=model: tracing(model)}
        with torch.no_grad():
            for what, make in (("forward, 32 x 16 tokens", forward_work), (f"{DECODED} cached steps", step_work)):
                work = make(model)
                taps_ms = 1e-6 * results["tap_ns"] * calls_of_taps(work)
                times = measure(work, arms, options.rounds)
                results[f"{name}: {what}"] = report(f"{name}: {what}", times, taps_ms)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
