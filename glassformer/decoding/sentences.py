"""Segments: a text, or each of its sentences, is translated as a segment; a text is joined from its segments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassformer.decoding.batching import EncodedSource, read_sources
from glassformer.decoding.request import Request, tokenize_constraints
from glassformer.decoding.search.job import Constraints
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.errors import InputError
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text.sentence_splitter import Sentence, split_sentences
from glassformer.text.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

# The random numbers of a sentence follow from the number of its text and its own number in it. The first sentence
# has those that the whole text would have.
_NEXT_SENTENCE = 2**32


@dataclass(frozen=True)
class SourceSentence:
    """One source of the model, and the request that it belongs to."""

    source: EncodedSource
    request: int
    """The number of its request in the batch of requests."""
    sample_key: int
    """Seeds the random numbers of sampling, together with the seed."""
    gap: str
    """The white space after it."""
    constraints: Constraints


def split_requests(
    requests: Sequence[Request],
    start: int,
    options: DecodeConfig,
    config: ModelConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
) -> list[SourceSentence]:
    """The segments of all requests, in order; the first request is number ``start`` of the whole input.

    Raises ``InputError`` for constraints that cannot be tokenized, are too long, or apply to several sentences.
    """
    src_tokenizer, tgt_tokenizer = tokenizers
    split = [_split(request, number, options) for number, request in enumerate(requests, start)]
    constraints = [
        _check_constraints(tokenize_constraints(request, tgt_tokenizer, f"texts[{number}]"), number, options, config)
        for number, request in enumerate(requests, start)
    ]
    texts = [sentence.text for sentences in split for sentence in sentences]
    sources = iter(read_sources(texts, src_tokenizer, config))
    return [
        SourceSentence(
            next(sources), request, start + request + index * _NEXT_SENTENCE, sentence.gap, constraints[request]
        )
        for request, sentences in enumerate(split)
        for index, sentence in enumerate(sentences)
    ]


def _split(request: Request, number: int, options: DecodeConfig) -> list[Sentence]:
    sentences = split_sentences(request.text) if options.split_sentences else [Sentence(request.text, "")]
    if len(sentences) > 1 and (request.prefix or request.must):
        raise InputError(
            f"texts[{number}]: found {len(sentences)} sentences with a prefix or phrases that must occur, expected "
            "one sentence, because they apply to one. Drop split_sentences, or give each sentence as a text."
        )
    return sentences


def _check_constraints(
    constraints: Constraints, number: int, options: DecodeConfig, config: ModelConfig
) -> Constraints:
    if options.sample and constraints.required:
        raise InputError(
            f"texts[{number}]: must: found {len(constraints.required)} phrases with sampling, expected none: "
            "sampling cannot be made to produce them. Search instead: sample=False."
        )
    if len(constraints.prefix) >= config.max_length:
        raise InputError(
            f"texts[{number}]: prefix: has {len(constraints.prefix)} tokens, expected fewer than the "
            f"{config.max_length} that the model takes. Shorten it."
        )
    return constraints


def join_segments(
    requests: Sequence[Request], segments: Sequence[SourceSentence], results: Sequence[Translation]
) -> Iterator[Translation]:
    """The translation of each request, joined from those of its segments."""
    end = 0
    for number, request in enumerate(requests):
        first = end
        while end < len(segments) and segments[end].request == number:
            end += 1
        gaps = [segment.gap for segment in segments[first:end]]
        yield _join_translations(request.text, results[first:end], gaps)


def _join_translations(text: str, parts: Sequence[Translation], gaps: Sequence[str]) -> Translation:
    if len(parts) == 1:
        return parts[0]
    return Translation(
        source=text,
        source_tokens=[token for part in parts for token in part.source_tokens],
        source_truncated=any(part.source_truncated for part in parts),
        hypotheses=[_join_hypotheses(hypotheses, gaps) for hypotheses in zip(*_by_rank(parts), strict=False)],
        engine=" and ".join(sorted({part.engine for part in parts if part.source_tokens})) or parts[0].engine,
    )


def _by_rank(parts: Sequence[Translation]) -> list[list[Hypothesis]]:
    """The hypotheses of each segment; a blank one has the empty hypothesis in every rank."""
    most = max(len(part.hypotheses) for part in parts)
    return [part.hypotheses if part.source_tokens else most * part.hypotheses for part in parts]


def _join_hypotheses(parts: Sequence[Hypothesis], gaps: Sequence[str]) -> Hypothesis:
    """The segments' hypotheses of one rank as one: texts and tokens are concatenated, log_prob and score added."""
    utilities = [part.utility for part in parts if part.utility is not None]
    return Hypothesis(
        text="".join(part.text + gap for part, gap in zip(parts, gaps, strict=True)),
        tokens=[token for part in parts for token in part.tokens],
        ids=[number for part in parts for number in part.ids],
        log_prob=sum(part.log_prob for part in parts),
        score=sum(part.score for part in parts),
        truncated=any(part.truncated for part in parts),
        attention=_join_attention([part.attention for part in parts if part.attention is not None]),
        mean_attention=any(part.mean_attention for part in parts),
        utility=sum(utilities) / len(utilities) if utilities else None,
        unmet=tuple(phrase for part in parts for phrase in part.unmet),
    )


def _join_attention(
    blocks: "Sequence[Float[Tensor, 'layers heads tgt src']]",
) -> "Float[Tensor, 'layers heads tgt src'] | None":
    """One matrix with the sentences' attention along its diagonal, zero elsewhere."""
    if not blocks:
        return None
    tgt, src = (sum(block.shape[axis] for block in blocks) for axis in (2, 3))
    whole = blocks[0].new_zeros(*blocks[0].shape[:2], tgt, src)
    row = column = 0
    for block in blocks:
        whole[:, :, row : row + block.shape[2], column : column + block.shape[3]] = block
        row, column = row + block.shape[2], column + block.shape[3]
    return whole
