"""Sentences to translations: codes are taken out, the engine searches, codes are put back, and doubts are said.

A sentence is what the steps have left of a text; its translation is that of what the model read.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from glassformer.decoding.batching import EncodedSource, ModelInput, output_limit, plan_decoding, read_sources
from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.engines.engine import Engine
from glassformer.decoding.restore.alignment import (
    CAPITAL_NOUNS,
    attends_to_all,
    content_doubts,
    find_lost_names,
    find_new_names,
    is_short,
    token_ends,
)
from glassformer.decoding.restore.drafts import Attempt, NumberedText, doubt_missing, doubt_numbers, translate_parts
from glassformer.decoding.search.job import Constraints, SearchJob
from glassformer.decoding.search.mbr import chrf_utility, mbr_rank
from glassformer.decoding.search.outputs import Output
from glassformer.decoding.sentences import SentenceRequest
from glassformer.decoding.translation import EMPTY, Doubt, Hypothesis, Translation
from glassformer.settings import DecodeConfig
from glassformer.text.codes.code import join_parts
from glassformer.text.tokenizer.tokenizer import Tokenizer, Tokenizers

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

_BROKEN = "\ufffd"
_ONE_STOP = re.compile(r"(?<=[^.]\.)\.$")  # a doubled full stop; the text is the same without


class SentenceTranslator:
    """An engine with its tokenizers, and how sure it is of what it writes; ``used_engines`` names what has run.

    Between two ``languages`` numbers keep their value; without these a model may have learned to rewrite them.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizers: Tokenizers,
        confidence: Confidence | None,
        languages: tuple[str, str] | None = None,
    ) -> None:
        self.engine, self.confidence, self._tokenizers = engine, confidence, tokenizers
        self._languages = languages
        self._batches = BatchTranslator(engine, tokenizers[1])
        self.used_engines = set[str]()

    def translate(
        self,
        sentences: Sequence[SentenceRequest],
        options: DecodeConfig,
        attention: bool = False,
        check_content: bool = False,
    ) -> list[Translation]:
        """The translation of each sentence, with the codes that it has."""

        def search(texts: Sequence[NumberedText], with_attention: bool) -> list[Translation]:
            inputs = self._inputs(texts, sentences)
            return self._search(inputs, options, attention or with_attention, mean=not attention)

        keeps_numbers = check_content or self._languages is not None
        is_checked = keeps_numbers and options.keep_codes and not options.sample
        parts = [one.parts for one in sentences]
        attempts = translate_parts(
            parts, search, self._token_ends, checks_numbers=is_checked, languages=self._languages
        )
        missing = (
            self._find_missing(sentences, attempts, options, check_content) if is_checked or check_content else {}
        )
        if is_checked and not check_content:
            attempts = [
                doubt_missing(doubt_numbers(one), missing.get(number, ())) for number, one in enumerate(attempts)
            ]
            missing = {}
        return [
            one.finish([*one.translation.warnings, *missing.get(number, ())], attention=attention)
            for number, one in enumerate(attempts)
        ]

    def _find_missing(
        self,
        sentences: Sequence[SentenceRequest],
        attempts: Sequence[Attempt],
        options: DecodeConfig,
        check_content: bool,
    ) -> dict[int, list[str]]:
        """What some translations seem to lack of their source, by number; if in doubt the attention is asked.

        With ``check_content`` it is any word, of translations that are short, in a remark; else names.
        """
        asked, found = dict[int, Translation](), dict[int, list[str]]()
        for number, one in enumerate(attempts):
            translation = one.translation
            best = translation.hypotheses[0]
            is_said = one.lost or one.restored[0].flags or not set(translation.warnings) <= {translation.warning}
            if is_said or best.truncated or not best.ids:
                continue
            may_lack = check_content and is_short(translation, self.confidence)
            may_lack = may_lack and not attends_to_all(translation, self._token_ends)
            looks_for_names = check_content or translation.doubt is None
            if may_lack or (looks_for_names and self._has_new_names(translation)):
                asked[number] = translation
            elif check_content:
                found[number] = content_doubts(translation, self.confidence, self._token_ends)
        find = partial(content_doubts, confidence=self.confidence) if check_content else find_lost_names
        for number, seen in self._with_attention(sentences, asked, options):
            found[number] = find(seen, ends=self._token_ends)
        return found

    def _has_new_names(self, translation: Translation) -> bool:
        """Whether a name of the source is not in the translation: a word with a capital, but of no German text."""
        language = (self._languages or ("",))[0].partition("-")[0]
        is_looked_for = language not in ("", *CAPITAL_NOUNS)
        return is_looked_for and bool(find_new_names(translation.source, translation.text))

    def _with_attention(
        self, sentences: Sequence[SentenceRequest], asked: Mapping[int, Translation], options: DecodeConfig
    ) -> Iterator[tuple[int, Translation]]:
        """The translations with the attention with which they were written."""
        missing = {number: one for number, one in asked.items() if one.hypotheses[0].attention is None}
        yield from ((number, one) for number, one in asked.items() if number not in missing)
        texts = [(number, one.source) for number, one in missing.items()]
        ids = [one.hypotheses[0].ids for one in missing.values()]
        weights = self._batches.attention(self._inputs(texts, sentences), ids, options) if missing else iter(())
        for (number, one), of_one in zip(missing.items(), weights, strict=True):
            yield number, replace(one, hypotheses=[replace(one.hypotheses[0], attention=of_one)])

    def _token_ends(self, translation: Translation) -> tuple[list[int], list[int]]:
        return token_ends(translation, *self._tokenizers)

    def _inputs(self, texts: Sequence[NumberedText], sentences: Sequence[SentenceRequest]) -> list[ModelInput]:
        """What the model is given of ``texts``, with the constraints of their sentences."""
        of_all = sentences[0].token if len({one.token for one in sentences}) == 1 else ""
        tokens = [of_all if number is None else sentences[number].token for number, _ in texts]
        read = [text for _, text in texts]
        sources = read_sources(read, self._tokenizers[0], self.engine.config, tokens=tokens)
        return [
            ModelInput(source, Constraints(), 0)
            if number is None
            else ModelInput(source, sentences[number].constraints, sentences[number].sample_key)
            for (number, _), source in zip(texts, sources, strict=True)
        ]

    def _search(
        self, inputs: Sequence[ModelInput], options: DecodeConfig, attention: bool, *, mean: bool
    ) -> list[Translation]:
        """The translation of each input as it is read; ``mean``: of the attention the last layer is enough."""
        numbers = [number for number, one in enumerate(inputs) if not one.source.is_empty]
        results = {n: self._result(one.source, [EMPTY]) for n, one in enumerate(inputs) if one.source.is_empty}
        lengths = [len(one.source.ids) for one in inputs]
        engine = self.engine
        plan = plan_decoding(
            lengths, numbers, options.rows_per_source, options.batch_tokens, engine.workers,
            max_efficient_sources=engine.max_efficient_sources,
        )  # fmt: skip
        batches = [[inputs[number] for number in batch] for batch in plan]
        for batch_number, of_batch, name in self._batches.translate(batches, options, attention=attention, mean=mean):
            for number, hypotheses in zip(plan[batch_number], of_batch, strict=True):
                results[number] = self._result(inputs[number].source, hypotheses, name)
            self.used_engines.add(name)
        return [results[number] for number in range(len(inputs))]

    def stream(self, sentence: SentenceRequest, options: DecodeConfig) -> Generator[str, None, Translation]:
        """The translation of a sentence without codes, in pieces, each as soon as it is certain."""
        (read,) = self._inputs([(0, join_parts(sentence.parts))], [sentence])
        best = EMPTY if read.source.is_empty else (yield from self._batches.stream(read, options))
        text = best.text.strip()
        found = self._result(read.source, [replace(best, text=text, parts=(text,) if text else ())])
        return replace(found, flags=tuple(found.warnings))

    def _result(self, source: EncodedSource, hypotheses: list[Hypothesis], engine: str = "") -> Translation:
        """The translation of a sentence, as it was read, with its confidence."""
        if source.is_empty:
            return Translation(source.text, [], source.truncated, hypotheses, engine)
        doubt, tokens = None, self._tokenizers[0].to_tokens(source.ids)
        if self.confidence is not None:
            chances, doubt = self.confidence.judge(source.text, hypotheses)
            pairs = zip(hypotheses, chances, strict=True)
            hypotheses = [replace(one, confidence=chance) for one, chance in pairs]
        if doubt is None or doubt.reason == "unsure":
            unknown = self._tokenizers[0].unknown_symbols(source.text)
            doubt = Doubt("symbols", unknown) if unknown else doubt
        return Translation(source.text, tokens, source.truncated, hypotheses, engine, doubt=doubt)


