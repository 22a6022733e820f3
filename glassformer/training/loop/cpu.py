"""Training on a CPU: how many threads to use, and how the C library allocates memory."""

import ctypes
import os
import sys
from statistics import median

import torch

from glassformer.settings import RunConfig
from glassformer.threads import may_choose, time_threads
from glassformer.training.reporting.run_log import Display
from glassformer.world import World

_AT_IMPORT = torch.get_num_threads()  # another number later is a person's
_TEST_TOKENS, _TEST_S = 2048, 1.0
_MIN_GAIN = 1.25  # for a change during a training: less may be noise
_STRETCH_S, _MINUTE, _TEN_MINUTES = 10.0, 6, 60  # the speed is measured over stretches of ten seconds
_SLOW = 0.7  # of the usual speed
_MAX_PATIENCE = 32
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h names them M_TRIM_THRESHOLD and so on


class TrainingThreads:
    """How many threads each process of a training uses: what ``train.threads`` says; auto is the fastest number.

    The last bits of every sum depend on it. So a training continues with the number that saved its checkpoint.
    All processes call this together, and take the same number.
    """

    def __init__(self, config: RunConfig, world: World, display: Display) -> None:
        self._config, self._world, self._display = config, world, display
        self._most = 1  # the highest number that auto may choose
        self._watch = SpeedWatch()

    def choose(self, saved: int | None) -> None:
        """Set the number with which a training begins, or continues from a checkpoint that was ``saved`` with one."""
        setting = self._config.train.threads
        rows = self._world.all_gather(torch.get_num_threads(), _are_given())
        if setting != "auto":
            count, reason = setting, "as train.threads says"
        elif any(given for _, given in rows):
            count, reason = torch.get_num_threads(), "as OMP_NUM_THREADS or torch.set_num_threads says"
        else:
            self._most = int(min(threads for threads, _ in rows))
            if saved is not None and 1 <= saved <= self._most:
                count, reason = saved, "as in the checkpoint"
            else:
                torch.set_num_threads(self._most)
                seconds = self._time()
                count, reason = min(seconds, key=seconds.__getitem__), f"the fastest number up to {self._most} now"
        torch.set_num_threads(count)
        self._display.log(f"Threads: {count}, {reason}.")
        if saved not in (None, count):
            self._display.log(f"Saved with {saved} threads, now {count}: results may differ in the last bits.")

    def choose_again(self, elapsed_s: float, tokens: int, update: int) -> bool:
        """After ``update``, measure again if there is a reason; True if the number has changed.

        ``elapsed_s`` and ``tokens`` count the seconds and the target tokens of the training so far.
        """
        before = torch.get_num_threads()
        if self._most == 1 or not (reason := self._watch.reason(elapsed_s, tokens, few=before < self._most)):
            return False
        seconds = self._time()
        count = min(seconds, key=seconds.__getitem__)
        gain = seconds[before] / seconds[count]
        text = f"{count} instead of {before} from update {update + 1} on, {gain:.1f} times as fast now"
        if gain < _MIN_GAIN:
            count, text = before, f"still {before}, no other number is much faster now"
        torch.set_num_threads(count)
        self._display.log(f"Threads: {text}; measured because {reason}.")
        return count != before

    def _time(self) -> dict[int, float]:
        """The seconds that a layer takes with each number of threads in the slowest process."""
        seconds = time_threads(self._config.model, self._most, _TEST_TOKENS, _TEST_S)
        columns = zip(*self._world.all_gather(*seconds.values()), strict=True)
        return dict(zip(seconds, map(max, columns), strict=True))


class SpeedWatch:
    """The speed of a training, and when it is worth measuring the threads again: each time it takes twice as long."""

    def __init__(self) -> None:
        self._start = (0.0, 0)
        self._speeds: list[float] = []  # target tokens a second in each stretch
        self._patience = 1

    def reason(self, elapsed_s: float, tokens: int, *, few: bool) -> str:
        """Why to measure now; empty if there is no reason. The arguments count the seconds and tokens so far.

        The training has been slow for a minute; or it has had ``few`` threads for ten, and a core may be free again.
        """
        start_s, start_tokens = self._start
        if elapsed_s - start_s < _STRETCH_S:
            return ""
        self._speeds.append((tokens - start_tokens) / (elapsed_s - start_s))
        self._start = elapsed_s, tokens
        usual, minute = self._speeds[:-_MINUTE], self._speeds[-_MINUTE:]
        if len(usual) >= _MINUTE * self._patience and max(minute) < _SLOW * median(usual):
            reason = f"for a minute the speed was below {_SLOW} of its median"
        elif few and len(self._speeds) >= _TEN_MINUTES * self._patience:
            reason = "a core may be free again"
        else:
            return ""
        self._speeds, self._patience = [], min(2 * self._patience, _MAX_PATIENCE)
        return reason


def _are_given() -> bool:
    """Whether a person has named the number of threads."""
    return not may_choose() and ("OMP_NUM_THREADS" in os.environ or torch.get_num_threads() != _AT_IMPORT)


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
