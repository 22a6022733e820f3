"""Sampling: each next id is drawn from the model's distribution, processed and filtered.

The random numbers of a sample follow from the seed, the source's key and the number of the sample alone.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decoding.search.constraints import ConstraintBatch
from glassformer.decoding.search.filters import filter_log_probs, process_log_probs
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output, no_token_allowed, rank_outputs
from glassformer.decoding.search.steps import Steps
from glassformer.errors import InputError
from glassformer.settings import DecodeConfig
from glassformer.trace import note


@dataclass(frozen=True)
class SampleState:
    """The samples that are not done, after ``step`` ids."""

    samples: Tensor  # (rows)             the source's row · n_best + the number of its sample
    limits: Tensor  # (rows)              maximum length, eos included
    uniforms: Tensor  # (rows longest)    one number from [0, 1) for each step, float64
    ids: Tensor  # (rows step)
    log_probs: Tensor  # (rows)           by the model's own distribution, not the filtered one

    @property
    def step(self) -> int:
        """The number of ids in each row."""
        return self.ids.shape[1]

    def select(self, rows: Int[Tensor, "kept"]) -> Self:
        """The state of some rows."""
        return type(self)(*(getattr(self, field.name).index_select(0, rows) for field in fields(self)))


def sample_steps(steps: Steps, job: SearchJob) -> Generator[SampleState, None, list[list[Output]]]:
    """``n_best`` samples of each source, complete ones first, then by score; there may be equal ones.

    Yields the state after each step, before the samples that are done are removed.
    """
    eos_id, options = steps.config.eos_id, job.options
    for place, one in enumerate(job.constraints or ()):
        if one.required:
            raise InputError(
                f"constraints[{place}].required: found {len(one.required)} with sampling, expected none, because "
                "sampling cannot be made to produce them. Search instead: sample=False."
            )
    batch = ConstraintBatch.from_job(job, steps.config, steps.device)
    if batch is not None:
        batch.note()
    state = _start(job, steps.device)
    note("search.limits", state.limits, "batch")
    steps.select(state.samples // options.n_best)
    last_ids = torch.full_like(state.samples, steps.config.bos_id)
    found: list[list[Output]] = [[] for _ in job.limits]
    while len(state.samples):
        log_probs = steps.next_log_probs(last_ids)
        constraints = None if batch is None else batch.select(state.samples // options.n_best)
        processed = process_log_probs(log_probs, state.ids, options, constraints, steps.config)
        if processed is not log_probs and bool((processed == -math.inf).all(dim=1).any()):
            raise no_token_allowed()
        state = advance(state, log_probs, processed, options)
        yield state
        done = (state.ids[:, -1] == eos_id) | (state.step >= state.limits)
        note("search.sampled_ids", state.ids, "batch tgt")
        note("search.sampled_log_probs", state.log_probs, "batch")
        note("search.done", done, "batch")
        if done.any():
            ended = state.select(done.nonzero().flatten())  # read at once: each look makes a GPU wait
            values = (one.tolist() for one in (ended.samples, ended.ids, ended.log_probs))
            for sample, ids, log_prob in zip(*values, strict=True):
                found[sample // options.n_best].append(Output.from_log_prob(ids, log_prob, options, eos_id))
            keep = (~done).nonzero().flatten()
            state = state.select(keep)
            steps.select(keep)
        last_ids = state.ids[:, -1]
    return [rank_outputs(candidates, options.n_best) for candidates in found]


def _start(job: SearchJob, device: torch.device) -> SampleState:
    """``n_best`` empty rows for each source."""
    longest, n_best = max(job.limits, default=0), job.options.n_best
    streams = [
        np.random.Generator(np.random.PCG64([job.options.seed, sample_key, number])).random(longest)
        for sample_key in job.sample_keys or range(len(job.limits))
        for number in range(n_best)
    ]
    rows = len(streams)
    return SampleState(
        samples=torch.arange(rows, device=device),
        limits=torch.tensor(job.limits, dtype=torch.int64, device=device).repeat_interleave(n_best),
        uniforms=torch.from_numpy(np.array(streams).reshape(rows, longest)).to(device),
        ids=torch.empty(rows, 0, dtype=torch.int64, device=device),
        log_probs=torch.zeros(rows, device=device),
    )


def advance(
    state: SampleState,
    log_probs: Float[Tensor, "rows vocab"],
    processed: Float[Tensor, "rows vocab"],
    options: DecodeConfig,
) -> SampleState:
    """The state after one more id; ``processed`` are the processed ``log_probs``."""
    choice, uniforms = filter_log_probs(processed, options), state.uniforms[:, state.step]
    ids = draw_ids(choice, uniforms)
    note("search.filtered_log_probs", choice, "batch vocab")
    note("search.uniforms", uniforms, "batch")
    note("search.drawn_ids", ids, "batch")
    return replace(
        state,
        ids=torch.cat([state.ids, ids[:, None]], dim=1),
        log_probs=state.log_probs + log_probs.gather(1, ids[:, None]).squeeze(1),
    )


def draw_ids(log_probs: Float[Tensor, "rows vocab"], uniforms: Float[Tensor, "rows"]) -> Int[Tensor, "rows"]:
    """The id at which the cumulative probability of each row exceeds its number from [0, 1)."""
    # In double precision, so that rounding neither favours the last ids nor reaches one of probability 0.
    cumulative = log_probs.double().exp().cumsum(dim=1)
    passed = uniforms[:, None] * cumulative[:, -1:]
    ids = torch.searchsorted(cumulative, passed, right=True).squeeze(1)
    # Out of range only if log_probs are NaN, which ``rank_outputs`` reports.
    return ids.clamp(max=log_probs.shape[1] - 1)
