"""What ``decoding.py`` reports beside its cells: BLEU of each mode, and where the time goes."""

import time
from pathlib import Path
from typing import Any

import torch
from decoding_models import lines
from decoding_systems import Glassformer, Search, Setting

from glassformer.run_directory import RunDirectory

SHOWN = 12


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
