"""How the C library hands out memory during a training. Knows nothing of tensors."""

import ctypes
import sys

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
