"""A candidate: the ids that a search or a draw came to, and what they are worth.

Knows nothing of models or text. The length penalty is equation 14 of Wu et al. 2016 (arXiv 1609.08144), which
section 6.1 of the paper uses with α = 0.6.
"""

import math
from dataclasses import dataclass

from glassformer.errors import DivergedError


@dataclass(frozen=True)
class Candidate:
    """One output of the decoder: ``ids`` end with eos, unless ``truncated`` says that the limit cut it short.

    ``log_prob`` is the natural logarithm of its probability; ``score`` is that divided by the length penalty.
    """

    ids: list[int]
    log_prob: float
    score: float
    truncated: bool


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α, by which log_prob is divided; ``length`` counts eos."""
    return math.pow((5 + length) / 6, alpha)


def ranked(candidates: list[Candidate], n_best: int) -> list[Candidate]:
    """The ``n_best`` first: complete ones before those cut short, each kind by score, equals in the order given.

    Raises ``DivergedError`` when there is none whose log_prob is a number: the model's logits are not.
    """
    possible = [candidate for candidate in candidates if math.isfinite(candidate.log_prob)]
    if not possible:
        raise DivergedError(
            "the model's logits are not finite numbers, so there is no best token. "
            "Its weights were damaged or its training diverged: use an earlier checkpoint."
        )
    return sorted(possible, key=_rank)[:n_best]


def _rank(candidate: Candidate) -> tuple[bool, float]:
    return candidate.truncated, -candidate.score