class BatchTranslator:
    """From sentences to hypotheses, a batch at a time: the engine's candidates, detokenized and ranked."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer) -> None:
        self.engine = engine
        self._tokenizer = tokenizer

    def translate(
        self, batches: Sequence[Sequence[ModelInput]], options: DecodeConfig, *, attention: bool, mean: bool = False
    ) -> Iterator[tuple[int, list[list[Hypothesis]], str]]:
        """The number of each batch, in any order, with the hypotheses of its sentences and the name of the engine.

        With ``attention`` the best hypothesis of each sentence has the cross-attention of the first model.
        """
        # Which sample is best is known only after they were detokenized and compared.
        jobs = [self._job(batch, options, attention=attention and not options.mbr, mean=mean) for batch in batches]
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
        """The cross-attention with which the first model writes the given output of each sentence, in order.

        At least the mean of the last layer.
        """
        lengths = [len(one.source.ids) for one in sources]
        found: dict[int, Any] = {}
        for batch in plan_decoding(lengths, range(len(sources)), 1, options.batch_tokens):
            job = self._job([sources[number] for number in batch], options, attention=True)
            found |= dict(
                zip(batch, self.engine.attention(job, [outputs[number] for number in batch], mean=True), strict=True)
            )
        return (found[number] for number in range(len(sources)))

    def stream(self, source: ModelInput, options: DecodeConfig) -> Generator[str, None, Hypothesis]:
        """The best hypothesis's text in pieces, each as soon as it is certain; its value is the hypothesis."""
        given = ""
        steps = self.engine.stream(self._job([source], options, attention=False))
        while True:
            try:
                certain = next(steps)
            except StopIteration as end:
                best = self._hypotheses(end.value, options)[0]
                break
            piece = certain_text(self._tokenizer, certain)[len(given) :].replace("\r", " ")
            yield piece
            given += piece
        yield best.text[len(given) :]
        return best

    def _job(
        self, sources: Sequence[ModelInput], options: DecodeConfig, *, attention: bool, mean: bool = False
    ) -> SearchJob:
        config = self.engine.config
        return SearchJob(
            sources=[one.source.ids for one in sources],
            limits=[output_limit(one.source.ids, config, options, len(one.constraints.prefix)) for one in sources],
            sample_keys=[one.sample_key for one in sources],
            options=replace(options, n_best=options.rows_per_source, mbr=0) if options.mbr else options,
            constraints=[one.constraints for one in sources],
            attention=attention,
            mean_attention=mean,
        )

    def _hypotheses(self, candidates: Sequence[Output], options: DecodeConfig) -> list[Hypothesis]:
        """The candidates with their texts, best first: in the engine's order, or by minimum Bayes risk."""
        hypotheses = [self._hypothesis(candidate) for candidate in candidates]
        if not options.sample:  # other ids may be the same text
            texts = [_ONE_STOP.sub("", one.text) for one in hypotheses]
            return [one for number, one in enumerate(hypotheses) if texts[number] not in texts[:number]]
        if not options.mbr:
            return hypotheses
        best = mbr_rank([hypothesis.text for hypothesis in hypotheses], options.n_best, chrf_utility())
        return [replace(hypotheses[index], utility=utility) for index, utility in best]

    def _hypothesis(self, candidate: Output) -> Hypothesis:
        text, tokens = self._tokenizer.to_text(candidate.ids), self._tokenizer.to_tokens(candidate.ids)
        unmet = tuple(self._tokenizer.to_text(ids).strip() for ids in candidate.unmet)
        return Hypothesis(text.replace("\r", " "), tokens, **{**vars(candidate), "unmet": unmet})


def certain_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of growing ids that later ones leave as it is: a broken character at its end may be completed."""
    text = tokenizer.to_text(ids).rstrip(_BROKEN)
    return text[:-1] if tokenizer.decomposes else text
