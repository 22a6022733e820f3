"""The machine of a measurement: processor, threads, versions."""

import platform
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
