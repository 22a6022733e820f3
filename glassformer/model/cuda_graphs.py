"""CUDA graphs: the kernels of a function, launched at once on the same places in memory.

A GPU computes the passes of these models faster than a CPU can launch their kernels one by one. Each shape needs a
graph of its own, so that sizes are rounded up to few.
"""

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import torch

Result = TypeVar("Result")


class CudaGraphs:
    """Captures functions that compute on ``device``, one after another; they share memory for what is in between."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            self._pool = torch.cuda.graph_pool_handle()
            self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch leaves it without types

    def capture(self, compute: Callable[[], Result], *, warm_up: int) -> Callable[[], Result]:
        """A function that does what ``compute`` does, from the tensors that it reads now to those that it writes now.

        ``compute`` is called ``warm_up`` times and once more, and then no longer: Python is not replayed, and the
        result is the same tensors each time. On another device than a GPU it is ``compute`` itself.
        """
        if self._device.type != "cuda":
            return compute
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device)
        with _ONE_AT_A_TIME, torch.cuda.device(self._device):
            self._side.wait_stream(current)
            with torch.cuda.stream(self._side):
                for _ in range(warm_up):
                    compute()
            current.wait_stream(self._side)
            with torch.cuda.graph(graph, pool=self._pool, stream=self._side, capture_error_mode="thread_local"):
                result = compute()

        def replay() -> Result:
            graph.replay()
            return result

        return replay


_ONE_AT_A_TIME = Lock()  # PyTorch captures no two at once


def round_up(count: int, bits: int) -> int:
    """The next number with at most so many significant bits."""
    step = 1 << max(0, count.bit_length() - bits)
    return -(-count // step) * step
