"""Target tokens per second of a training step: glassformer and six other systems on the same work.

    python benchmarks/training.py [--sizes small base] [--precisions float32 bf16] [--dropouts 0.1 0] [--rounds 5]
                                  [--steps 6] [--json FILE]

A step is forward, label-smoothed loss, backward and a fused Adam, on batches of sentences of similar length with
about 1,660 target tokens, the lengths of Multi30k with a joint vocabulary of 10,000. The ids are random and the same
for every system. All share one matrix between both embeddings and the output and, except Eole, normalise after each
sublayer as in the paper. Dropout is where the paper has it; nn.Transformer also drops out attention weights and inner
activations, and Eole inner activations, which no setting prevents, so dropout 0 is the fair comparison with them.
bf16 is autocast in every system.

Marian (``marian_process.py``) makes batches of its own from the same pairs; its tokens are counted. It has no bf16 on
a CPU and is left out there.

Each system runs in its own process on all cores that it may use (``taskset -c 1`` leaves it one), and they take
turns. The output is medians and quartiles of target tokens per second, ratios, the most memory of each process, and
the share of the ceiling: the multiply-adds of forward and backward relative to those that a matrix product of the
model's size reaches in the same run. A system that is not installed is skipped:
``pip install '.[bench]' eole``; JoeyNMT pins old libraries, so install it with --no-deps and add what is missing.
"""

import argparse
import json
import statistics
import sys
import time
from typing import Any

import torch
from machine import machine, peak_mb, processor_s, ratio, spread
from marian_process import MarianTurns
from processes import Answerer
from smoke import new_parser, parse_options, write_json
from training_systems import SYSTEMS, batches_of, config_of, missing, versions

from glassformer.settings import ModelConfig
from glassformer.text.corpus.batches import Batch
from glassformer.text.corpus.workers import available_cores

WARM_UP = 2


def serve(system: str, size: str, precision: str, dropout: str, clock: str) -> None:
    """For each number on standard input, run that many steps and print their seconds, tokens and memory."""
    torch.manual_seed(1)
    batches, at = batches_of(1), 0
    step = SYSTEMS[system][2](config_of(size, float(dropout)), precision)
    pid = step.pid if isinstance(step, MarianTurns) else "self"
    for line in sys.stdin:
        tokens, start = 0, now(clock, pid)
        if isinstance(step, MarianTurns):
            tokens = step(int(line))
        else:
            for _ in range(int(line)):
                batch = batches[at % len(batches)]
                step(batch)
                tokens += batch.target_tokens
                at += 1
        seconds = now(clock, pid) - start
        print(json.dumps({"seconds": seconds, "tokens": tokens, "peak_mb": peak_mb(pid)}), flush=True)
    if isinstance(step, MarianTurns):
        step.close()


def now(clock: str, pid: int | str) -> float:
    """Seconds: of the processor that a process has used, or of the day."""
    return processor_s(pid) if clock == "processor" else time.perf_counter()


def work_of(config: ModelConfig, batch: Batch) -> float:
    """Multiply-adds of forward and backward (twice the forward), without padding."""
    d, wide = config.d_model, config.d_ff
    src, tgt = ((ids != 0).sum(1).double() for ids in (batch.src_ids, batch.tgt_in_ids))
    encoder = config.n_encoder_layers * (src * (4 * d * d + 2 * d * wide) + 2 * d * src * src)
    products = tgt * (6 * d * d + 2 * d * wide) + 2 * d * d * src
    decoder = config.n_decoder_layers * (products + d * tgt * tgt + 2 * d * tgt * src)
    return 3 * float((encoder + decoder + tgt * d * config.tgt_vocab).sum())


