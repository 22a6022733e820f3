"""How many threads pay.

They wait for one another after each product: too many divide those of a small model too finely, and all stall when
another program has the core of one.

How the C library hands out memory during a training. Knows nothing of tensors.
"""

import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

_ROWS = 256
_SECONDS, _FEWEST_ROUNDS = 1.0, 3
_NOISE = 1.25  # a gain below this one says nothing


@dataclass(frozen=True)
class Fewer:
    """The number of threads that is faster than PyTorch's own, and how many times as fast."""

    threads: int
    gain: float


def fewer_threads(d_model: int, d_ff: int) -> Fewer | None:
    """Measure for a second whether fewer threads would be faster now; None where they would not.

    What is measured is a feed-forward sublayer of these widths with as many threads as PyTorch has, one less, half of
    them, a quarter and so on.
    """
    threads = torch.get_num_threads()
    halves = (threads >> times for times in range(threads.bit_length()))
    took = dict.fromkeys(sorted({max(1, threads - 1), *halves}), 0.0)
    if len(took) == 1:
        return None
    x, w_1, w_2 = torch.ones(_ROWS, d_model), torch.ones(d_model, d_ff), torch.ones(d_ff, d_model)
    began, rounds = time.perf_counter(), 0
    while rounds < _FEWEST_ROUNDS or time.perf_counter() - began < _SECONDS:
        for count in took:
            with threads_of(count):
                _feed_forward(x, w_1, w_2)  # wakes the threads
                start = time.perf_counter()
                for _ in range(4):
                    _feed_forward(x, w_1, w_2)
                took[count] += time.perf_counter() - start
        rounds += 1
    fastest = min(took, key=lambda count: took[count])
    gain = took[threads] / took[fastest]
    return Fewer(fastest, gain) if gain > _NOISE else None


def _feed_forward(x: torch.Tensor, w_1: torch.Tensor, w_2: torch.Tensor) -> None:
    torch.layer_norm(x + torch.relu(x @ w_1) @ w_2, x.shape[-1:])


@contextmanager
def threads_of(count: int) -> Iterator[None]:
    """PyTorch with ``count`` threads, and afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # the names of malloc.h, with M_ before them


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for the next allocation, rather than return it to the system; elsewhere nothing.

    The tensors of an update have the same sizes time after time. By default each large one is mapped anew and its
    pages are cleared as they are touched, which takes a good part of a training step on a CPU. The process keeps its
    largest size until it ends.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 2**26)
