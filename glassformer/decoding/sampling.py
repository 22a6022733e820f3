"""Sampling: each next id drawn from the model's distribution, filtered.

Each draw has its own stream of random numbers, which follows from the seed, the source's position in the whole
input and the number of the sample: neighbours in the batch and the order of batches change nothing. Knows
nothing of text.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding.candidates import Candidate, finished, length_penalty, nothing_allowed, ranked
from glassformer.decoding.constraints import Demanded, Demands
from glassformer.decoding.filters import filtered, has_rules, ruled
from glassformer.decoding.steps import Steps
from glassformer.errors import InputError
from glassformer.trace import note


@dataclass(frozen=True)
class SampleState:
    """The samples that are not done, after ``step`` drawn ids."""

    samples: Tensor  # (rows)             number of the sample: the source's row · n_best + which of its samples
    limits: Tensor  # (rows)              most ids, eos included
    uniforms: Tensor  # (rows longest)    one number from [0, 1) for each step, float64
    ids: Tensor  # (rows step)
    log_probs: Tensor  # (rows)           by the model's own distribution, not the filtered one

    @property
    def step(self) -> int:
        """Ids drawn in each row."""
        return self.ids.shape[1]

    def select(self, rows: Int[Tensor, "kept"]) -> Self:
        """The state of some of the rows."""
        return type(self)(*(getattr(self, field.name).index_select(0, rows) for field in fields(self)))


def sample(
    steps: Steps,
    limits: Sequence[int],
    options: DecodeConfig,
    positions: Sequence[int],
    demands: Sequence[Demands] | None = None,
) -> list[list[Candidate]]:
    """``n_best`` samples for each source, complete ones first, each kind by score; equal ones may occur.

    ``steps`` stand at the start, with a row for each source; ``limits`` are the most ids, eos included, of each
    output; ``positions`` says where in the whole input each source stands, which decides its random numbers;
    ``demands`` are one for each source. Raises ``InputError`` for demands that no output can meet, or for
    sequences that must occur, which only a search can see to.
    """
    return finished(sample_steps(steps, limits, options, positions, demands))


def sample_steps(
    steps: Steps,
    limits: Sequence[int],
    options: DecodeConfig,
    positions: Sequence[int],
    demands: Sequence[Demands] | None = None,
) -> Generator[SampleState, None, list[list[Candidate]]]:
    """``sample``, handing out the state after each step, in which those that are done are still there."""
    eos_id = steps.config.eos_id
    _refuse_required(demands)
    demanded = Demanded.of(demands, len(limits), steps.config, steps.device)
    if demanded is not None:
        demanded.note()
    state = _start(limits, options, positions, steps.device)
    note("search.limits", state.limits, "batch")
    steps.select(state.samples // options.n_best)
    last_ids = torch.full_like(state.samples, steps.config.bos_id)
    found: list[list[Candidate]] = [[] for _ in limits]
    while len(state.samples):
        log_probs = steps.next_log_probs(last_ids)
        left = rules_leave(log_probs, state, options, demanded, steps.config)
        state = advance(state, log_probs, left, options)
        yield state
        done = (state.ids[:, -1] == eos_id) | (state.step >= state.limits)
        _note(state, done)
        if done.any():
            for row in done.nonzero().flatten().tolist():
                result = _result(state, row, options, eos_id)
                found[int(state.samples[row]) // options.n_best].append(result)
            keep = (~done).nonzero().flatten()
            state = state.select(keep)
            steps.select(keep)
        last_ids = state.ids[:, -1]
    return [ranked(candidates, options.n_best) for candidates in found]


def _refuse_required(demands: Sequence[Demands] | None) -> None:
    for place, one in enumerate(demands or ()):
        if one.required:
            raise InputError(
                f"demands[{place}].required: found {len(one.required)} with sampling, expected none, because a draw "
                "cannot be led to them. Search instead: sample=False."
            )


def _start(
    limits: Sequence[int], options: DecodeConfig, positions: Sequence[int], device: torch.device
) -> SampleState:
    """``n_best`` rows for each source, in which nothing is drawn yet."""
    longest = max(limits, default=0)
    streams = [
        _uniforms(options.seed, position, number, longest)
        for position in positions
        for number in range(options.n_best)
    ]
    rows = len(streams)
    return SampleState(
        samples=torch.arange(rows, device=device),
        limits=torch.tensor(limits, dtype=torch.int64, device=device).repeat_interleave(options.n_best),
        uniforms=torch.from_numpy(np.array(streams).reshape(rows, longest)).to(device),
        ids=torch.empty(rows, 0, dtype=torch.int64, device=device),
        log_probs=torch.zeros(rows, device=device),
    )


def _uniforms(seed: int, position: int, number: int, count: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.random.Generator(np.random.PCG64([seed, position, number])).random(count)


def rules_leave(
    log_probs: Float[Tensor, "rows vocab"],
    state: SampleState,
    options: DecodeConfig,
    demanded: Demanded | None,
    config: ModelConfig,
) -> Float[Tensor, "rows vocab"]:
    """What the rules make of the model's distributions; raises ``InputError`` where they leave a sample nothing."""
    if not has_rules(options, demanded):
        return log_probs
    if demanded is not None:
        demanded = demanded.select(state.samples // options.n_best)
    left = ruled(log_probs, state.ids, options, demanded, config)
    note("search.ruled_log_probs", left, "batch vocab")
    if bool((left == -math.inf).all(dim=1).any()):
        raise nothing_allowed()
    return left


def advance(
    state: SampleState,
    log_probs: Float[Tensor, "rows vocab"],
    left: Float[Tensor, "rows vocab"],
    options: DecodeConfig,
) -> SampleState:
    """The state one drawn id later; ``left`` is what the rules made of ``log_probs``."""
    choice, uniforms = filtered(left, options), state.uniforms[:, state.step]
    ids = drawn(choice, uniforms)
    note("search.filtered_log_probs", choice, "batch vocab")
    note("search.uniforms", uniforms, "batch")
    note("search.drawn_ids", ids, "batch")
    return SampleState(
        samples=state.samples,
        limits=state.limits,
        uniforms=state.uniforms,
        ids=torch.cat([state.ids, ids[:, None]], dim=1),
        log_probs=state.log_probs + log_probs.gather(1, ids[:, None]).squeeze(1),
    )


def drawn(log_probs: Float[Tensor, "rows vocab"], uniforms: Float[Tensor, "rows"]) -> Int[Tensor, "rows"]:
    """The id at which the cumulated probability of each row passes its number from [0, 1)."""
    # In double precision, so that rounding neither favours the last ids nor reaches one of probability 0.
    cumulated = log_probs.double().exp().cumsum(dim=1)
    passed = uniforms[:, None] * cumulated[:, -1:]
    ids = torch.searchsorted(cumulated, passed, right=True).squeeze(1)
    # Only where log_probs are not numbers; ``ranked`` tells of it.
    return ids.clamp(max=log_probs.shape[1] - 1)


def _note(state: SampleState, done: Tensor) -> None:
    """Show in a trace where the samples stand."""
    note("search.sampled_ids", state.ids, "batch tgt")
    note("search.sampled_log_probs", state.log_probs, "batch")
    note("search.done", done, "batch")


def _result(state: SampleState, row: int, options: DecodeConfig, eos_id: int) -> Candidate:
    ids, log_prob = state.ids[row].tolist(), float(state.log_probs[row])
    score = log_prob / length_penalty(len(ids), options.length_penalty)
    return Candidate(ids, log_prob, score, truncated=ids[-1] != eos_id)
