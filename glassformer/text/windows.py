"""The windows of an epoch over a large corpus: what is shuffled and sorted into batches at one time.

A window is made of blocks of neighbours, drawn from all over the corpus anew in each epoch. So memory does not grow
with the corpus, and a disk is read some thousand pairs at a time. Knows nothing of text, nor of lengths.
"""

import numpy as np
import numpy.typing as npt

PAIRS_IN_WINDOW = 2**20
PAIRS_IN_BLOCK = 2**10


def count_windows(pairs: int) -> int:
    """The windows of an epoch over so many pairs; they are as large as one another, but for a block."""
    return max(1, -(-pairs // PAIRS_IN_WINDOW))


def window_indices(pairs: int, window: int, *, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The indices of the pairs in one window, ascending: those of all windows are each index once."""
    windows = count_windows(pairs)
    if windows == 1:
        return np.arange(pairs)
    # A stream of its own, so that blocks are not drawn by the numbers that order the pairs in a window.
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch], spawn_key=(1,))))
    drawn = np.array_split(random.permutation(-(-pairs // PAIRS_IN_BLOCK)), windows)[window]
    indices = (np.sort(drawn)[:, None] * PAIRS_IN_BLOCK + np.arange(PAIRS_IN_BLOCK)).ravel()
    return indices[indices < pairs]
