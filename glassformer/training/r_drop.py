"""R-Drop: two passes over one batch, each with dropout of its own, are held to the same distribution.

Liang et al. 2021, arXiv 2106.14448. Their loss of a token is the sum of both passes' cross-entropies and
α ½ (KL(p1 ‖ p2) + KL(p2 ‖ p1)). Here it is half of that, which Adam cannot tell from it: the mean of two
cross-entropies can be compared with that of a training without R-Drop. Knows nothing of models: it is given logits.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.training.loss import log_sums


def divergence(
    logits: Float[Tensor, "twice vocab"], p: Float[Tensor, "twice vocab"]
) -> tuple[Float[Tensor, " position"], Float[Tensor, "twice vocab"]]:
    """½ (KL(p1 ‖ p2) + KL(p2 ‖ p1)) of every two neighbouring rows, in nats, and its gradient by their logits.

    ``p`` is the softmax of ``logits``. The gradient by the first logits is ½ (p1 (d - KL(p1 ‖ p2)) + p1 - p2)
    with d = log p1 - log p2; by the second it is the same with the two exchanged.
    """
    p1, p2, sums = p[::2], p[1::2], log_sums(logits, p)
    ratio = (logits[::2] - logits[1::2]).sub_((sums[::2] - sums[1::2])[:, None])
    first, second = torch.linalg.vecdot(p1, ratio), -torch.linalg.vecdot(p2, ratio)
    gradient = torch.empty_like(logits)
    torch.sub(ratio, (first - 1)[:, None], out=gradient[::2]).mul_(p1).sub_(p2)
    torch.sub((1 - second)[:, None], ratio, out=gradient[1::2]).mul_(p2).sub_(p1)
    return (first + second) / 2, gradient.div_(2)


def plain_divergence(logits: Float[Tensor, "twice tgt vocab"], real: Bool[Tensor, "batch tgt"]) -> Float[Tensor, ""]:
    """The same, summed over the real positions of a batch whose second half is its first again; autograd's lines."""
    log_p1, log_p2 = logits.float().log_softmax(-1).chunk(2)
    per_token = ((log_p1.exp() - log_p2.exp()) * (log_p1 - log_p2)).sum(-1) / 2
    return (per_token * real).sum()
