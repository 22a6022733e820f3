"""The engine that runs this package's models with PyTorch."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.decoding.engines.engine import SearchResult
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output
from glassformer.decoding.search.search import CertainPrefix, search, search_steps
from glassformer.decoding.search.steps import BeamSteps, DecoderSteps, EnsembleSteps, Steps, pad_ids
from glassformer.decoding.teacher_forcing import forced_attention, forced_token_log_probs
from glassformer.model import Transformer
from glassformer.model.inference import Precision, evaluating, for_inference
from glassformer.trace import is_tracing


class TorchEngine:
    """A model or an ensemble in a precision. Implements ``Engine``."""

    workers = 1
    max_efficient_sources: int | None = None
    mean_attention = False

    def __init__(self, models: Sequence[Transformer], precision: Precision | None = None) -> None:
        """A precision converts copies of models; or ``ConfigError``."""
        self.models = [model if precision is None else for_inference(model, precision) for model in models]
        shortest = min(model.config.max_length for model in models)
        self.config = replace(models[0].config, max_length=shortest)

    def search(self, jobs: Sequence[SearchJob]) -> Iterator[tuple[int, SearchResult]]:
        """See ``Engine``; raises what ``beam_search`` and ``sample`` raise."""
        return ((number, self.run(job)) for number, job in enumerate(jobs))

    def run(self, job: SearchJob) -> SearchResult:
        """The result of one job."""
        with self._evaluation():
            candidates = search(self._steps(job), job)
        outputs = [best.ids for best, *_ in candidates]
        return SearchResult(candidates, self.attention(job, outputs) if job.attention else ())

    def stream(self, job: SearchJob) -> Generator[list[int], None, list[Output]]:
        """See ``Engine``."""
        certain = CertainPrefix()
        with self._evaluation():
            states = search_steps(self._steps(job), job)
        while True:
            with self._evaluation():  # for the step, not the caller's code
                try:
                    ids = certain.update(next(states))
                except StopIteration as end:
                    candidates: list[Output] = end.value[0]
                    return candidates
            yield ids

    def attention(
        self, job: SearchJob, outputs: Sequence[Sequence[int]], *, mean: bool = False
    ) -> list[Float[Tensor, "layers heads tgt src"]]:
        """See ``Engine``."""
        with self._evaluation(), torch.inference_mode(False), torch.no_grad():
            return forced_attention(self.models[0], self._src_ids(job.sources), outputs)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """See ``Engine``."""
        with self._evaluation():
            return forced_token_log_probs(self.models, self._src_ids(sources), targets)

    def close(self) -> None:
        """Nothing to release."""

    def _evaluation(self) -> ExitStack:
        with ExitStack() as stack:
            # Not inference mode: readers of a trace may compute gradients.
            stack.enter_context(torch.no_grad() if is_tracing() else torch.inference_mode())
            for model in self.models:
                stack.enter_context(evaluating(model))
            return stack.pop_all()

    def _src_ids(self, sources: Sequence[Sequence[int]]) -> Int[Tensor, "batch src"]:
        return pad_ids(sources, self.config.pad_id, self.models[0].src_embedding.tokens.weight.device)

    def _steps(self, job: SearchJob) -> Steps:
        """Beam slots for equally many hypotheses; traced as plain rows."""
        src_ids, options = self._src_ids(job.sources), job.options
        in_slots = options.cache and not options.sample and not is_tracing()
        kind = BeamSteps if in_slots else DecoderSteps
        members = [kind(model, src_ids, options) for model in self.models]
        return members[0] if len(members) == 1 else EnsembleSteps(members)
