"""From sentences to hypotheses, a batch at a time: the engine's candidates, detokenized and ranked."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glassformer.decoding.batching import ModelInput, output_limit, plan_decoding
from glassformer.decoding.engines.engine import Engine
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.mbr import chrf_utility, mbr_rank
from glassformer.decoding.search.outputs import Output
from glassformer.decoding.translation import Hypothesis
from glassformer.settings import DecodeConfig
from glassformer.text.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

_BROKEN = "\ufffd"


class BatchTranslator:
    """An engine and the tokenizer of its outputs."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer) -> None:
        self.engine = engine
        self._tokenizer = tokenizer

    def translate(
        self, batches: Sequence[Sequence[ModelInput]], options: DecodeConfig, *, attention: bool
    ) -> Iterator[tuple[int, list[list[Hypothesis]], str]]:
        """The number of each batch, in any order, with the hypotheses of its sentences and the name of the engine.

        With ``attention`` the best hypothesis of each sentence has the cross-attention of the first model.
        """
        # Which sample is best is known only after they were detokenized and compared.
        jobs = [self._job(batch, options, attention=attention and not options.mbr) for batch in batches]
        for number, result in self.engine.search(jobs):
            hypotheses = [self._hypotheses(candidates, options) for candidates in result.candidates]
            if attention:
                weights, is_mean = result.attention, self.engine.mean_attention
                if options.mbr:
                    weights = self.engine.attention(jobs[number], [best.ids for best, *_ in hypotheses])
                hypotheses = [
                    [replace(best, attention=of_best, mean_attention=is_mean), *others]
                    for (best, *others), of_best in zip(hypotheses, weights, strict=True)
                ]
            yield number, hypotheses, result.engine

    def attention(
        self, sources: Sequence[ModelInput], outputs: Sequence[Sequence[int]], options: DecodeConfig
    ) -> "Iterator[Float[Tensor, 'layers heads tgt src']]":
        """The cross-attention with which the first model writes the given output of each sentence, in order."""
        lengths = [len(one.source.ids) for one in sources]
        found: dict[int, Any] = {}
        for batch in plan_decoding(lengths, range(len(sources)), 1, options.batch_tokens):
            job = self._job([sources[number] for number in batch], options, attention=True)
            found |= dict(zip(batch, self.engine.attention(job, [outputs[number] for number in batch]), strict=True))
        return (found[number] for number in range(len(sources)))

    def stream(self, source: ModelInput, options: DecodeConfig) -> Generator[str, None, Hypothesis]:
        """The best hypothesis's text in pieces, each as soon as it is certain; its value is the hypothesis."""
        detokenizer = StreamingDetokenizer(self._tokenizer)
        steps = self.engine.stream(self._job([source], options, attention=False))
        while True:
            try:
                certain = next(steps)
            except StopIteration as end:
                best = self._hypotheses(end.value, options)[0]
                break
            yield detokenizer.put(certain)
        yield detokenizer.end(best.ids)
        return best

    def _job(self, sources: Sequence[ModelInput], options: DecodeConfig, *, attention: bool) -> SearchJob:
        config = self.engine.config
        return SearchJob(
            sources=[one.source.ids for one in sources],
            limits=[output_limit(one.source, config, options, len(one.constraints.prefix)) for one in sources],
            sample_keys=[one.sample_key for one in sources],
            options=replace(options, n_best=options.rows_per_source, mbr=0) if options.mbr else options,
            constraints=[one.constraints for one in sources],
            attention=attention,
        )

    def _hypotheses(self, candidates: Sequence[Output], options: DecodeConfig) -> list[Hypothesis]:
        """The candidates with their texts, best first: in the engine's order, or by minimum Bayes risk."""
        hypotheses = [self._hypothesis(candidate) for candidate in candidates]
        if not options.sample:  # other ids may be the same text
            texts = [one.text for one in hypotheses]
            return [one for number, one in enumerate(hypotheses) if one.text not in texts[:number]]
        if not options.mbr:
            return hypotheses
        best = mbr_rank([hypothesis.text for hypothesis in hypotheses], options.n_best, chrf_utility())
        return [replace(hypotheses[index], utility=utility) for index, utility in best]

    def _hypothesis(self, candidate: Output) -> Hypothesis:
        return Hypothesis(
            text=self._tokenizer.to_text(candidate.ids),
            tokens=self._tokenizer.to_tokens(candidate.ids),
            ids=candidate.ids,
            log_prob=candidate.log_prob,
            score=candidate.score,
            truncated=candidate.truncated,
            unmet=tuple(self._tokenizer.to_text(ids).strip() for ids in candidate.unmet),
            longer_was_cut=candidate.longer_was_cut,
            received=candidate.received,
        )


class StreamingDetokenizer:
    """Returns the text of growing ids in pieces; joined, they are ``tokenizer.to_text`` of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._returned = ""

    def put(self, ids: Sequence[int]) -> str:
        """The text that ``ids`` add to the previous pieces; they begin with the ids of the previous call."""
        # A broken character at the end may still be completed; the text before it cannot change any more.
        return self._rest(self._tokenizer.to_text(ids).rstrip(_BROKEN))

    def end(self, ids: Sequence[int]) -> str:
        """The rest of the text, once ``ids`` are complete."""
        return self._rest(self._tokenizer.to_text(ids))

    def _rest(self, text: str) -> str:
        piece = text[len(self._returned) :]
        self._returned += piece
        return piece
