"""Training on a CPU: how many threads to use, and how the C library allocates memory.

Threads wait for one another after each product: too many of them, or one whose core another program uses, slow all.
"""

import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

_ROWS = 256
_SECONDS, _MIN_ROUNDS = 1.0, 3
_MIN_SPEEDUP = 1.25  # less may be noise
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h names them M_TRIM_THRESHOLD and so on


@dataclass(frozen=True)
class ThreadAdvice:
    """A number of threads that is faster than PyTorch's current one, and how many times as fast."""

    threads: int
    speedup: float


def recommend_threads(d_model: int, d_ff: int) -> ThreadAdvice | None:
    """The number of threads that is faster now than PyTorch's own, from a test of a second; None if there is none.

    Times a feed-forward sublayer of these widths with that number, one less, half of it, a quarter and so on.
    """
    threads = torch.get_num_threads()
    halves = (threads >> times for times in range(threads.bit_length()))
    seconds = dict.fromkeys(sorted({max(1, threads - 1), *halves}), 0.0)
    if len(seconds) == 1:
        return None
    x, w_1, w_2 = torch.ones(_ROWS, d_model), torch.ones(d_model, d_ff), torch.ones(d_ff, d_model)
    began, rounds = time.perf_counter(), 0
    while rounds < _MIN_ROUNDS or time.perf_counter() - began < _SECONDS:
        for count in seconds:
            with use_threads(count):
                _feed_forward(x, w_1, w_2)  # wakes the threads
                start = time.perf_counter()
                for _ in range(4):
                    _feed_forward(x, w_1, w_2)
                seconds[count] += time.perf_counter() - start
        rounds += 1
    fastest = min(seconds, key=lambda count: seconds[count])
    speedup = seconds[threads] / seconds[fastest]
    return ThreadAdvice(fastest, speedup) if speedup > _MIN_SPEEDUP else None


def _feed_forward(x: torch.Tensor, w_1: torch.Tensor, w_2: torch.Tensor) -> None:
    torch.layer_norm(x + torch.relu(x @ w_1) @ w_2, x.shape[-1:])


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let PyTorch use ``count`` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_freed_memory() -> None:
    """Let glibc reuse freed memory instead of returning it to the system; does nothing without glibc.

    By default glibc maps each large tensor anew, and the system clears its pages on first use, which takes a good
    part of a training step on a CPU. The process keeps its largest size until it ends.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 2**26)
