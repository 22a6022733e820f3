"""One batch's search, from ids to candidates: the models, made ready, and the steps that suit the options.

What a worker process is given to do and what it gives back. Knows nothing of text.
"""

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.config import DecodeConfig
from glassformer.decoding.batching import padded
from glassformer.decoding.beam import SearchState
from glassformer.decoding.beam_search import beam_steps
from glassformer.decoding.candidates import Candidate, finished
from glassformer.decoding.constraints import Demands
from glassformer.decoding.greedy import greedy_search, is_greedy
from glassformer.decoding.sampling import SampleState, sample_steps
from glassformer.decoding.steps import BeamSteps, DecoderSteps, EnsembleSteps, Steps
from glassformer.decoding.teacher_forcing import forced_attention
from glassformer.model import Transformer
from glassformer.model.inference import evaluating, for_inference
from glassformer.model.linears import Precision
from glassformer.trace import is_tracing


@dataclass(frozen=True)
class Job:
    """A batch: source ids, most ids of each output, each source's place in the whole input, and what is asked."""

    sources: Sequence[Sequence[int]]
    limits: Sequence[int]
    positions: Sequence[int]
    options: DecodeConfig
    demands: Sequence[Demands] | None = None
    attention: bool = False


@dataclass(frozen=True)
class Found:
    """What came of it: candidates of each source, and the cross-attention of its best one where that was wanted."""

    candidates: list[list[Candidate]]
    attention: Sequence[Float[Tensor, "layers heads tgt src"] | None]


class Searcher:
    """Models that decide together, on their device, in the precision that they translate with."""

    def __init__(self, models: Sequence[Transformer], precision: Precision | None = None) -> None:
        """With a precision the models are copied and made ready; raises ``ConfigError`` where it has no kernel."""
        self.models = [model if precision is None else for_inference(model, precision) for model in models]

    def search(self, job: Job) -> Found:
        """The candidates of a batch; raises what ``beam_search`` and ``sample`` raise."""
        with self.ready():
            if is_greedy(job.options, job.demands) and not is_tracing():
                candidates = greedy_search(self._steps(job), job.limits, job.options)
            else:
                candidates = finished(self.watched(job))
        outputs = [of_source[0].ids for of_source in candidates]
        return Found(candidates, self.attention(job, outputs) if job.attention else [None] * len(outputs))

    def attention(self, job: Job, outputs: Sequence[list[int]]) -> list[Float[Tensor, "layers heads tgt src"]]:
        """The cross-attention with which the first model writes each source's output."""
        with self.ready(), torch.inference_mode(False), torch.no_grad():
            return forced_attention(self.models[0], self._src_ids(job), outputs)

    def watched(self, job: Job) -> Generator[SearchState | SampleState, None, list[list[Candidate]]]:
        """The search of a batch, step by step; to be carried out while the models are ``ready``."""
        steps = self._steps(job)
        if job.options.sample:
            return sample_steps(steps, job.limits, job.options, job.positions, job.demands)
        return beam_steps(steps, job.limits, job.options, job.demands)

    def ready(self) -> ExitStack:
        """All models in evaluation mode, and no gradients, for the length of a block."""
        with ExitStack() as stack:
            # Inference mode costs less; a trace is of tensors that its reader may compute with.
            stack.enter_context(torch.no_grad() if is_tracing() else torch.inference_mode())
            for model in self.models:
                stack.enter_context(evaluating(model))
            return stack.pop_all()

    def _src_ids(self, job: Job) -> Int[Tensor, "batch src"]:
        model = self.models[0]
        return padded(job.sources, model.config.pad_id, model.src_embedding.tokens.weight.device)

    def _steps(self, job: Job) -> Steps:
        """Beam slots where each source keeps equally many hypotheses; a trace records a row for each hypothesis."""
        src_ids, options = self._src_ids(job), job.options
        in_slots = options.cache and not options.sample and options.beam_groups == 1 and not is_tracing()
        kind = BeamSteps if in_slots else DecoderSteps
        members: list[Steps] = [kind.of(model, src_ids, options) for model in self.models]
        return members[0] if len(members) == 1 else EnsembleSteps(members)
