"""Texts with codes, translated without these, and with stand-ins for those that carry grammar.

What lost a number or a sign is tried again with these as codes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from glassformer.decoding.batching import read_sources
from glassformer.decoding.codes.alignment import TokenEnds, has_content, stem, token_ends
from glassformer.decoding.codes.parts_writer import keep_spaces
from glassformer.decoding.codes.restore import Result, needs_attention, restore
from glassformer.decoding.search.job import Constraints
from glassformer.decoding.sentences import SourceSentence
from glassformer.decoding.translation import Translation
from glassformer.settings import ModelConfig
from glassformer.text.codes.checks import changes
from glassformer.text.codes.draft import Draft, make_draft, mark_numbers
from glassformer.text.codes.typed import Parts, TypedSentence, is_crowded
from glassformer.text.formats.segment import join_parts
from glassformer.text.scripts import split_words
from glassformer.text.tokenizer.tokenizer import Tokenizers

ATTEMPTS = 2  # with stand-ins for codes
NumberedDraft = tuple[int | None, Draft]
"""A draft, and the number of its text; None of a piece of one."""
Translate = Callable[[Sequence[NumberedDraft], bool], Iterable[Translation]]
"""Translates the texts of drafts, with attention or without."""
TranslateSentences = Callable[[Sequence[SourceSentence], bool], list[Translation]]
"""Translates sentences without codes, with attention or without."""


@dataclass(frozen=True)
class CodedTranslation:
    """The draft that was chosen, its translation, and the parts of each hypothesis with the codes.

    ``lost``: what the best hypothesis lacks of the text, in words.
    """

    draft: Draft
    translation: Translation
    results: list[Result]
    lost: list[str]


def translate_sentences(
    sentences: Sequence[SourceSentence],
    search: TranslateSentences,
    config: ModelConfig,
    tokenizers: Tokenizers,
    *,
    attention: bool,
) -> list[Translation]:
    """The translation of each sentence of a request; all have codes.

    Tokens, scores and confidence are those of what the model read and wrote.
    """
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
    return [_restore_sentence(typed, one, attention) for typed, one in zip(coded, found, strict=True)]


def _restore_sentence(typed: TypedSentence, found: CodedTranslation, attention: bool) -> Translation:
    """The translation with the codes in each hypothesis; attention that only the codes needed is left out."""
    hypotheses = [
        replace(one, text=join_parts(typed.restore(result.parts)), attention=one.attention if attention else None)
        for one, result in zip(found.translation.hypotheses, found.results, strict=True)
    ]
    return replace(found.translation, hypotheses=hypotheses)


def translate_coded(sources: Sequence[Parts], translate: Translate, ends: TokenEnds) -> list[CodedTranslation]:
    """The translation of each text, which has words; ``ends`` says where the tokens of a translation end."""
    plain, chosen = dict[int, tuple[Draft, Translation]](), dict[int, CodedTranslation]()  # plain: without stand-ins
    again, marked = dict(enumerate(sources)), dict(enumerate(sources))  # marked: those that may get better
    for attempt in range(ATTEMPTS):
        tries = [(number, make_draft(parts)) for number, parts in again.items()]
        tries += [(number, make_draft(parts, attempt)) for number, parts in marked.items()]
        drafts = [(number, draft) for number, draft in tries if draft is not None]
        failed = dict[int, Parts]()
        for (number, draft), translation in zip(drafts, _translate(drafts, translate), strict=True):
            if not draft.words:
                plain[number] = draft, translation
                continue
            one = _put_codes_back(sources[number], draft, translation, ends)
            if one is None or not is_better(plain[number][1], translation):
                failed[number] = marked[number]
            else:
                chosen[number] = one
                again.pop(number, None)
        for number in again:
            one = _put_codes_back(sources[number], *plain[number], ends)
            assert one is not None, "a text without stand-ins is always restored"
            chosen[number] = one
        again = {number: parts for number in again if (parts := _mark_lost(sources[number], chosen[number].lost))}
        marked = failed | again
    _place_pairs(sources, chosen, translate, ends)
    for number, source in enumerate(sources):
        results = chosen[number].results
        results[:] = [
            Result(keep_spaces(source, one.parts), one.flags, one.notes, one.unplaced, one.scores) for one in results
        ]
    return [chosen[number] for number in range(len(sources))]


def _mark_lost(source: Parts, lost: Sequence[str]) -> Parts | None:
    """A text that lost a number or a sign, with these as codes; None if it lost nothing, or has too many of them."""
    marked = mark_numbers(source) if lost else source
    return None if marked == source or is_crowded(marked) else marked


def _translate(drafts: Sequence[NumberedDraft], translate: Translate) -> list[Translation]:
    """The translation of each draft; it has attention, which takes memory and time, if the codes need it."""
    found, needs = dict[int, Translation](), [needs_attention(draft) for _, draft in drafts]
    for attention in (False, True):
        group = [place for place, needed in enumerate(needs) if needed == attention]
        if group:
            found |= dict(zip(group, translate([drafts[place] for place in group], attention), strict=True))
    return [found[place] for place in range(len(drafts))]


def _put_codes_back(
    source: Parts,
    draft: Draft,
    translation: Translation,
    ends: TokenEnds,
    own: Mapping[str, str] = MappingProxyType({}),
) -> CodedTranslation | None:
    """The codes in each hypothesis, not yet with the white space of the source.

    None if one lacks a stand-in, or, where there are some, something else.
    """
    results, lost = list[Result](), list[list[str]]()
    for hypothesis in translation.hypotheses:
        is_only = len(translation.hypotheses) == 1
        result = restore(draft, translation if is_only else replace(translation, hypotheses=[hypothesis]), ends, own)
        if result is None:
            return None
        changed = changes(source, result.parts)
        if changed and draft.words:
            return None
        results.append(result)
        lost.append(changed)
    return CodedTranslation(draft, translation, results, lost[0])


def _place_pairs(
    sources: Sequence[Parts], chosen: dict[int, CodedTranslation], translate: Translate, ends: TokenEnds
) -> None:
    """Look again for the places of pairs without words in a translation: their own text is translated alone."""
    waiting = [number for number in range(len(sources)) if chosen[number].results[0].unplaced]
    texts = list(dict.fromkeys(text for number in waiting for text in chosen[number].results[0].unplaced))
    if not texts:
        return
    alone = translate([(None, Draft((text,), text)) for text in texts], False)
    own = dict(zip(texts, (one.text for one in alone), strict=True))
    for number in waiting:
        one = chosen[number]
        chosen[number] = _put_codes_back(sources[number], one.draft, one.translation, ends, own) or one


def is_better(reference: Translation, translation: Translation) -> bool:
    """Whether a translation with stand-ins has the content words of one without; other endings do not matter.

    A text that lacks its first word, so that it begins with a small letter, says little: there it is enough that the
    model is surer.
    """
    text, words = translation.text.lower(), split_words(reference.text.lower())
    if all(stem(word) in text for word in words if has_content(word)):
        return True
    return reference.source[:1].islower() and _certainty(translation) > _certainty(reference)


def _certainty(translation: Translation) -> float:
    best = translation.hypotheses[0]
    return best.log_prob / max(1, len(best.ids))
