"""Training on a CPU: threads and allocation."""

import ctypes
import os
import sys

import torch

from glassformer.settings import RunConfig
from glassformer.threads import may_choose, time_threads
from glassformer.training.reporting.run_log import Display
from glassformer.world import World

_AT_IMPORT = torch.get_num_threads()  # another number later is a person's
_TEST_TOKENS, _TEST_S = 2048, 1.0
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h names them M_TRIM_THRESHOLD and so on


def choose_threads(config: RunConfig, world: World, display: Display, saved: int | None) -> None:
    """Set the threads of each process of a training: what ``train.threads`` says; auto is the fastest number.

    The last bits of every sum depend on it: a training continues with the number that ``saved`` its checkpoint.
    """
    setting = config.train.threads
    rows = world.all_gather(torch.get_num_threads(), _are_given())
    if setting != "auto":
        count, reason = setting, "as train.threads says"
    elif any(given for _, given in rows):
        count, reason = torch.get_num_threads(), "as OMP_NUM_THREADS or torch.set_num_threads says"
    else:
        most = int(min(threads for threads, _ in rows))
        if saved is not None and 1 <= saved <= most:
            count, reason = saved, "as in the checkpoint"
        else:
            count, reason = _find_fastest(config, world, most), f"the fastest number up to {most} now"
    torch.set_num_threads(count)
    display.log(f"Threads: {count}, {reason}.")
    if saved not in (None, count):
        display.log(f"Saved with {saved} threads, now {count}: results may differ in the last bits.")


def _find_fastest(config: RunConfig, world: World, most: int) -> int:
    """The number with which a layer is fastest in the slowest process."""
    torch.set_num_threads(most)
    seconds = time_threads(config.model, most, _TEST_TOKENS, _TEST_S)
    columns = zip(*world.all_gather(*seconds.values()), strict=True)
    slowest = dict(zip(seconds, map(max, columns), strict=True))
    return min(slowest, key=slowest.__getitem__)


def _are_given() -> bool:
    """Whether a person has named the number of threads."""
    return not may_choose() and ("OMP_NUM_THREADS" in os.environ or torch.get_num_threads() != _AT_IMPORT)


def keep_freed_memory() -> None:
    """Let glibc reuse freed memory: mapping it anew slows training on a CPU."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 2**26)
