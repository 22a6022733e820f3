"""Sentences to translations: codes are taken out, the engine searches, codes are put back, and doubts are said.

A sentence is what the steps have left of a text; its translation is that of what the model read.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from glassformer.decoding.batching import EncodedSource, ModelInput, plan_decoding, read_sources
from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.engines.batch_translator import BatchTranslator
from glassformer.decoding.engines.engine import Engine
from glassformer.decoding.restore.alignment import attends_to_all, content_doubts, is_short, token_ends
from glassformer.decoding.restore.drafts import Attempt, NumberedText, translate_parts
from glassformer.decoding.search.job import Constraints
from glassformer.decoding.sentences import SentenceRequest
from glassformer.decoding.translation import EMPTY, Hypothesis, Translation
from glassformer.settings import DecodeConfig
from glassformer.text.codes.code import join_parts
from glassformer.text.tokenizer.tokenizer import Tokenizers

Report = Callable[[Sequence[ModelInput]], None]


class SentenceTranslator:
    """An engine with its tokenizers, and how sure it is of what it writes; ``used_engines`` names what has run."""

    def __init__(self, engine: Engine, tokenizers: Tokenizers, confidence: Confidence | None) -> None:
        self.engine, self.confidence, self._tokenizers = engine, confidence, tokenizers
        self._batches = BatchTranslator(engine, tokenizers[1])
        self.used_engines = set[str]()

    def translate(
        self,
        sentences: Sequence[SentenceRequest],
        options: DecodeConfig,
        attention: bool = False,
        check_content: bool = False,
        report: Report = lambda _: None,
    ) -> list[Translation]:
        """The translation of each sentence, with the codes that it has."""

        def search(texts: Sequence[NumberedText], with_attention: bool) -> list[Translation]:
            return self._search(self._inputs(texts, sentences), options, attention or with_attention, report)

        is_checked = check_content and options.keep_codes and not options.sample
        parts = [one.parts for one in sentences]
        attempts = translate_parts(parts, search, self._token_ends, checks_numbers=is_checked)
        doubts = [one.translation.warnings for one in attempts]
        if check_content:
            self._check_content(attempts, doubts, options)
        found = [one.finish(more) for one, more in zip(attempts, doubts, strict=True)]
        return [_with_tensor(one) if attention else _without_attention(one) for one in found]

    def _check_content(self, attempts: Sequence[Attempt], doubts: list[list[str]], options: DecodeConfig) -> None:
        """Add to ``doubts`` what seems to lack a word of its source; of short translations the attention is asked."""
        asked = dict[int, Translation]()
        for number, one in enumerate(attempts):
            found = one.translation
            if one.lost or one.restored[0].flags or not set(doubts[number]) <= {found.warning}:
                continue
            best = found.hypotheses[0]
            is_seen = best.attention is not None or best.truncated or not best.ids
            is_short_one = is_short(found, self.confidence)
            if not is_seen and is_short_one and not attends_to_all(found, self._token_ends):
                asked[number] = found
            else:
                doubts[number] += content_doubts(found, self.confidence, self._token_ends)
        texts = [(None, found.source) for found in asked.values()]
        ids = [found.hypotheses[0].ids for found in asked.values()]
        weights = self._batches.attention(self._inputs(texts, ()), ids, options) if asked else iter(())
        for (number, found), one_weights in zip(asked.items(), weights, strict=True):
            best = replace(found.hypotheses[0], attention=one_weights, mean_attention=self.engine.mean_attention)
            seen = replace(found, hypotheses=[best])
            doubts[number] += content_doubts(seen, self.confidence, self._token_ends)

    def _token_ends(self, translation: Translation) -> tuple[list[int], list[int]]:
        return token_ends(translation, *self._tokenizers)

    def _inputs(self, texts: Sequence[NumberedText], sentences: Sequence[SentenceRequest]) -> list[ModelInput]:
        """What the model is given of ``texts``, with the constraints of their sentences."""
        sources = read_sources([text for _, text in texts], self._tokenizers[0], self.engine.config)
        return [
            ModelInput(source, Constraints(), 0)
            if number is None
            else ModelInput(source, sentences[number].constraints, sentences[number].sample_key, number)
            for (number, _), source in zip(texts, sources, strict=True)
        ]

    def _search(
        self, inputs: Sequence[ModelInput], options: DecodeConfig, attention: bool, report: Report = lambda _: None
    ) -> list[Translation]:
        """The translation of each input as it is read; ``report`` gets those that each batch has done."""
        numbers = [number for number, one in enumerate(inputs) if not one.source.is_empty]
        results = {n: self._result(one.source, [EMPTY]) for n, one in enumerate(inputs) if one.source.is_empty}
        lengths = [len(one.source.ids) for one in inputs]
        engine = self.engine
        plan = plan_decoding(
            lengths, numbers, options.rows_per_source, options.batch_tokens, engine.workers,
            max_efficient_sources=engine.max_efficient_sources,
        )  # fmt: skip
        batches = [[inputs[number] for number in batch] for batch in plan]
        for batch_number, of_batch, name in self._batches.translate(batches, options, attention=attention):
            for number, hypotheses in zip(plan[batch_number], of_batch, strict=True):
                results[number] = self._result(inputs[number].source, hypotheses, name)
            self.used_engines.add(name)
            report(batches[batch_number])
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
        return Translation(source.text, tokens, source.truncated, hypotheses, engine, doubt=doubt)


def _without_attention(translation: Translation) -> Translation:
    """Without what only the codes needed."""
    best, *others = translation.hypotheses
    if best.attention is None:
        return translation
    return replace(translation, hypotheses=[replace(best, attention=None), *others])


def _with_tensor(translation: Translation) -> Translation:
    """With the attention as a tensor, whatever engine gave it."""
    best, *others = translation.hypotheses
    if best.attention is None:
        return translation
    import torch

    return replace(translation, hypotheses=[replace(best, attention=torch.as_tensor(best.attention)), *others])
