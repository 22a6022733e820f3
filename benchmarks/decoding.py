"""glassformer beside Hugging Face's generate, CTranslate2 and Marian: the same weights, the same sentences, one call.

    python benchmarks/decoding.py [--run DIR] [--data DIR] [--sentences 1000] [--rounds 5] [--cells small-greedy ...]
                                  [--systems glassformer engine hf ct2 marian] [--precisions float32 int8]
                                  [--beam 5] [--bleu] [--json FILE]

``engine`` is glassformer's own engine that runs the weights with CTranslate2, ``ct2`` CTranslate2 alone.
``marian`` is Marian itself (intgemm8 for int8), and needs a --run with model.sinusoid = tensor2tensor whose outputs
end, since it knows no limit of tokens. With a shortlist of the run, int8 is measured with it, too.
The peers are no dependency: ``pip install '.[bench]'`` installs them, ``pip install pymarian`` Marian (604 MB). One
that is missing is left out and named. Without --run, which wants a post-norm run with tied embeddings and the table
of positions, ``small`` has random weights.

A cell is a model and a search: ``small`` or ``base``, and greedy or a beam in batches, or greedy one by one, where a
sentence waits for the one before. ``base`` has random weights and a bias that forbids eos in every system alike, so
that each output has 16 tokens. Everything goes in and out as ids: neither loading nor tokenisation is timed. Beam
search has no length penalty, because the systems' formulas differ: then all of them look for the likeliest output.

First each setting of a system (threads, processes, batch size) translates the sentences once; the fastest goes on.
Then the systems take turns, round after round, so that a machine that slows down slows all of them. Printed are
medians and quartiles of sentences a second, ratios of medians with the interval in which 95 of 100 lie when the
rounds are drawn again, how many outputs are the same token by token, and the share of the ceiling: the multiply-adds
that the translations need, over those that matrix products alone reach on this machine in the same run.
"""

import argparse
import random
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from decoding_agreement import agreement
from decoding_ceiling import SIZES, Ceiling
from decoding_models import (
    convert_model,
    convert_to_marian,
    is_forced,
    lines,
    model_of,
    multiply_adds,
    output_limit,
    sentences_of,
    shortlist_of,
)
from decoding_systems import NEEDS, Runner, Search, Setting, is_installed
from machine import machine, ratio, spread
from smoke import new_parser, parse_options, write_json

from glassformer.run_directory import RunDirectory
from glassformer.settings import ModelConfig
from glassformer.text.corpus.workers import available_cores

CORES = available_cores()
SEARCHES = ("greedy", "beam", "single")
CELLS = [f"{model}-{search}" for model in SIZES for search in SEARCHES]
ARMS = {
    "glassformer": ("glassformer", "float32"), "glassformer bf16": ("glassformer", "bf16"),
    "glassformer ctranslate2": ("engine", "float32"), "glassformer ctranslate2 int8": ("engine", "int8"),
    "hf": ("hf", "float32"), "ct2": ("ct2", "float32"), "ct2 int8": ("ct2", "int8"),
    "ct2 int8 shortlist": ("ct2", "int8"), "marian": ("marian", "float32"), "marian int8": ("marian", "int8"),
    "marian int8 shortlist": ("marian", "int8"),
}  # fmt: skip


def settings_of(arm: str, search: str) -> list[Setting]:
    """Ways to share the cores that are tried: threads in one process, or one thread in each of several."""
    (system, precision), shortlist = ARMS[arm], arm.endswith("shortlist")
    alone = [Setting(system, precision, threads, shortlist=shortlist) for threads in sorted({1, CORES}, reverse=True)]
    if search == "single" or CORES == 1 or system == "marian":
        return alone
    if system != "hf":
        return [alone[0], Setting(system, precision, 1, workers=CORES, shortlist=shortlist)]
    return [alone[0], Setting(system, precision, 1, processes=CORES)]


def batches_of(system: str, search: str) -> tuple[int, ...]:
    """Batch sizes that are tried: sentences, or glassformer's batch_tokens."""
    if search == "single":
        return (1,)
    if system in {"glassformer", "engine"}:
        return (2048, 8192, 4096) if search == "beam" else (1024, 2048, 4096)
    return (16, 32, 64) if search == "beam" else (32, 64, 128)


def arms_of(options: argparse.Namespace, model: str) -> dict[str, str]:
    """The system of each arm that can run; says which cannot."""
    arms = {}
    for name, (system, precision) in ARMS.items():
        if system not in options.systems or precision not in options.precisions:
            continue
        if name.endswith("shortlist") and shortlist_of(options.run) is None:
            continue
        if not is_installed(system):
            print(f"{name}: left out, {NEEDS[system]} is not here. Install it: pip install {NEEDS[system]}")
        elif system == "marian" and is_forced(model, options.run):
            print(f"{name}: left out, it needs outputs that end, of a --run.")
        else:
            arms[name] = system
    return arms


