"""From sentences to hypotheses, a batch at a time: the engine's candidates, detokenized and ranked."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glassformer.decoding.batching import output_limit, plan_decoding
from glassformer.decoding.engines.engine import Engine
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.mbr import chrf_utility, mbr_rank
from glassformer.decoding.search.outputs import Output
from glassformer.decoding.sentences import SourceSentence
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
        self, batches: Sequence[Sequence[SourceSentence]], options: DecodeConfig, *, attention: bool
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
        self, sentences: Sequence[SourceSentence], outputs: Sequence[Sequence[int]], options: DecodeConfig
    ) -> "Iterator[Float[Tensor, 'layers heads tgt src']]":
        """The cross-attention with which the first model writes the given output of each sentence, in order."""
        lengths = [len(sentence.source.ids) for sentence in sentences]
        found: dict[int, Any] = {}
        for batch in plan_decoding(lengths, range(len(sentences)), 1, options.batch_tokens):
            job = self._job([sentences[number] for number in batch], options, attention=True)
            found |= dict(zip(batch, self.engine.attention(job, [outputs[number] for number in batch]), strict=True))
        return (found[number] for number in range(len(sentences)))

    def stream(self, sentence: SourceSentence, options: DecodeConfig) -> Generator[str, None, Hypothesis]:
        """The best hypothesis's text in pieces, each as soon as it is certain; its value is the hypothesis."""
        detokenizer, style, is_start = StreamingDetokenizer(self._tokenizer), sentence.style, True
        waits = style.needs_whole
        steps = self.engine.stream(self._job([sentence], options, attention=False))
        while True:
            try:
                certain = next(steps)
            except StopIteration as end:
                best = self._hypotheses(end.value, options)[0]
                break
            if not waits:
                piece = detokenizer.put(certain)
                yield style.restore(piece, is_start=is_start)
                is_start = is_start and not piece
        yield style.restore(detokenizer.end(best.ids), is_start=is_start)
        return best

    def _job(self, sentences: Sequence[SourceSentence], options: DecodeConfig, *, attention: bool) -> SearchJob:
        config = self.engine.config
        return SearchJob(
            sources=[sentence.source.ids for sentence in sentences],
            limits=[
                output_limit(sentence.source, config, options, len(sentence.constraints.prefix))
                for sentence in sentences
            ],
            sample_keys=[sentence.sample_key for sentence in sentences],
            options=replace(options, n_best=options.rows_per_source, mbr=0) if options.mbr else options,
            constraints=[sentence.constraints for sentence in sentences],
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
