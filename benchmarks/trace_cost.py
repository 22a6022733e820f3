"""Time and memory of a traced translation, compared with an untraced one and with one without any taps.

    python benchmarks/trace_cost.py [--rounds N] [--threads N] [--json FILE]

Eight sentences of 12 tokens are translated with beam 4 to outputs of at most 14 tokens, by a tiny and a small model
with random weights. The variants take turns, as in ``idle_taps.py``. ``shapes alone`` records with a glob that
matches nothing; ``verified`` recomputes every step of the trace.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from idle_taps import begin, idle, measure, ratio, without_taps
from machine import spread
from smoke import write_json

from glassformer.decoding.search.beam_search import beam_search
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.steps import DecoderSteps
from glassformer.explain.entries import PassContext
from glassformer.explain.verify import verify
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.trace import Step, tracing

SENTENCES, LENGTH, LONGEST = 8, 12, 14
OPTIONS = DecodeConfig(beam=4, max_length_a=0.0, max_length_b=LONGEST)


@contextmanager
def trace_model(model: Transformer, only: str = "*") -> Iterator[None]:
    with tracing(model, only=only):
        yield


def cost(name: str, rounds: int) -> dict[str, Any]:
    model = Transformer(ModelConfig.from_name(name)).eval()
    src_ids = torch.randint(4, 8000, (SENTENCES, LENGTH))

    job = SearchJob(src_ids.tolist(), [LONGEST] * SENTENCES, OPTIONS)

    def translate() -> object:
        return beam_search(DecoderSteps(model, src_ids, OPTIONS), job)

    arms = {
        "idle": idle, "without": without_taps, "traced": lambda: trace_model(model),
        "shapes alone": lambda: trace_model(model, "nothing"),
    }  # fmt: skip
    times = measure(translate, arms, rounds)
    with tracing(model) as trace:
        translate()
    started = time.perf_counter()
    verification = verify([Step("text.src_ids", ("batch", "src"), src_ids), *trace], PassContext(model, OPTIONS))
    verify_ms = 1e3 * (time.perf_counter() - started)
    assert verification.holds, verification.off
    held = sum(step.value.nbytes for step in trace)
    weights = sum(weight.nbytes for weight in model.parameters())
    return {
        "milliseconds": {arm: spread(values) for arm, values in times.items()},
        "ratios": {f"{arm} / without": ratio(times[arm], times["without"]) for arm in arms if arm != "without"},
        "steps": len(trace), "trace_mb": held / 1e6, "weights_mb": weights / 1e6, "verify_ms": verify_ms,
    }  # fmt: skip


def report(name: str, row: dict[str, Any]) -> None:
    print(f"\n{name}: {row['steps']:,} steps, {row['trace_mb']:.1f} MB stored, weights {row['weights_mb']:.1f} MB")
    print(f"  verified in {row['verify_ms']:.0f} ms")
    for arm, times in row["milliseconds"].items():
        quartiles = f"{times['lower_quartile']:.1f} to {times['upper_quartile']:.1f}"
        print(f"  {arm:22} {times['median']:9.1f} ms   {quartiles}")
    for label, values in row["ratios"].items():
        print(f"  {label:22} {values['median']:9.3f}      95 % {values['low']:.3f} to {values['high']:.3f}")


def main() -> None:
    options, results = begin(__doc__, 30)
    with torch.no_grad():
        for name in ("tiny", "small"):
            results[name] = cost(name, options.rounds)
            report(name, results[name])
    write_json(options.json, results)


if __name__ == "__main__":
    main()
