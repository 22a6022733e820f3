"""Keep freed memory for the next step instead of giving it back to the system after each one.

A training step frees and asks for the same large blocks again and again; by default glibc maps and unmaps them,
and the system clears every page anew. ``benchmarks/training_step.py`` measures the difference.
"""

import ctypes
import sys

# Numbers of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_TOP_PAD = 64 * 2**20


def keep_freed_memory() -> bool:
    """Set the allocator of this process; False where it is not glibc's, and nothing is changed."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, _TOP_PAD))
    return all(mallopt(ctypes.c_int(name), ctypes.c_int(value)) == 1 for name, value in settings)
