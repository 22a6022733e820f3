"""Texts with codes, translated without these, and with stand-ins for those that carry grammar.

What lost a number or a sign is tried again with these as codes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from glassformer.decoding.restore.alignment import TokenEnds, has_content, stem
from glassformer.decoding.restore.parts_writer import keep_spaces
from glassformer.decoding.restore.places import Restored, needs_attention, restore
from glassformer.decoding.translation import Doubt, Translation
from glassformer.text.codes.checks import changes
from glassformer.text.codes.code import Parts, has_words, join_parts
from glassformer.text.codes.draft import Draft, make_draft, mark_numbers, number_writer, write_amounts
from glassformer.text.scripts import split_words
from glassformer.text.steps.sentences import is_crowded

ATTEMPTS = 2  # with stand-ins for codes
NumberedText = tuple[int | None, str]
"""What a model reads, and the number of its text; None of a piece of one."""
Search = Callable[[Sequence[NumberedText], bool], list[Translation]]
"""Translates what a model reads, with attention or without."""


@dataclass(frozen=True)
class Attempt:
    """A text, what the model read of it and wrote, and each hypothesis with its codes.

    ``lost``: what the best hypothesis lacks of the text, in words.
    """

    source: Parts
    draft: Draft
    translation: Translation
    restored: list[Restored]
    lost: list[str]

    def finish(self, doubts: Sequence[str], *, attention: bool) -> Translation:
        """The translation with its codes, and with its attention if it is wanted."""
        hypotheses = []
        for one, found in zip(self.translation.hypotheses, self.restored, strict=True):
            seen = _to_tensor(one.attention) if attention else None
            hypotheses.append(replace(one, text=join_parts(found.parts), parts=found.parts, attention=seen))
        flags = (*self.restored[0].flags, *self.lost, *doubts)
        return replace(self.translation, hypotheses=hypotheses, flags=flags)


def _to_tensor(weights: Any) -> Any:
    """Attention as a tensor, whatever engine gave it; None stays None."""
    if weights is None:
        return None
    import torch

    return torch.as_tensor(weights)


def doubt_numbers(attempt: Attempt) -> Attempt:
    """The same, with a doubt if a number of the text is missing or another one."""
    named = tuple([one for one in attempt.lost if "number" in one])
    if not named or attempt.translation.doubt is not None:
        return attempt
    return replace(attempt, translation=replace(attempt.translation, doubt=Doubt("number", named)))


def doubt_missing(attempt: Attempt, words: Sequence[str]) -> Attempt:
    """The same, with a doubt if these words of the text seem to be missing."""
    if not words or attempt.translation.doubt is not None:
        return attempt
    return replace(attempt, translation=replace(attempt.translation, doubt=Doubt("missing", tuple(words))))


def can_be_streamed(source: Parts) -> bool:
    """Whether a text has no codes, whose places would have to be found."""
    draft = make_draft(source)
    return draft is not None and source == (draft.text,)


def translate_parts(
    sources: Sequence[Parts],
    search: Search,
    ends: TokenEnds,
    *,
    checks_numbers: bool,
    languages: tuple[str, str] | None = None,
) -> list[Attempt]:
    """The translation of each text, which has words; ``ends`` says where the tokens of a translation end.

    ``checks_numbers``: whether what lost a number or a sign is tried again; ``languages``: of source and target.
    """
    put_codes_back = partial(_put_codes_back, ends=ends, write=number_writer(languages))
    plain, chosen = dict[int, tuple[Draft, Translation]](), dict[int, Attempt]()  # plain: without stand-ins
    again, marked = dict(enumerate(sources)), dict(enumerate(sources))  # marked: those that may get better
    for attempt in range(ATTEMPTS):
        tries = [(number, make_draft(parts)) for number, parts in again.items()]
        tries += [(number, make_draft(parts, attempt)) for number, parts in marked.items()]
        drafts = [(number, draft) for number, draft in tries if draft is not None]
        failed = dict[int, Parts]()
        for (number, draft), translation in zip(drafts, _translate(drafts, search), strict=True):
            if not draft.words:
                plain[number] = draft, translation
                continue
            one = put_codes_back(sources[number], draft, translation)
            if one is None or not is_better(plain[number][1], translation):
                failed[number] = marked[number]
            else:
                chosen[number] = one
                again.pop(number, None)
        for number in again:
            one = put_codes_back(sources[number], *plain[number])
            assert one is not None, "a text without stand-ins is always restored"
            chosen[number] = one
        retried = again if checks_numbers else {}
        marks = {number: _mark_lost(sources[number], chosen[number].lost, languages) for number in retried}
        again = {number: parts for number, parts in marks.items() if parts is not None}
        marked = failed | again
    _place_pairs(sources, chosen, search, put_codes_back)
    return [chosen[number] for number in range(len(sources))]


def _mark_lost(source: Parts, lost: Sequence[str], languages: tuple[str, str] | None) -> Parts | None:
    """A text that lost a number or a sign, with these as codes; None if it lost nothing, or has too many of them."""
    marked = mark_numbers(source, number_writer(languages)) if lost else source
    is_worse = is_crowded(marked) or not has_words(marked)
    return None if marked == source or is_worse else marked


def _translate(drafts: Sequence[tuple[int, Draft]], search: Search) -> list[Translation]:
    """The translation of each draft; it has attention, which takes memory and time, if the codes need it."""
    found, needs = dict[int, Translation](), [needs_attention(draft) for _, draft in drafts]
    for attention in (False, True):
        group = [place for place, needed in enumerate(needs) if needed == attention]
        if group:
            read = [(drafts[place][0], drafts[place][1].text) for place in group]
            found |= dict(zip(group, search(read, attention), strict=True))
    return [found[place] for place in range(len(drafts))]


def _put_codes_back(
    source: Parts,
    draft: Draft,
    translation: Translation,
    own: Mapping[str, str] = MappingProxyType({}),
    *,
    ends: TokenEnds,
    write: Callable[[str], str],
) -> Attempt | None:
    """The codes in each hypothesis, with the spaces of the source; None if a draft with stand-ins lost anything.

    ``write`` writes numbers as the target language does.
    """
    results, lost = list[Restored](), list[list[str]]()
    for hypothesis in translation.hypotheses:
        is_only = len(translation.hypotheses) == 1
        result = restore(draft, translation if is_only else replace(translation, hypotheses=[hypothesis]), ends, own)
        if result is None:
            return None
        result = result._replace(parts=keep_spaces(source, write_amounts(result.parts, source, write)))
        changed = changes(source, result.parts)
        if changed and draft.words:
            return None
        results.append(result)
        lost.append(changed)
    return Attempt(source, draft, translation, results, lost[0])


def _place_pairs(
    sources: Sequence[Parts],
    chosen: dict[int, Attempt],
    search: Search,
    put_codes_back: Callable[..., Attempt | None],
) -> None:
    """Look again for the places of pairs without words in a translation: their own text is translated alone."""
    waiting = [number for number in range(len(sources)) if chosen[number].restored[0].unplaced]
    texts = list(dict.fromkeys(text for number in waiting for text in chosen[number].restored[0].unplaced))
    if not texts:
        return
    alone = search([(None, text) for text in texts], False)
    own = dict(zip(texts, (one.text for one in alone), strict=True))
    for number in waiting:
        one = chosen[number]
        chosen[number] = put_codes_back(sources[number], one.draft, one.translation, own) or one


def is_better(reference: Translation, translation: Translation) -> bool:
    """Whether a translation with stand-ins has the content words of one without; other endings do not matter.

    Without its first word, a text says little: there it is enough that the model is surer.
    """
    text, words = translation.text.lower(), split_words(reference.text.lower())
    if all(stem(word) in text for word in words if has_content(word)):
        return True
    return reference.source[:1].islower() and _certainty(translation) > _certainty(reference)


def _certainty(translation: Translation) -> float:
    best = translation.hypotheses[0]
    return best.log_prob / max(1, len(best.ids))
