"""What a benchmark says of where it ran, and how it sums up repeated measurements."""

import platform
import random
import statistics
from pathlib import Path
from typing import Any

import torch

from glassformer.version import __version__


def machine() -> dict[str, Any]:
    """Processor, threads and versions."""
    names = [line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(names),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "glassformer": __version__,
    }


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def spread(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "lower_quartile": low, "upper_quartile": high}


def ratio(over: list[float], under: list[float]) -> dict[str, float]:
    """How many times as fast ``over`` seconds are as ``under``: of medians, and where 95 % of redrawn ones lie."""
    draws = []
    for _ in range(1000):
        rounds = random.choices(range(len(over)), k=len(over))
        draws.append(statistics.median(under[i] for i in rounds) / statistics.median(over[i] for i in rounds))
    draws.sort()
    return {"median": statistics.median(under) / statistics.median(over), "low": draws[25], "high": draws[974]}