def ceiling(config: ModelConfig, precision: str, clock: str, seconds: float = 0.5) -> float:
    """Multiply-adds per second of a matrix product of the feed-forward network's size, on all cores."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    x, w = torch.randn(1_660, config.d_model).to(kind), torch.randn(config.d_model, config.d_ff).to(kind)
    count, start = 0, now(clock, "self")
    while (spent := now(clock, "self") - start) < seconds or count < 2:
        x @ w
        count += 1
    return count * x.shape[0] * w.numel() / spent


def measure(size: str, precision: str, dropout: float, options: argparse.Namespace) -> dict[str, Any]:
    """One column of the results: rounds in which the systems take turns."""
    config, batches = config_of(size, dropout), batches_of(1)
    steps = options.steps
    tokens = [batch.target_tokens for batch in batches]
    cores = str(available_cores())
    arms = {
        system: Answerer(
            __file__, "--serve", system, size, precision, str(dropout), options.clock, OMP_NUM_THREADS=cores
        )
        for system in options.systems
        if (system, precision) != ("marian", "bf16")
    }
    for arm in arms.values():
        arm.ask(WARM_UP)
    per_token: dict[str, list[float]] = {system: [] for system in arms}
    rates, work, memory = [], [], {}
    at = WARM_UP
    for _ in range(options.rounds):
        rates.append(ceiling(config, precision, options.clock))
        done = [(at + step) % len(batches) for step in range(steps)]
        work.append(sum(work_of(config, batches[place]) for place in done) / sum(tokens[place] for place in done))
        for system, arm in arms.items():
            answer = arm.ask(steps)
            per_token[system].append(answer["seconds"] / answer["tokens"])
            memory[system] = answer["peak_mb"]
        at += steps
    for arm in arms.values():
        arm.close()
    print(f"\n{size}, {precision}, dropout {dropout:g}: {statistics.mean(tokens):.0f} target tokens a batch")
    result: dict[str, Any] = {"rounds": options.rounds, "tokens_per_s": {}, "ratios": {}, "share_of_ceiling": {},
                              "ceiling_multiply_adds_per_s": statistics.median(rates), "peak_mb": memory}  # fmt: skip
    for system, row in per_token.items():
        speed = result["tokens_per_s"][system] = spread([1 / value for value in row])
        each = [w / s for w, s in zip(work, row, strict=True)]
        share = result["share_of_ceiling"][system] = statistics.median(each) / statistics.median(rates)
        around = f"{speed['lower_quartile']:.0f} to {speed['upper_quartile']:.0f}"
        print(f"  {SYSTEMS[system][0]:16} {speed['median']:8.0f} tokens/s   {around}   {100 * share:.0f} % of the "
              f"ceiling, {memory[system]:.0f} MB")  # fmt: skip
    ours = per_token.pop("glassformer", None)
    for system, theirs in per_token.items() if ours else ():
        row = result["ratios"][f"glassformer / {system}"] = ratio(ours, theirs)
        around = f"95 % {row['low']:.2f} to {row['high']:.2f}"
        print(f"  glassformer / {SYSTEMS[system][0]:16} {row['median']:6.2f} x   {around}")
    return result


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:7])
        return
    parser = new_parser(__doc__)
    parser.add_argument("--sizes", nargs="+", choices=["micro", "tiny", "small", "base"], default=["small", "base"])
    parser.add_argument("--precisions", nargs="+", choices=["float32", "bf16"], default=["float32", "bf16"])
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS], default=[*SYSTEMS])
    parser.add_argument("--dropouts", type=float, nargs="+", default=[0.1, 0.0])
    parser.add_argument("--rounds", type=int, default=5, help="at least 2")
    parser.add_argument("--steps", type=int, default=6, help="steps of each system in each round")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall",
                        help="processor: its seconds, for one thread on a machine that is not quiet")  # fmt: skip
    options = parse_options(parser, "--sizes tiny --precisions float32 --dropouts 0 --rounds 2 --steps 1")
    if options.rounds < 2:
        parser.error(f"--rounds: found {options.rounds}, expected at least 2, for a spread.")
    for system in set(options.systems) & set(missing()):
        print(f"{SYSTEMS[system][0]} is not installed and is skipped.")
        options.systems.remove(system)
    results: dict[str, Any] = {"machine": machine(), "versions": versions(options.systems), "clock": options.clock,
                               "columns": {}}  # fmt: skip
    if options.json and options.json.is_file():
        results["columns"] = json.loads(options.json.read_text("utf-8"))["columns"]
    for size in options.sizes:
        for precision in options.precisions:
            for dropout in options.dropouts:
                column = f"{size}, {precision}, dropout {dropout:g}"
                results["columns"][column] = measure(size, precision, dropout, options)
                write_json(options.json, results)


if __name__ == "__main__":
    main()
