"""The greatest of many numbers in each row, exactly, without ordering more than can be among them.

``torch.topk`` orders rows of a whole vocabulary; the greatest ``count`` stand in the ``count`` blocks with the
greatest maxima, and one cheap pass finds those. Knows nothing of search.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK = 64


def best(values: Float[Tensor, "rows n"], count: int) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """The ``count`` greatest of each row, greatest first, and where they stand; all where there are fewer."""
    rows, n = values.shape
    whole = n - n % _BLOCK
    if whole // _BLOCK <= 2 * count:
        found = values.topk(min(count, n), dim=1)
        return found.values, found.indices
    blocks = values[:, :whole].view(rows, -1, _BLOCK)
    chosen = blocks.amax(dim=2).topk(count, dim=1).indices
    within = torch.arange(_BLOCK, device=values.device)
    places = torch.cat(
        [
            (chosen[:, :, None] * _BLOCK + within).flatten(1),
            torch.arange(whole, n, device=values.device).expand(rows, -1),
        ],
        dim=1,
    )
    found = values.gather(1, places).topk(count, dim=1)
    return found.values, places.gather(1, found.indices)


def best_of_beams(
    ranking: Float[Tensor, "sentences beam"], log_probs: Float[Tensor, "sentences beam vocab"], count: int
) -> Int[Tensor, "sentences best"]:
    """Places in beam · vocab of the ``count`` greatest sums; those of each hypothesis are found first, unsummed."""
    sentences, beam, vocab = log_probs.shape
    values, ids = best(log_probs.flatten(0, 1), min(count, vocab))
    sums = ranking[:, :, None] + values.view(sentences, beam, -1)
    found = sums.flatten(1).topk(min(count, sums[0].numel()), dim=1).indices
    places = torch.arange(beam, device=ids.device)[:, None] * vocab + ids.view(sentences, beam, -1)
    return places.flatten(1).gather(1, found)
