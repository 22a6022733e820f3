"""Sentences: each line of a text, or each sentence of it, is translated as one; a text is joined from them.

A model reads them with plain spaces (``normalize_source``); the white space around them is kept. What has no letter
is copied.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from glassformer.decoding.batching import EncodedSource, read_sources
from glassformer.decoding.request import Request, keeps_capital, tokenize_constraints
from glassformer.decoding.search.job import Constraints
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.errors import InputError
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text.codes import may_have_codes
from glassformer.text.formats.segment import join_parts
from glassformer.text.lines import has_letter, is_blank, normalize_source
from glassformer.text.scripts import gap_between
from glassformer.text.sentence_splitter import split_lines, split_sentences
from glassformer.text.style import PLAIN, Style, is_lower_word, read_style, split_signs
from glassformer.text.tokenizer.tokenizer import EOS_ID, Tokenizer, Tokenizers

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from glassformer.text.codes.typed import Parts, TypedSentence

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
    before: str
    """The white space at the start of the text, for its first sentence."""
    gap: str
    """The white space after it."""
    is_last: bool
    """Whether it ends its text."""
    constraints: Constraints
    is_copied: bool = False
    """Whether it has no letter, and is its own translation."""
    style: Style = PLAIN
    """How the text was typed, which its translation gets back."""
    coded: "TypedSentence | None" = None
    """It with its codes, if it has some, which the source has not."""

    @property
    def needs_model(self) -> bool:
        """Whether it is neither empty nor copied."""
        return not (self.source.is_empty or self.is_copied)

    @property
    def copied_text(self) -> str:
        """Its translation without a model."""
        return self.source.text if self.is_copied else ""

    def gap_after(self, translation: str) -> str:
        """The white space after its translation, as the script of that asks."""
        return self.gap if self.is_last else gap_between(self.source.text, translation, self.gap)


def split_requests(
    requests: Sequence[Request], start: int, options: DecodeConfig, config: ModelConfig, tokenizers: Tokenizers
) -> list[SourceSentence]:
    """The sentences of all requests, in order; the first request is number ``start`` of the whole input.

    A prefix is that of the first sentence. Raises ``InputError`` for constraints that cannot be tokenized or are too
    long, and for phrases that must occur in one of several sentences.
    """
    src_tokenizer, tgt_tokenizer = tokenizers
    split = [_split(request, options) for request in requests]
    constraints = [
        _check_constraints(_tokenize(request, pieces, tgt_tokenizer, f"texts[{number}]"), number, options, config)
        for number, (request, pieces) in enumerate(zip(requests, split, strict=True), start)
    ]
    for number, (request, pieces) in enumerate(zip(requests, split, strict=True), start):
        if len(pieces) > 1 and request.must:
            raise InputError(
                f"texts[{number}]: found {len(pieces)} sentences or lines with phrases that must occur, expected "
                "one, because nothing says in which. Give each sentence as a text of its own, or one line and "
                "split_sentences = false."
            )
    sources = iter(read_sources([piece.read for pieces in split for piece in pieces], src_tokenizer, config))
    return [
        SourceSentence(
            source=next(sources),
            request=number,
            sample_key=start + number + index * _NEXT_SENTENCE,
            before=piece.before,
            gap=piece.after,
            is_last=index == len(pieces) - 1,
            constraints=constraints[number] if index == 0 else replace(constraints[number], prefix=()),
            is_copied=options.copy_wordless
            and not (index == 0 and requests[number].is_constrained)
            and not piece.has_words,
            style=replace(piece.style, keeps_capital=partial(keeps_capital, tokenizer=tgt_tokenizer))
            if piece.is_lower_word
            else piece.style,
            coded=piece.coded,
        )
        for number, pieces in enumerate(split)
        for index, piece in enumerate(pieces)
    ]


class _Piece(NamedTuple):
    """A line or sentence as a model reads it, with what stands before and after it."""

    before: str
    read: str
    after: str
    style: Style
    has_words: bool
    is_lower_word: bool = False
    coded: "TypedSentence | None" = None


def _split(request: Request, options: DecodeConfig) -> list[_Piece]:
    """The lines or sentences of a text as a model reads them."""
    split = partial(split_sentences, language=options.src_language) if options.split_sentences else split_lines
    if options.keep_codes and may_have_codes(request.text):
        from glassformer.text.codes.typed import split_codes

        if (coded := split_codes(request.text, (request.prefix, *request.must), split)) is not None:
            matches_style = options.match_style and not request.is_constrained  # a code may stand before the prefix
            return [_read_coded(*sentence, matches_style) for sentence in coded]
    first, *others = (_read_plain(*sentence, options.match_style) for sentence in split(request.text))
    if options.match_style and request.is_constrained:
        prefix, signs = request.prefix.strip(), first.before.strip()
        before = first.before[: first.before.index(signs)] if prefix.startswith(signs) else first.before
        first = first._replace(before=before, style=first.style.with_phrases(prefix, request.must))
    return [first, *others]


def _read_coded(parts: "Parts", gap: str, matches_style: bool) -> _Piece:
    """A sentence with codes, read with stand-ins for these, if it has some; without words it is read as it is."""
    from glassformer.text.codes.draft import make_draft
    from glassformer.text.codes.typed import has_words, is_crowded, read_typed

    text = join_parts(parts)
    if is_crowded(parts) or parts == (text,):
        return _read_plain(text, gap, matches_style)
    if not has_words(parts):
        read = text.strip()
        before, _, after = text.partition(read)
        return _Piece(before, read, after + gap, PLAIN, has_words=False)
    typed = read_typed(parts, matches_style=matches_style)
    draft = make_draft(typed.parts, 0) or make_draft(typed.parts)
    assert draft is not None, "without stand-ins there is always one"
    return _Piece(typed.before, draft.text, typed.after + gap, PLAIN, has_words=True, coded=typed)


def _read_plain(sentence: str, gap: str, matches_style: bool) -> _Piece:
    if matches_style and has_letter(sentence):
        before, inner, after = split_signs(sentence)
    else:
        inner = sentence.strip()
        before, _, after = ("", "", "") if is_blank(inner) else sentence.partition(inner)
    read, style = normalize_source(inner), PLAIN
    if matches_style:
        read, style = read_style(read)
    return _Piece(before, read, after + gap, style, has_letter(read), matches_style and is_lower_word(inner))


def read_source_sentences(text: str, options: DecodeConfig) -> list[str]:
    """The lines or sentences of a text as a model reads them, one after the other; an empty one of a blank text."""
    return [piece.read for piece in _split(Request(text), options) if piece.read] or [""]


def read_text(text: str, options: DecodeConfig) -> str:
    """A text as a model reads it, its lines or sentences with a space between."""
    return " ".join(read_source_sentences(text, options))


def _tokenize(request: Request, pieces: Sequence[_Piece], tokenizer: Tokenizer, name: str) -> Constraints:
    """The constraints of a request in ids, in the case in which a model writes what it reads as sentences."""
    style = pieces[0].style
    if style.prefix:
        request = replace(request, prefix=style.written)
    if request.ban and any(piece.style != PLAIN for piece in pieces):
        forms = (form for phrase in request.ban for form in (phrase.lower(), phrase[:1].upper() + phrase[1:].lower()))
        request = replace(request, ban=(*request.ban, *forms))
    return tokenize_constraints(request, tokenizer, name)


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


def join_sentences(
    requests: Sequence[Request], sentences: Sequence[SourceSentence], results: Sequence[Translation]
) -> Iterator[Translation]:
    """The translation of each request, joined from those of its sentences."""
    end = 0
    for number, request in enumerate(requests):
        first = end
        while end < len(sentences) and sentences[end].request == number:
            end += 1
        yield _join_translations(request.text, results[first:end], sentences[first:end])


def _join_translations(text: str, parts: Sequence[Translation], sentences: Sequence[SourceSentence]) -> Translation:
    return Translation(
        source=text,
        source_tokens=[token for part in parts for token in part.source_tokens],
        source_truncated=any(part.source_truncated for part in parts),
        hypotheses=[_join_hypotheses(hypotheses, sentences) for hypotheses in zip(*_by_rank(parts), strict=False)],
        engine=" and ".join(sorted({part.engine for part in parts} - {""})),
        read=" ".join(part.source for part in parts if part.source),
        doubt=next((part.doubt for part in sorted(parts, key=_confidence) if part.doubt is not None), None),
    )


def _confidence(translation: Translation) -> float:
    found = translation.hypotheses[0].confidence
    return 1.0 if found is None else found


def _by_rank(parts: Sequence[Translation]) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence; a blank one has the empty hypothesis in every rank."""
    most = max(len(part.hypotheses) for part in parts)
    return [part.hypotheses if part.source_tokens else most * part.hypotheses for part in parts]


