"""Parts: what is translated by itself, a whole text or one of its sentences; and the whole again from its parts.

Knows nothing of how outputs are found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from glassformer.config import DecodeConfig, ModelConfig
from glassformer.decoding.batching import Source, read_sources
from glassformer.decoding.constraints import Demands
from glassformer.decoding.request import Request, demands_of
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.errors import InputError
from glassformer.text.sentence_splitter import Sentence, split_sentences
from glassformer.text.tokenizer import Tokenizer

# A sentence's random numbers follow from the place of its text and its own place there. The first has those that
# the whole text would have.
_NEXT_SENTENCE = 2**32


@dataclass(frozen=True)
class Part:
    """One source of the model, and whose part it is."""

    source: Source
    request: int  # which of the requests
    position: int  # decides the random numbers of sampling
    gap: str  # the white space behind it
    demands: Demands


def parts_of(
    requests: Sequence[Request],
    start: int,
    options: DecodeConfig,
    config: ModelConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
) -> list[Part]:
    """All parts, those of a request together and in order; the first request is number ``start`` of all input.

    Raises ``InputError`` for what is demanded and cannot be spelled, is too long, or belongs to no one sentence.
    """
    src_tokenizer, tgt_tokenizer = tokenizers
    cut = [_cut(request, place, options) for place, request in enumerate(requests, start)]
    demands = [
        _checked(demands_of(request, tgt_tokenizer, f"texts[{place}]"), place, options, config)
        for place, request in enumerate(requests, start)
    ]
    sources = iter(read_sources([one.text for sentences in cut for one in sentences], src_tokenizer, config))
    return [
        Part(next(sources), place, start + place + number * _NEXT_SENTENCE, sentence.gap, demands[place])
        for place, sentences in enumerate(cut)
        for number, sentence in enumerate(sentences)
    ]


def _cut(request: Request, place: int, options: DecodeConfig) -> list[Sentence]:
    sentences = split_sentences(request.text) if options.split_sentences else [Sentence(request.text, "")]
    if len(sentences) > 1 and (request.prefix or request.must):
        raise InputError(
            f"texts[{place}]: found {len(sentences)} sentences with a prefix or phrases that must occur, expected "
            "one, because they belong to one. Drop split_sentences, or give the sentences by themselves."
        )
    return sentences


def _checked(demands: Demands, place: int, options: DecodeConfig, config: ModelConfig) -> Demands:
    if options.sample and demands.required:
        raise InputError(
            f"texts[{place}]: must: found {len(demands.required)} phrases with sampling, expected none: a draw "
            "cannot be led to them. Search instead: sample=False."
        )
    if len(demands.prefix) >= config.max_length:
        raise InputError(
            f"texts[{place}]: prefix: has {len(demands.prefix)} tokens, expected fewer than the "
            f"{config.max_length} that the model takes. Shorten it."
        )
    return demands


def joined(
    requests: Sequence[Request], parts: Sequence[Part], results: Sequence[Translation]
) -> Iterator[Translation]:
    """The translation of each request from those of its parts."""
    place = 0
    for number, request in enumerate(requests):
        first = place
        while place < len(parts) and parts[place].request == number:
            place += 1
        gaps = [part.gap for part in parts[first:place]]
        yield _whole(request.text, results[first:place], gaps)


def _whole(text: str, parts: Sequence[Translation], gaps: Sequence[str]) -> Translation:
    if len(parts) == 1:
        return parts[0]
    return Translation(
        source=text,
        source_tokens=[token for part in parts for token in part.source_tokens],
        source_truncated=any(part.source_truncated for part in parts),
        hypotheses=[_whole_hypothesis(hypotheses, gaps) for hypotheses in zip(*_by_rank(parts), strict=False)],
    )


def _by_rank(parts: Sequence[Translation]) -> list[list[Hypothesis]]:
    """The hypotheses of each part; a blank one has the empty one in every rank."""
    most = max(len(part.hypotheses) for part in parts)
    return [part.hypotheses if part.source_tokens else most * part.hypotheses for part in parts]


def _whole_hypothesis(parts: Sequence[Hypothesis], gaps: Sequence[str]) -> Hypothesis:
    """The parts' hypotheses of one rank as one: what each says stands behind the other, its numbers are added."""
    utilities = [part.utility for part in parts if part.utility is not None]
    return Hypothesis(
        text="".join(part.text + gap for part, gap in zip(parts, gaps, strict=True)),
        tokens=[token for part in parts for token in part.tokens],
        ids=[number for part in parts for number in part.ids],
        log_prob=sum(part.log_prob for part in parts),
        score=sum(part.score for part in parts),
        truncated=any(part.truncated for part in parts),
        attention=_side_by_side([part.attention for part in parts if part.attention is not None]),
        utility=sum(utilities) / len(utilities) if utilities else None,
        unmet=tuple(phrase for part in parts for phrase in part.unmet),
    )


def _side_by_side(
    blocks: Sequence[Float[Tensor, "layers heads tgt src"]],
) -> Float[Tensor, "layers heads tgt src"] | None:
    """Attention within each sentence; none from one to another."""
    if not blocks:
        return None
    tgt, src = (sum(block.shape[axis] for block in blocks) for axis in (2, 3))
    whole = blocks[0].new_zeros(*blocks[0].shape[:2], tgt, src)
    row = column = 0
    for block in blocks:
        whole[:, :, row : row + block.shape[2], column : column + block.shape[3]] = block
        row, column = row + block.shape[2], column + block.shape[3]
    return whole
