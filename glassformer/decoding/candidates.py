"""A candidate: the ids that a search or a draw came to, and what they are worth.

Knows nothing of models or text. The length penalty is equation 14 of Wu et al. 2016 (arXiv 1609.08144), which
section 6.1 of the paper uses with α = 0.6.

The greatest of many numbers in each row, exactly, without ordering more than can be among them.

``torch.topk`` orders rows of a whole vocabulary; the greatest ``count`` stand in the ``count`` blocks with the
greatest maxima, and one cheap pass finds those. Knows nothing of search.

A search that hands out its state after every step, and how to carry it out when nobody watches.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.errors import DivergedError, InputError


@dataclass(frozen=True)
class Candidate:
    """One output of the decoder: ``ids`` end with eos, unless ``truncated`` says that the limit cut it short.

    ``log_prob`` is the natural logarithm of its probability by the model; ``score`` is that, after the rules where
    there are any, divided by the length penalty, plus the coverage penalty where one is asked for. ``unmet`` are the
    sequences that were demanded and do not occur; a complete one leaves none unmet.
    """

    ids: list[int]
    log_prob: float
    score: float
    truncated: bool
    unmet: tuple[tuple[int, ...], ...] = ()


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α, by which log_prob is divided; ``length`` counts eos."""
    return math.pow((5 + length) / 6, alpha)


def ranked(candidates: list[Candidate], n_best: int) -> list[Candidate]:
    """The ``n_best`` first: complete ones before those cut short, those that leave less unmet before those that leave
    more, each kind by score, equals in the order given.

    Raises ``DivergedError`` when there is none whose log_prob is a number: the model's logits are not. Raises
    ``InputError`` when all are impossible: rules and demands together left no id.
    """
    possible = [candidate for candidate in candidates if math.isfinite(candidate.log_prob)]
    if candidates and all(candidate.log_prob == -math.inf for candidate in candidates):
        raise nothing_allowed()
    if not possible:
        raise DivergedError(
            "the model's logits are not finite numbers, so there is no best token. "
            "Its weights were damaged or its training diverged: use an earlier checkpoint."
        )
    return sorted(possible, key=_rank)[:n_best]


def nothing_allowed() -> InputError:
    """What to say when nothing at all may follow."""
    return InputError(
        "decode: the rules and what is demanded of the output together allow no token, expected at least one at "
        "each step. Loosen no_repeat_ngram or min_length, or ban less."
    )


def from_groups(groups: Sequence[list[Candidate]], n_best: int) -> list[Candidate]:
    """``n_best`` of all groups, ranked: the best of each group before the second of any, and none twice."""
    if len(groups) == 1:
        return ranked(groups[0], n_best)
    in_order = [ranked(group, len(group)) for group in groups if any(math.isfinite(one.log_prob) for one in group)]
    if not in_order:
        return ranked([candidate for group in groups for candidate in group], n_best)
    in_turn = (group[place] for place in range(max(map(len, in_order))) for group in in_order if place < len(group))
    first_found: dict[tuple[int, ...], Candidate] = {}
    for candidate in in_turn:
        first_found.setdefault(tuple(candidate.ids), candidate)
    return ranked(list(first_found.values())[:n_best], n_best)


def _rank(candidate: Candidate) -> tuple[bool, int, float]:
    return candidate.truncated, len(candidate.unmet), -candidate.score


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


Found = TypeVar("Found")


def finished(search: Generator[object, None, Found]) -> Found:
    """What a search comes to, carried out to its end."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: Found = end.value
            return found
