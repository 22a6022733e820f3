"""Outputs of a search or of sampling, and their ranking."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from glassformer.errors import DivergedError, InputError
from glassformer.settings import DecodeConfig


@dataclass(frozen=True)
class Output:
    """An output of the decoder, a ``Hypothesis`` without text.

    ``score``: the sum of processed log-probabilities over the length penalty, plus the coverage penalty; ``unmet``:
    required sequences that do not occur.
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
        """An output whose score is ``log_prob`` over the length penalty."""
        return cls(ids, log_prob, options.score(log_prob, len(ids)), truncated=ids[-1] != eos_id)


def rank_outputs(candidates: list[Output], n_best: int, *, complete_first: bool = True) -> list[Output]:
    """The ``n_best``: complete first, then by unmet constraints, then by score, stable.

    ``candidates`` include those cut at the length limit: a complete one says if one was better. ``DivergedError`` if
    no log_prob is finite, ``InputError`` if all are -inf.
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
    """The result of a search that yields its states."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            result: Result = end.value
            return result
