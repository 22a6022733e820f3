"""From requests to the sentences that a model is given, and from their translations to those of the requests.

The steps between are those of ``text/steps``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from glassformer.decoding.request import Request, keeps_capital, tokenize_constraints
from glassformer.decoding.search.job import Constraints
from glassformer.decoding.translation import EMPTY, Hypothesis, Translation
from glassformer.errors import InputError
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text.codes.code import Parts, join_parts
from glassformer.text.codes.draft import make_draft
from glassformer.text.lines import is_blank, normalize_source
from glassformer.text.steps.passage import STEPS, Passage
from glassformer.text.steps.step import Step, TextOptions
from glassformer.text.steps.style import Case
from glassformer.text.steps.target_language import TargetLanguage
from glassformer.text.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

# The random numbers of a sentence follow from the number of its text and its own number in it. The first sentence
# has those that the whole text would have.
_NEXT_SENTENCE = 2**32


@dataclass(frozen=True)
class SentenceRequest:
    """A sentence as the steps leave it, and what its translation must have."""

    parts: Parts
    constraints: Constraints
    sample_key: int
    """Seeds the random numbers of sampling, together with the seed."""
    token: str = ""
    """Names the target language to a model of several: the model reads it before the sentence."""


@dataclass(frozen=True)
class RequestPassage:
    """A request, the steps that its text has passed, and the sentences that are left of it."""

    request: Request
    passage: Passage
    sentences: list[SentenceRequest]

    def _read(self, results: Sequence[Translation]) -> list[str]:
        tokens = [one.token for one in self.sentences] or [""] * len(results)
        return [f"{token} {one.source}".lstrip() for token, one in zip(tokens, results, strict=True) if one.source]

    def join(self, results: Sequence[Translation]) -> Translation:
        """The translation of the request, from those of its sentences."""
        by_rank = _by_rank(results)
        restored = [self.passage.restore([one.parts for one in parts]) for parts in by_rank]
        if is_blank(self.request.source):
            restored = [((), [])]
        joined = [_join(parts, text) for parts, (text, _) in zip(by_rank, restored, strict=True)]
        flags = dict.fromkeys((*(flag for one in results for flag in one.flags), *restored[0][1]))
        doubted = [one for one in results if one.doubt is not None]
        worst = min(doubted, key=lambda one: one.hypotheses[0].confidence or 0.0, default=None)
        return Translation(
            source=self.request.source,
            source_tokens=[token for one in results for token in one.source_tokens],
            source_truncated=any(one.source_truncated for one in results),
            hypotheses=joined,
            engine=" and ".join(sorted({one.engine for one in results} - {""})),
            read=" ".join(self._read(results)) or self.request.source.strip(),
            doubt=None if worst is None else worst.doubt,
            flags=tuple(flags),
            notes=tuple(dict.fromkeys(note for one in results for note in one.notes)),
        )


def read_requests(
    requests: Sequence[Request],
    start: int,
    options: DecodeConfig,
    config: ModelConfig,
    tokenizer: Tokenizer,
    *,
    steps: Sequence[Step] = STEPS,
    plain_signs: Mapping[str, str] | None = None,
    targets: tuple[str, ...] = (),
) -> list[RequestPassage]:
    """Let the text of each request pass the steps; the first request is number ``start`` of the whole input.

    A prefix is that of the first sentence; ``tokenizer`` is that of the target. Raises ``InputError`` for constraints
    that cannot be tokenized or are too long, and for phrases that must occur in one of several sentences.
    """
    capital = partial(keeps_capital, tokenizer=tokenizer)
    found = list[RequestPassage]()
    for number, request in enumerate(requests, start):
        passage = Passage(request.parts, text_options(options, request, capital, plain_signs, targets), steps)
        constraints = Constraints()
        if request.is_constrained or request.ban:
            constraints = _constraints(request, passage, tokenizer, f"texts[{number}]")
            _check_constraints(constraints, number, options, config)
        if len(passage.texts) > 1 and request.must:
            raise InputError(
                f"texts[{number}]: found {len(passage.texts)} sentences or lines with phrases that must occur, "
                "expected one, because nothing says in which. Give each sentence as a text of its own, or one line "
                "and split_sentences = false."
            )
        later = replace(constraints, prefix=()) if constraints.prefix else constraints
        token = _token(passage)
        sentences = [
            SentenceRequest(text, later if index else constraints, number + index * _NEXT_SENTENCE, token)
            for index, text in enumerate(passage.texts)
        ]
        found.append(RequestPassage(request, passage, sentences))
    return found


def text_options(
    options: DecodeConfig,
    request: Request,
    capital: partial[bool] | None = None,
    plain_signs: Mapping[str, str] | None = None,
    targets: tuple[str, ...] = (),
) -> TextOptions:
    """How the text of a request is read; ``plain_signs`` are read for those that the model does not know."""
    return TextOptions(
        language=options.src_language,
        splits_sentences=options.split_sentences,
        keeps_codes=options.keep_codes,
        matches_style=options.match_style,
        copies_wordless=options.copy_wordless,
        plain_signs=plain_signs or {},
        targets=targets,
        target=options.tgt_language,
        keeps_capital=capital,
        prefix=request.prefix,
        phrases=request.must,
    )


def read_source_sentences(
    text: str,
    options: DecodeConfig,
    plain_signs: Mapping[str, str] | None = None,
    targets: tuple[str, ...] = (),
) -> list[str]:
    """The lines or sentences of a text as a model reads them, one after the other; an empty one of a blank text."""
    asked = text_options(options, Request(text), plain_signs=plain_signs, targets=targets)
    passage = Passage((text,), replace(asked, copies_wordless=False))
    drafts = (make_draft(parts, 0) or make_draft(parts) for parts in passage.texts)
    found = [draft.text for draft in drafts if draft is not None and draft.text]
    token = _token(passage)
    return [f"{token} {each}".lstrip() for each in found] or [normalize_source(text)]


def _token(passage: Passage) -> str:
    """The token of the target language; empty if there is none."""
    return next((change.token for change in passage.changes if isinstance(change, TargetLanguage)), "")


def _constraints(request: Request, passage: Passage, tokenizer: Tokenizer, name: str) -> Constraints:
    """The constraints of a request in ids, in the case in which a model writes what it reads as sentences."""
    cases = [change for change in passage.changes if isinstance(change, Case)]
    written = [case.written for case in cases if case.prefix]
    if written:
        request = replace(request, prefix=written[0])
    if request.ban and any(case.uppercase or case.lower_start for case in cases):
        forms = (form for phrase in request.ban for form in (phrase.lower(), phrase[:1].upper() + phrase[1:].lower()))
        request = replace(request, ban=(*request.ban, *forms))
    return tokenize_constraints(request, tokenizer, name)


def _check_constraints(constraints: Constraints, number: int, options: DecodeConfig, config: ModelConfig) -> None:
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


def _by_rank(results: Sequence[Translation]) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, rank by rank; of no sentence none, once."""
    if not results:
        return [[]]
    most = max(len(one.hypotheses) for one in results)
    lists = [one.hypotheses if one.source_tokens else most * one.hypotheses for one in results]
    return [list(rank) for rank in zip(*lists, strict=False)]


def _join(parts: Sequence[Hypothesis], text: Parts) -> Hypothesis:
    """The sentences' hypotheses of one rank as one: tokens are concatenated, log_prob and score added."""
    whole = join_parts(text)
    if len(parts) == 1:
        return replace(parts[0], text=whole, parts=text)
    utilities = [part.utility for part in parts if part.utility is not None]
    return replace(
        EMPTY,
        text=whole,
        parts=text,
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