def tune(
    settings: list[Setting], batches: tuple[int, ...], start: Callable[[Setting], Runner], ids: list[list[int]],
    search: Search,
) -> tuple[Runner, Search, dict[str, float]]:  # fmt: skip
    """The fastest way, with its processes still running, and the sentences a second of each."""
    if not ids:  # nothing to try them with
        return start(settings[-1]), replace(search, batch=batches[len(batches) // 2]), {}
    speeds: dict[str, float] = {}
    best: tuple[float, Runner, Search] | None = None
    for setting in settings:
        runner = start(setting)
        for batch in batches:
            asked = replace(search, batch=batch)
            runner(ids, asked)  # warms up, and starts every worker
            speed = speeds[f"{setting}, batch {batch}"] = len(ids) / runner(ids, asked)[0]
            if best is None or speed > best[0]:
                if best is not None and best[1] is not runner:
                    best[1].close()
                best = speed, runner, asked
        if best is not None and best[1] is not runner:
            runner.close()
    assert best is not None
    return best[1], best[2], speeds


def measure(cell: str, options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """One cell: settings, rounds, agreement, ceiling."""
    name, kind = cell.split("-")
    beam, one_by_one = options.beam if kind == "beam" else 1, kind == "single"
    search = Search(beam, output_limit(name, options.run), one_by_one, clock=options.clock)
    ids = sentences_of(options.run, options.data, options.sentences)
    if one_by_one:
        ids = ids[:: max(1, len(ids) // options.single_sentences)][: options.single_sentences]
    arms = arms_of(options, name)
    print(f"\n{cell}: {len(ids)} sentences, beam {beam}{', one by one' if one_by_one else ''}")

    def start(setting: Setting) -> Runner:
        return Runner(name, options.run, directory, setting)

    few = ids[:: max(1, len(ids) // options.tuning_sentences)] if options.tuning_sentences else []
    runners, searches, tunings = {}, {}, {}
    for arm, system in arms.items():
        ways = settings_of(arm, kind), batches_of(system, kind)
        runners[arm], searches[arm], tunings[arm] = tune(*ways, start, few, search)
        runners[arm](ids, searches[arm])  # warms up, and starts every worker
        print(f"  {arm:28} runs as {runners[arm].setting}, batch {searches[arm].batch}", flush=True)
    ceiling = Ceiling(name)
    seconds: dict[str, list[float]] = {arm: [] for arm in arms}
    outputs, ceilings = {}, []
    for _ in range(options.rounds):
        ceilings.append(ceiling())
        for arm, runner in runners.items():
            spent, outputs[arm] = runner(ids, searches[arm])
            seconds[arm].append(spent)
    memory = {arm: runner.peak_mb for arm, runner in runners.items()}
    print("  most memory, MB: " + ", ".join(f"{arm} {size:.0f}" for arm, size in memory.items()))
    for closing in (*runners.values(), ceiling):
        closing.close()
    for arm, rows in outputs.items() if is_forced(name, options.run) else ():
        if arm.startswith("glassformer") and any(len(row) != search.limit for row in rows):
            raise SystemExit(f"{cell}: {arm} wrote fewer than {search.limit} tokens, though it cannot write eos.")
    result = summed_up(seconds, len(ids))
    result["tuning"], result["peak_mb"] = tunings, memory
    result["settings"] = {arm: f"{runner.setting}, batch {searches[arm].batch}" for arm, runner in runners.items()}
    model = model_of(name, options.run)
    result["ceiling"] = shares(result, ceilings, work_of(model.config, ids, next(iter(outputs.values())), search))
    result["agreement"] = agreement(model, ids, outputs)
    if options.bleu and not is_forced(name, options.run) and not one_by_one:
        result["bleu"] = bleu(options.run, options.data, outputs)
    return result


def summed_up(seconds: dict[str, list[float]], sentences: int) -> dict[str, Any]:
    """Sentences a second of each arm, and each glassformer arm's ratio to every other."""
    speeds = {arm: spread([sentences / value for value in values]) for arm, values in seconds.items()}
    for arm, row in speeds.items():
        around = f"{row['lower_quartile']:.1f} to {row['upper_quartile']:.1f}"
        print(f"  {arm:28} {row['median']:9.1f} sentences/s   {around}")
    ratios = {}
    for ours in (arm for arm in seconds if arm.startswith("glassformer")):
        for other in (arm for arm in seconds if arm != ours):
            row = ratios[f"{ours} / {other}"] = ratio(seconds[ours], seconds[other])
            print(f"  {ours + ' / ' + other:58} {row['median']:7.2f} x   95 % {row['low']:.2f} to {row['high']:.2f}")
    return {"sentences": sentences, "sentences_per_s": speeds, "ratios": ratios, "seconds": seconds}


def work_of(config: ModelConfig, ids: list[list[int]], outputs: list[list[int]], search: Search) -> float:
    """Multiply-adds of a sentence, on average; the step that writes eos counts."""
    steps = [min(search.limit, len(output) + 1) for output in outputs]
    return statistics.mean(
        multiply_adds(config, len(source), taken, search.beam) for source, taken in zip(ids, steps, strict=True)
    )


def shares(result: dict[str, Any], ceilings: list[dict[str, float]], work: float) -> dict[str, Any]:
    """The ceiling of each precision in sentences a second, and what share of it each arm comes to."""
    kernels = {kernel: statistics.median(each[kernel] for each in ceilings) for kernel in ceilings[0]}
    best = {
        precision: max(rate for kernel, rate in kernels.items() if kernel.startswith(precision)) / work
        for precision in ("float32", "int8")
    }
    arms = {
        arm: row["median"] / best["int8" if "int8" in arm else "float32"]
        for arm, row in result["sentences_per_s"].items()
    }
    print(f"  {work / 1e6:.0f} million multiply-adds a sentence; ceiling: "
          f"{best['float32']:.0f} sentences/s float32, {best['int8']:.0f} int8; "
          + ", ".join(f"{arm} {100 * share:.0f} %" for arm, share in arms.items()))  # fmt: skip
    return {
        "multiply_adds_per_sentence": work,
        "multiply_adds_per_s": kernels,
        "sentences_per_s": best,
        "share": arms,
    }


def bleu(run: Path, data: Path, outputs: dict[str, list[list[int]]]) -> dict[str, float]:
    """Cased BLEU (13a) of each arm's outputs against Multi30k's test_2016."""
    import sacrebleu

    _, tokenizer = RunDirectory(run).read_tokenizers()
    scores = {}
    for arm, rows in outputs.items():
        references = lines(data, "de", len(rows))
        scores[arm] = sacrebleu.corpus_bleu([tokenizer.to_text(row) for row in rows], [references]).score
    print("  BLEU: " + ", ".join(f"{arm} {score:.2f}" for arm, score in scores.items()))
    return scores


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--run", type=Path, help="a trained small, post-norm")
    parser.add_argument("--data", type=Path, help="holds test_2016_flickr.en.gz and .de.gz; else ids are random")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--single-sentences", type=int, default=200, help="of these, one by one (default 200)")
    parser.add_argument(
        "--tuning-sentences",
        type=int,
        default=500,
        help="of these, to choose settings with; 0 takes one thread in each of several processes",
    )
    parser.add_argument("--rounds", type=int, default=5, help="at least 2")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall",
                        help="processor: its seconds, for one thread on a machine that is not quiet")  # fmt: skip
    parser.add_argument("--beam", type=int, default=5, help="of the cells with a beam")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=CELLS)
    parser.add_argument("--systems", nargs="+", choices=[*NEEDS], default=[*NEEDS])
    parser.add_argument("--precisions", nargs="+", choices=["float32", "bf16", "int8"], default=["float32", "int8"])
    parser.add_argument("--bleu", action="store_true", help="also BLEU of each arm of small (cased, 13a)")
    options = parse_options(
        parser, "--sentences 4 --single-sentences 2 --tuning-sentences 0 --rounds 2 --cells small-greedy"
    )
    if options.rounds < 2:
        parser.error(f"--rounds: found {options.rounds}, expected at least 2, for a spread.")
    if options.bleu and not (options.run and options.data):
        parser.error("--bleu needs --run and --data.")
    random.seed(1)
    results: dict[str, Any] = {
        "machine": machine(), "rounds": options.rounds, "versions": versions(), "trained": options.run is not None,
        "clock": options.clock, "beam": options.beam,
        "cells": {},
    }  # fmt: skip
    for key, value in {**results["machine"], **results["versions"]}.items():
        print(f"{key:12} {value}")
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        for name in sorted({cell.split("-")[0] for cell in options.cells}):
            if {"ct2", "engine"} & {*options.systems} and is_installed("ct2"):
                convert_model(name, options.run, directory)
            if any(ARMS[arm][0] == "marian" for arm in arms_of(options, name)):
                convert_to_marian(name, options.run, directory)
        for cell in options.cells:
            results["cells"][cell] = measure(cell, options, directory)
            write_json(options.json, results)  # so that a run that is cut short leaves what it had


def versions() -> dict[str, str]:
    """Of the peers that are here."""
    from importlib.metadata import version

    return {NEEDS[system]: version(NEEDS[system]) for system in ("hf", "ct2", "marian") if is_installed(system)}


if __name__ == "__main__":
    main()
