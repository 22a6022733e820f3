"""Candidates: the outputs of a search or of sampling, and how they are ranked."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from glassformer.errors import DivergedError, InputError
from glassformer.settings import DecodeConfig


@dataclass(frozen=True)
class Output:
    """One output of the decoder: ``ids`` end with eos, unless ``truncated`` says that it reached the length limit.

    ``log_prob`` is the natural logarithm of its probability by the model. ``score`` is the sum of the processed
    log-probabilities divided by the length penalty, plus the coverage penalty. ``unmet`` are the required sequences
    that do not occur; a candidate that ends with eos has none. ``longer_was_cut``: it is complete, but the length
    limit cut another one that was better until then, so that it may be too short. ``received``: how much attention
    each id of the source gets at least from all ids of the output, 1 each; empty where the search does not tell it.
    """

    ids: list[int]
    log_prob: float
    score: float
    truncated: bool
    unmet: tuple[tuple[int, ...], ...] = ()
    longer_was_cut: bool = False
    received: tuple[float, ...] = ()

    @classmethod
    def from_log_prob(cls, ids: list[int], log_prob: float, options: DecodeConfig, eos_id: int) -> Self:
        """One whose score is its ``log_prob`` divided by the length penalty."""
        return cls(ids, log_prob, options.score(log_prob, len(ids)), truncated=ids[-1] != eos_id)


def rank_outputs(candidates: list[Output], n_best: int, *, complete_first: bool = True) -> list[Output]:
    """The ``n_best``: complete ones first, then by unmet constraints, then by score; equals keep their order.

    ``candidates`` have those that the length limit cut, too: a complete one says if one of them was better. Raises
    ``DivergedError`` if no log_prob is finite, and ``InputError`` if all are -inf: no token was allowed.
    """
    possible = [candidate for candidate in candidates if math.isfinite(candidate.log_prob)]
    if candidates and all(candidate.log_prob == -math.inf for candidate in candidates):
        raise no_token_allowed()
    if not possible:
        raise DivergedError(
            "the model's logits are not finite numbers, so there is no best token. "
            "Its weights were damaged or its training diverged: use an earlier checkpoint."
        )
    cut = max((one.score for one in possible if one.truncated and not one.unmet), default=-math.inf)
    ranked = sorted(possible, key=lambda one: (complete_first and one.truncated, len(one.unmet), -one.score))
    return [replace(one, longer_was_cut=not one.truncated and cut > one.score) for one in ranked[:n_best]]


def no_token_allowed() -> InputError:
    """The error when filters and constraints allow no token."""
    return InputError(
        "decode: the filters and the constraints together allow no token, expected at least one at each step. "
        "Loosen no_repeat_ngram or min_length, or ban less."
    )


Result = TypeVar("Result")


def run_to_end(search: Generator[object, None, Result]) -> Result:
    """Run a search that yields its state after every step, and return its result."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            result: Result = end.value
            return result