def _join_hypotheses(parts: Sequence[Hypothesis], sentences: Sequence[SourceSentence]) -> Hypothesis:
    """The sentences' hypotheses of one rank as one: texts and tokens are concatenated, log_prob and score added."""
    pairs = zip(parts, sentences, strict=True)
    text = "".join(
        sentence.before + sentence.style.restore(part.text) + sentence.gap_after(part.text)
        for part, sentence in pairs
    )
    if len(parts) == 1:
        return replace(parts[0], text=text)
    utilities = [part.utility for part in parts if part.utility is not None]
    return Hypothesis(
        text=text,
        tokens=[token for part in parts for token in part.tokens],
        ids=[number for part in parts for number in part.ids],
        log_prob=sum(part.log_prob for part in parts),
        score=sum(part.score for part in parts),
        truncated=any(part.truncated for part in parts),
        attention=join_attention([part.attention for part in parts if part.attention is not None]),
        mean_attention=any(part.mean_attention for part in parts),
        received=tuple(share for part in parts for share in part.received),
        utility=sum(utilities) / len(utilities) if utilities else None,
        unmet=tuple(phrase for part in parts for phrase in part.unmet),
        longer_was_cut=any(part.longer_was_cut for part in parts),
        confidence=min((part.confidence for part in parts if part.confidence is not None), default=None),
    )


def split_outputs(ids: Sequence[int]) -> list[list[int]]:
    """The ids of each sentence of a joined hypothesis; without what a length limit cut."""
    outputs = [list[int]()]
    for one in ids:
        outputs[-1].append(one)
        if one == EOS_ID:
            outputs.append([])
    return outputs[:-1]


def join_attention(
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
