"""Sentences with codes of a request: translated by their drafts, with the codes and the style put back.

Tokens, scores and confidence are those of what the model read and wrote.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from glassformer.decoding.batching import read_sources
from glassformer.decoding.codes.alignment import token_ends
from glassformer.decoding.codes.coded_texts import CodedTranslation, NumberedDraft, translate_coded
from glassformer.decoding.search.job import Constraints
from glassformer.decoding.sentences import SourceSentence
from glassformer.decoding.translation import Translation
from glassformer.settings import ModelConfig
from glassformer.text.codes.typed import TypedSentence
from glassformer.text.formats.segment import join_parts
from glassformer.text.tokenizer.tokenizer import Tokenizers

Search = Callable[[Sequence[SourceSentence], bool], list[Translation]]
"""Translates sentences without codes, with attention or without."""


def translate_sentences(
    sentences: Sequence[SourceSentence],
    search: Search,
    config: ModelConfig,
    tokenizers: Tokenizers,
    *,
    attention: bool,
) -> list[Translation]:
    """The translation of each sentence; all have codes."""
    coded = [sentence.coded for sentence in sentences if sentence.coded is not None]

    def translate(drafts: Sequence[NumberedDraft], for_codes: bool) -> list[Translation]:
        sources = read_sources([draft.text for _, draft in drafts], tokenizers[0], config)
        read = [
            replace(sentences[0], source=source, constraints=Constraints())
            if number is None
            else replace(sentences[number], source=source)
            for (number, _), source in zip(drafts, sources, strict=True)
        ]
        return search(read, attention or for_codes)

    ends = partial(token_ends, src=tokenizers[0], tgt=tokenizers[1])
    found = translate_coded([one.parts for one in coded], translate, ends)
    return [_restore(typed, one, attention) for typed, one in zip(coded, found, strict=True)]


def _restore(typed: TypedSentence, found: CodedTranslation, attention: bool) -> Translation:
    """The translation with the codes in each hypothesis; attention that only the codes needed is left out."""
    hypotheses = [
        replace(one, text=join_parts(typed.restore(result.parts)), attention=one.attention if attention else None)
        for one, result in zip(found.translation.hypotheses, found.results, strict=True)
    ]
    return replace(found.translation, hypotheses=hypotheses)
