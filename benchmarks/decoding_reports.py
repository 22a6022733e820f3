"""What ``decoding.py`` reports beside its cells: BLEU of each mode, where the time goes, and starting up."""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from decoding_models import lines
from decoding_systems import Glassformer, Search, Setting
from machine import spread

from glassformer.run_directory import RunDirectory

SHOWN = 12
STARTS = {
    "python": ["-c", "pass"], "import torch": ["-c", "import torch"],
    "import a Translator": ["-c", "from glassformer.decoding import Translator"],
}  # fmt: skip


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


def profile(name: str, run: Path | None, precision: str, ids: list[list[int]], search: Search) -> dict[str, Any]:
    """Share of each operator's own time in one thread, the twelve dearest, and what no operator accounts for."""
    system = Glassformer(name, run, Path(), Setting("glassformer", precision, 1))
    system(ids[:8], search)
    start = time.perf_counter()
    system(ids, search)
    plain = time.perf_counter() - start
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as made:
        system(ids, search)
    rows = sorted(made.key_averages(), key=lambda row: -row.self_cpu_time_total)
    total = sum(row.self_cpu_time_total for row in rows)
    shares = {
        row.key: {"share": row.self_cpu_time_total / total, "calls": row.count, "us_each":
                  row.self_cpu_time_total / row.count}
        for row in rows[:SHOWN]
    }  # fmt: skip
    print(f"\nprofile of glassformer {precision}, {name}, {search}")
    print(f"  {len(ids)} sentences in {plain:.2f} s without the profiler, one thread; "
          f"operators {total / 1e6:.2f} s with it")  # fmt: skip
    for key, row in shares.items():
        print(f"  {key:40} {100 * row['share']:5.1f} %   {row['calls']:7} calls   {row['us_each']:9.1f} us each")
    return {"seconds": plain, "operators_s_profiled": total / 1e6, "operators": shares, "sentences": len(ids)}


def start_up(run: Path, times: int = 7) -> dict[str, Any]:
    """Whole processes, by turns: ``glassformer translate`` of one sentence, and what is in it anyway."""
    commands = {
        **{name: [sys.executable, *arguments] for name, arguments in STARTS.items()},
        "glassformer translate": [sys.executable, "-m", "glassformer", "translate", "--run", str(run)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(times):
        for name, command in commands.items():
            seconds[name].append(_seconds(command))
    rows = {name: spread(values) for name, values in seconds.items()}
    print("\nwhole processes")
    for name, row in rows.items():
        print(f"  {name:24} {row['median']:6.2f} s   {row['lower_quartile']:.2f} to {row['upper_quartile']:.2f}")
    beside = statistics.median(seconds["glassformer translate"]) / statistics.median(seconds["import torch"])
    return {"seconds": rows, "glassformer translate / import torch": beside}


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, input="A man sleeps.\n", capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return time.perf_counter() - start
