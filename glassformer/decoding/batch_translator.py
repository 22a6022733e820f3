"""From sources to hypotheses: the models, the search and the target's tokenizer, joined, one batch at a time.

Knows nothing of how texts become sources.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding.batching import copies, output_limit, padded
from glassformer.decoding.candidates import Candidate
from glassformer.decoding.engine import Found, Job, Searcher
from glassformer.decoding.mbr import chrf_utility, least_risk
from glassformer.decoding.segments import Part
from glassformer.decoding.streaming import GrowingText, Shared
from glassformer.decoding.teacher_forcing import forced_token_log_probs
from glassformer.decoding.translation import Hypothesis
from glassformer.decoding.worker_pool import WorkerPool
from glassformer.model import Transformer
from glassformer.model.linears import Precision
from glassformer.text.tokenizer import Tokenizer
from glassformer.trace import is_tracing


class Writer:
    """One model, or several that decide together, and the tokenizer of what they write."""

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizer: Tokenizer,
        precision: Precision | None = None,
        workers: int = 1,
    ) -> None:
        self.workers = workers
        self._searcher = Searcher(models, precision)
        self._pool = WorkerPool(models, precision, workers) if workers > 1 else None
        self._tokenizer = tokenizer
        shortest = min(model.config.max_length for model in models)
        self.config: ModelConfig = replace(models[0].config, max_length=shortest)
        """That of the first model, with the greatest length that all of them take."""

    def write(
        self, batches: Sequence[Sequence[Part]], options: DecodeConfig, *, attention: bool
    ) -> Iterator[tuple[int, list[list[Hypothesis]]]]:
        """The hypotheses of each part of each batch, best first, with the batch's number; in any order.

        With ``attention`` the best has that of the first model.
        """
        # The best of all samples is known only once they have texts.
        jobs = [self._job(parts, options, attention=attention and not options.mbr) for parts in batches]
        for number, found in self._searched(jobs):
            job = jobs[number]
            hypotheses = [self._hypotheses(candidates, options) for candidates in found.candidates]
            seen = found.attention
            if attention and options.mbr:
                seen = self._searcher.attention(job, [best.ids for best, *_ in hypotheses])
            yield (
                number,
                [
                    [replace(best, attention=weights), *others]
                    for (best, *others), weights in zip(hypotheses, seen, strict=True)
                ],
            )

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._pool is not None:
            self._pool.close()

    def _searched(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Found]]:
        """What came of each job, with its number; beside each other where there are workers and no trace records."""
        if self._pool is not None and len(jobs) > 1 and not is_tracing():
            return self._pool.search(jobs)
        return enumerate(map(self._searcher.search, jobs))

    def pieces(self, part: Part, options: DecodeConfig) -> Iterator[str]:
        """The best hypothesis's text in pieces, each as soon as it is certain."""
        text, shared = GrowingText(self._tokenizer), Shared()
        with self._searcher.ready():
            search = self._searcher.watched(self._job([part], options, attention=False))
        while True:
            # Nothing of ours stays switched while the caller has the piece.
            with self._searcher.ready():
                try:
                    certain = shared.after(next(search))
                except StopIteration as end:
                    best = self._hypotheses(end.value[0], options)[0]
                    break
            yield text.upto(certain)
        yield text.end(best.ids)

    def token_log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """The log-probability of each id of each target, given its source."""
        models = self._searcher.models
        with self._searcher.ready():
            src_ids = padded(sources, self.config.pad_id, next(models[0].parameters()).device)
            return forced_token_log_probs(models, src_ids, targets)

    def _job(self, parts: Sequence[Part], options: DecodeConfig, *, attention: bool) -> Job:
        return Job(
            sources=[part.source.ids for part in parts],
            limits=[output_limit(part.source, self.config, options, len(part.demands.prefix)) for part in parts],
            positions=[part.position for part in parts],
            options=replace(options, n_best=copies(options), mbr=0) if options.mbr else options,
            demands=[part.demands for part in parts],
            attention=attention,
        )

    def _hypotheses(self, candidates: Sequence[Candidate], options: DecodeConfig) -> list[Hypothesis]:
        """The candidates with their texts, best first: as they are ranked, or by least risk."""
        made = [self._hypothesis(candidate) for candidate in candidates]
        if not options.mbr:
            return made
        best = least_risk([one.text for one in made], options.n_best, chrf_utility())
        return [replace(made[place], utility=utility) for place, utility in best]

    def _hypothesis(self, candidate: Candidate) -> Hypothesis:
        return Hypothesis(
            text=self._tokenizer.to_text(candidate.ids),
            tokens=self._tokenizer.to_tokens(candidate.ids),
            ids=candidate.ids,
            log_prob=candidate.log_prob,
            score=candidate.score,
            truncated=candidate.truncated,
            unmet=tuple(self._tokenizer.to_text(ids).strip() for ids in candidate.unmet),
        )
