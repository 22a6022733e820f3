"""How many threads PyTorch uses: the fastest number here and now, unless a person has named one.

Threads wait for one another after each operation. With too many of them, each has too little to do in a small model;
and when another program uses the core of one, all wait for it.
"""

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
_TURNS = 3  # of each number: what other programs do changes from moment to moment
_SHORT_TOKENS, _SHORT_S = 512, 0.1


def may_choose() -> bool:
    """Whether this process is one of our commands, and no person has named the number of its threads."""
    return os.environ.get("GLASSFORMER_THREADS", "") == os.environ.get("OMP_NUM_THREADS")


def fit_threads(model: Transformer) -> None:
    """Let one of our commands translate with the fastest number of threads for ``model``, if it may choose."""
    if may_choose() and next(model.parameters()).device.type == "cpu":
        seconds = time_threads(model.config, torch.get_num_threads(), _SHORT_TOKENS, _SHORT_S)
        torch.set_num_threads(min(seconds, key=seconds.__getitem__))


def time_threads(config: ModelConfig, most: int, tokens: int, seconds: float) -> dict[int, float]:
    """The seconds that an encoder layer takes with each number of threads that is worth a try.

    These are ``most``, one less, half of them, a quarter and so on, and the number that PyTorch uses now. They take
    turns on ``tokens`` tokens, forward and backward, for about ``seconds`` seconds. A single one is not measured.
    """
    counts = {torch.get_num_threads(), max(1, most - 1), *(most >> times for times in range(most.bit_length()))}
    spent, calls = dict.fromkeys(sorted(counts), 0.0), dict.fromkeys(counts, 0)
    if len(spent) == 1:
        return spent
    turn_s = seconds / (_TURNS * len(spent))
    with keep_threads(), torch.random.fork_rng(devices=[]):  # a training keeps its own random numbers
        work, began = _encoder_layer(config, tokens), time.perf_counter()
        while not all(calls.values()) or time.perf_counter() - began < seconds:
            for count in spent:
                torch.set_num_threads(count)
                work()  # wakes the threads
                done, passed = _repeat(work, turn_s)
                calls[count] += done
                spent[count] += passed
    return {count: total / calls[count] for count, total in spent.items()}


def _repeat(work: Callable[[], object], seconds: float) -> tuple[int, float]:
    """Do it again and again for so many seconds, at least once: how often, and how long that took."""
    start, times, passed = time.perf_counter(), 0, 0.0
    while not times or passed < seconds:
        work()
        times, passed = times + 1, time.perf_counter() - start
    return times, passed


def _encoder_layer(config: ModelConfig, tokens: int) -> Callable[[], object]:
    """The work that is timed: threads gain and lose about as much in it as in an update, which takes much longer."""
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
