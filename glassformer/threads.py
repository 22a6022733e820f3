"""How many threads PyTorch uses: the fastest number here and now, unless a person has named one."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from glassformer.model import Transformer
from glassformer.model.layers import EncoderLayer
from glassformer.model.masks import Mask
from glassformer.settings import ModelConfig

_LENGTH = 16  # tokens of a sentence
_SHORT_TOKENS, _SHORT_S = 512, 0.1


def may_choose() -> bool:
    """Whether this is one of our commands, and nobody has named a number."""
    return os.environ.get("GLASSFORMER_THREADS", "") == os.environ.get("OMP_NUM_THREADS")


def fit_threads(model: Transformer) -> None:
    """Let one of our commands translate with the fastest number."""
    if may_choose() and next(model.parameters()).device.type == "cpu":
        seconds = time_threads(model.config, torch.get_num_threads(), _SHORT_TOKENS, _SHORT_S)
        torch.set_num_threads(min(seconds, key=seconds.__getitem__))


def time_threads(config: ModelConfig, most: int, tokens: int, seconds: float) -> dict[int, float]:
    """The mean seconds of a layer on ``tokens`` tokens with each number of threads; a single one is not measured.

    These are ``most``, one less, half, a quarter and so on, and the present number. They take turns for ``seconds``.
    """
    counts = {torch.get_num_threads(), max(1, most - 1), *(most >> times for times in range(most.bit_length()))}
    spent, turns = dict.fromkeys(sorted(counts), 0.0), 0
    if len(spent) == 1:
        return spent
    with keep_threads(), torch.random.fork_rng(devices=[]):  # a training keeps its own random numbers
        work, began = _encoder_layer(config, tokens), time.perf_counter()
        while not turns or time.perf_counter() - began < seconds:
            turns += 1
            for count in spent:
                torch.set_num_threads(count)
                work()  # wakes the threads
                start = time.perf_counter()
                work()
                spent[count] += time.perf_counter() - start
    return {count: total / turns for count, total in spent.items()}


def _encoder_layer(config: ModelConfig, tokens: int) -> Callable[[], object]:
    """The work that is timed: threads gain about as much in it as in a whole update."""
    layer = EncoderLayer(replace(config, positions="sinusoidal"))
    rows = max(1, tokens // _LENGTH)
    x = torch.ones(rows, _LENGTH, config.d_model)
    mask = Mask.from_visible(torch.ones(rows, 1, 1, _LENGTH, dtype=torch.bool))
    return lambda: torch.autograd.grad(layer(x, mask).sum(), list(layer.parameters()))


@contextmanager
def keep_threads() -> Iterator[None]:
    """After the block, PyTorch uses as many threads as before."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
