"""The machine of a benchmark, and statistics of repeated measurements."""

import random
import statistics

from glassformer.reproduction.machine import machine

__all__ = ["machine", "ratio", "spread"]


def spread(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "lower_quartile": low, "upper_quartile": high}


def ratio(over: list[float], under: list[float]) -> dict[str, float]:
    """Speed of ``over`` relative to ``under`` (both in seconds): ratio of medians, 95 % bootstrap interval."""
    draws = []
    for _ in range(1000):
        rounds = random.choices(range(len(over)), k=len(over))
        draws.append(statistics.median(under[i] for i in rounds) / statistics.median(over[i] for i in rounds))
    draws.sort()
    return {"median": statistics.median(under) / statistics.median(over), "low": draws[25], "high": draws[974]}
