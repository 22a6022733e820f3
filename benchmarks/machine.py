"""The machine of a measurement: processor, threads, versions; and statistics of repeated measurements."""

import os
import platform
import random
import statistics
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from glassformer.version import __version__

LIBRARIES = ("tokenizers", "sacrebleu", "sacremoses", "numpy")


def machine() -> dict[str, Any]:
    """Processor, GPU if there is one, threads, and the versions of the system, Python, PyTorch and glassformer."""
    names = [line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")]
    gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(names),
        **gpu,
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "glassformer": __version__,
    }


def library_versions() -> dict[str, str]:
    """The versions of the installed libraries that tokenise and score text."""
    return {name: found for name in LIBRARIES if (found := _version(name))}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def peak_mb(pid: int | str = "self") -> float:
    """The most memory that a process has had, in MB of 2^20 bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def processor_s(pid: int | str = "self") -> float:
    """The processor seconds that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spread(values: list[float]) -> dict[str, float]:
    """Median and quartiles; all the same of a single value."""
    low, median, high = statistics.quantiles(values * 2 if len(values) == 1 else values, n=4)
    return {"median": median, "lower_quartile": low, "upper_quartile": high}


def ratio(over: list[float], under: list[float]) -> dict[str, float]:
    """Speed of ``over`` relative to ``under`` (both in seconds): ratio of medians, 95 % bootstrap interval."""
    draws = []
    for _ in range(1000):
        rounds = random.choices(range(len(over)), k=len(over))
        draws.append(statistics.median(under[i] for i in rounds) / statistics.median(over[i] for i in rounds))
    draws.sort()
    return {"median": statistics.median(under) / statistics.median(over), "low": draws[25], "high": draws[974]}
