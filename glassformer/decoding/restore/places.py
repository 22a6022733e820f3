"""Codes put back into a translation: in the order and in one another as the source has them, where the words are.

A code at an end of a text stays there, others follow the attention. Without it, and where it says nothing, the place
in proportion is taken, between words, and the text is flagged.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from glassformer.decoding.restore.alignment import Alignment, Span, TokenEnds, has_content, stem
from glassformer.decoding.restore.parts_writer import PartsWriter, Placement
from glassformer.decoding.translation import Translation
from glassformer.text.codes.code import Code, Part, Parts, join_parts
from glassformer.text.codes.draft import Draft, Placeholder, find_word
from glassformer.text.codes.find import is_link
from glassformer.text.scripts import AFTER_WORDS, AT_ENDS, OPENING, find_words

_POSITIONAL = re.compile(r"%[-+ 0#]*[\d*]*(?:\.\d+)?(?:hh?|ll?|[qjzt])?[A-Za-z@]|\{(?::[^{}]*)?\}")
_WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)  # all words of a text
# Signs that may stand for one another, of all scripts: more than the marks of ``scripts``, by their kinds.
_ALIKE = (".!?…。！？", ",;:、，；：", "\"'„“”‚‘’«»「」", "([（［", ")]）］")


class Restored(NamedTuple):
    """A hypothesis with its codes, and in words what should be looked at."""

    parts: Parts
    flags: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    """What pairs enclose for which no words of the translation seem to stand."""


def restore(
    draft: Draft, translation: Translation, ends: TokenEnds, own: Mapping[str, str] = MappingProxyType({})
) -> Restored | None:
    """The translation with its codes; None unless it has each stand-in once, and those of one kind in order.

    ``own`` has the translations of what is ``unplaced`` without them.
    """
    text = translation.text
    if text == draft.text:
        return Restored(draft.source)  # with its own white space
    if not draft.marks and not draft.words:
        return Restored((text,) if text else ())
    words = dict[Span, Placeholder]()
    for word, mark in draft.words:
        places = find_word(word, text)
        if len(places) != 1:
            return None
        words[places[0].span()] = mark
    order = [span for span, mark in words.items() if _POSITIONAL.fullmatch(join_parts(mark.parts))]
    if order != sorted(order):
        return None
    alignment = Alignment(draft.text, translation, ends, [word for word, _ in draft.words])
    layout = _Layout(draft, alignment, own)
    placed = layout.place(draft.marks, (0, len(draft.text)), (0, len(text)))
    writer = PartsWriter(text, words)
    writer.write((0, len(text)), placed)
    flags = [f"{label} may stand in a wrong place" for label in dict.fromkeys(layout.unsure)]
    parts, moved = _in_order(draft.source, tuple(part for part in writer.parts if part != ""))
    return Restored(parts, (*flags, *moved), tuple(layout.unplaced))


def _in_order(source: Sequence[Part], parts: Parts) -> tuple[Parts, list[str]]:
    """The parts with the codes that a program fills one after another in their order, and a flag if they had not."""
    wanted = [part for part in source if _is_positional(part)]
    found = [part for part in parts if _is_positional(part)]
    if wanted == found or Counter(wanted) != Counter(found):
        return parts, []
    codes = iter(wanted)
    shown = ", ".join(join_parts([part]) for part in dict.fromkeys(wanted))
    ordered = tuple(next(codes) if _is_positional(part) else part for part in parts)
    return ordered, [f"the order of {shown} was another"]


def _is_positional(part: Part) -> bool:
    return isinstance(part, Code) and _POSITIONAL.fullmatch(part.raw) is not None


def needs_attention(draft: Draft) -> bool:
    """Whether a code stands between words."""
    return _is_inside(draft.text, draft.marks, 0, len(draft.text))


def _is_inside(text: str, marks: Sequence[Placeholder], start: int, end: int) -> bool:
    for mark in marks:
        sides = _has_word(text[start : mark.start]), _has_word(text[mark.end : end])
        is_inside = all(sides) if mark.closing is None else any(sides)
        if is_inside or _is_inside(text, mark.inner, mark.start, mark.end):
            return True
    return False


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _words_in(text: str, span: Span) -> Span:
    """A span without the signs and the spaces at its ends; the whole span if it has no word."""
    words = _WORDS.search(text, *span)
    return span if words is None else words.span()


def _signs_around(text: str) -> tuple[str, str]:
    """What stands before the first word of a text and behind the last one; twice the text if it has no word."""
    words = _WORDS.search(text)
    return (text, text) if words is None else (text[: words.start()], text[words.end() :])


def _shared_signs(found: str, wanted: str) -> int:
    """How many characters at the start of ``found`` have the signs of ``wanted``, one for one, spaces apart."""
    place, signs = 0, iter([sign for sign in wanted if not sign.isspace()])
    for number, sign in enumerate(found):
        if sign.isspace():
            continue
        other = next(signs, " ")
        if sign != other and not any(sign in alike and other in alike for alike in _ALIKE):
            break
        place = number + 1
    return place


class _Layout:
    """Finds places. What a pair encloses in the source it encloses in the translation; no two pairs cross."""

    def __init__(self, draft: Draft, alignment: Alignment, own: Mapping[str, str]) -> None:
        self._draft, self._alignment, self._text, self._own = draft, alignment, alignment.text, own
        self.unsure: list[str] = []
        self.unplaced: list[str] = []
        self._behind = dict[Placeholder, str]()  # what stands in pairs that go behind the text

    def place(self, marks: Sequence[Placeholder], source: Span, target: Span) -> list[Placement]:
        """The places of marks, which ``source`` holds, in the characters ``target`` of the translation; in order."""
        spans, taken = dict[Placeholder, Span](), set[int]()
        for mark in marks:
            if mark.closing is not None:
                spans[mark] = self._pair_span(mark, source, target, taken, list(spans.values()))
        for mark in marks:
            if mark.closing is None:
                spans[mark] = self._outside(mark, self._run_span(mark, source, target), spans)
        numbers = {mark: number for number, mark in enumerate(marks)}
        placed, end = list[Placement](), target[0]
        for mark, (first, last) in sorted(spans.items(), key=lambda item: (*item[1], numbers[item[0]])):
            if first < end:  # never crossed
                self.unsure.append(mark.label)
                first, last = end, max(end, last)
            inner = self.place(mark.inner, (mark.start, mark.end), (first, last)) if mark.inner else []
            placed.append(Placement((first, last), mark, inner, self._behind.get(mark, "")))
            end = last
        return placed

    def _pair_span(self, mark: Placeholder, source: Span, target: Span, taken: set[int], others: list[Span]) -> Span:
        """The place of a pair; what opens or closes it may stand in another text."""
        start, end = self._closed_span(mark, source, target, taken, others)
        if not mark.parts:
            start = target[0]
        if not mark.closing:
            start, end = max([start, *(last for _, last in others)]), target[1]
        taken.update(self._alignment.tgt_in((start, end)))
        return start, max(start, end)

    def _closed_span(
        self, mark: Placeholder, source: Span, target: Span, taken: set[int], others: list[Span]
    ) -> Span:
        text, alignment = self._draft.text, self._alignment
        if not _has_word(text[source[0] : mark.start]) and not _has_word(text[mark.end : source[1]]):
            return self._with_signs(mark, _words_in(self._text, target), source, target)
        if (exact := self._inside_word(mark, target)) is not None:
            return exact
        free = [word for word in alignment.tgt_in(target) if word not in taken]
        words, sure = self._linked_words(mark, source, free)
        if not sure:
            self.unsure.append(mark.label)
        if not words:
            self._behind[mark] = self._own_text(mark)
            return target[1], target[1]
        span = alignment.tgt_words[words[0]][0], alignment.tgt_words[words[-1]][1]
        wider = self._with_signs(mark, span, source, target)
        return span if any(wider[0] < end and start < wider[1] for start, end in others) else wider

    def _linked_words(self, mark: Placeholder, source: Span, free: list[int]) -> tuple[list[int], bool]:
        """The free words side by side that were written from what a pair encloses; none for a link without words."""
        alignment = self._alignment
        inside, region = set(alignment.src_in((mark.start, mark.end))), alignment.src_in(source)
        same = self._same_words(mark, free)
        if same is not None and len(same) > 1:
            return same, True
        groups, reached = list[list[int]](), -2  # reached: the end of the last group, with unlinked words behind it
        for word in free:
            owner = alignment.owners[word]
            if owner in inside:
                groups += [] if reached == word - 1 else [[]]
                groups[-1].append(word)
            if owner in inside or (owner is None and reached == word - 1):
                reached = word
        chosen = max(groups, key=len, default=[])
        if chosen and (len(chosen) < len(alignment.tgt_words) or len(free) == 1):
            return list(range(chosen[0], chosen[-1] + 1)), 2 * len(chosen) >= sum(map(len, groups))
        if found := same or self._own_words(mark, free):
            return found, True
        self.unplaced.append(self._draft.text[mark.start : mark.end].strip())
        if not free or (self._own_text(mark) and is_link(mark.parts)):
            return [], False
        # In proportion, and never round the whole text.
        before = sum(alignment.src_words[word][1] <= mark.start for word in region)
        share = len(free) / max(1, len(region))
        first = min(len(free) - 1, round(before * share))
        words = [free[first]]
        count = min(len(free) - 1, round(len(inside) * share))
        for word in free[first + 1 : first + count]:
            if word != words[-1] + 1:
                break
            words.append(word)
        return words, False

    def _same_words(self, mark: Placeholder, free: list[int]) -> list[int] | None:
        """The words that a pair encloses, if the translation has them once as they are."""
        enclosed = self._draft.text[mark.start : mark.end].strip(AT_ENDS + " ")
        found = find_word(enclosed, self._text) if enclosed else []
        words = self._alignment.tgt_in(found[0].span()) if len(found) == 1 else []
        return words if words and set(words) <= set(free) else None

    def _own_text(self, mark: Placeholder) -> str:
        """The translation of what a pair encloses alone, if there is one."""
        own = self._own.get(self._draft.text[mark.start : mark.end].strip(), "")
        return own.strip(AT_ENDS + " ")

    def _own_words(self, mark: Placeholder, free: list[int]) -> list[int] | None:
        """The adjacent words that its own text has, too: at least half of those, and one of content."""
        own = self._own_text(mark)
        wanted = {stem(own[start:end].lower()) for start, end in find_words(own)}
        groups = [list[int]()]
        for word in free:
            start, end = self._alignment.tgt_words[word]
            if stem(self._text[start:end].lower()) not in wanted:
                continue
            groups += [] if groups[-1][-1:] == [word - 1] else [[]]
            groups[-1].append(word)
        best = max(groups, key=len)
        texts = [self._text[slice(*self._alignment.tgt_words[word])] for word in best]
        return best if 2 * len(best) >= len(wanted) and any(map(has_content, texts)) else None

    def _inside_word(self, mark: Placeholder, target: Span) -> Span | None:
        """The same letters of the same word, if a pair encloses a part of one that has them once: H<sub>2</sub>O."""
        text, alignment, span = self._draft.text, self._alignment, (mark.start, mark.end)
        numbers = [n for n, (start, end) in enumerate(alignment.src_words) if start <= span[0] and span[1] <= end]
        if not numbers or alignment.src_words[numbers[0]] == span:
            return None
        start, end = alignment.src_words[numbers[0]]
        found = find_word(text[start:end], self._text)
        if len(found) == 1:
            first = found[0].start() + mark.start - start
        else:
            enclosed = text[slice(*span)]
            places = [
                word
                for word, owner in zip(alignment.tgt_words, alignment.owners, strict=True)
                if owner == numbers[0] and self._text[slice(*word)].count(enclosed) == 1
            ]
            if len(places) != 1:
                return None
            first = self._text.index(enclosed, places[0][0])
        last = first + mark.end - mark.start
        return (first, last) if target[0] <= first and last <= target[1] else None

    def _with_signs(self, mark: Placeholder, span: Span, source: Span, target: Span) -> Span:
        """With as many of the signs next to the words as a pair has next to its own; all at an end, if it has all."""
        text, (start, end) = self._draft.text, span
        inner, before, after = text[mark.start : mark.end], text[source[0] : mark.start], text[mark.end : source[1]]
        left = _signs_around(self._text[target[0] : start])[1]
        right = _signs_around(self._text[end : target[1]])[0]
        own = _signs_around(inner)
        if not before.strip() and len(left) == start - target[0]:
            start = target[0]
        else:
            start -= _shared_signs(left[::-1], own[0][::-1])
        if not after.strip() and len(right) == target[1] - end:
            end = target[1]
        else:
            end += _shared_signs(right, own[1])
        return start, end

    def _run_span(self, mark: Placeholder, source: Span, target: Span) -> Span:
        text = self._draft.text
        before, after = text[source[0] : mark.start], text[mark.end : source[1]]
        first, last = _words_in(self._text, target)
        if not _has_word(before):
            place = target[0] + _shared_signs(self._text[target[0] : first], before)
            return place, place
        if not _has_word(after):
            place = target[1] - _shared_signs(self._text[last : target[1]][::-1], after[::-1])
            return place, place
        return self._between_words(mark, source, target)

    def _between_words(self, mark: Placeholder, source: Span, target: Span) -> Span:
        alignment = self._alignment
        region, free = alignment.src_in(source), alignment.tgt_in(target)
        before = [word for word in region if alignment.src_words[word][1] <= mark.start]
        after = [word for word in region if alignment.src_words[word][0] >= mark.start]
        if not free:
            self.unsure.append(mark.label)
            return target[1], target[1]
        written = defaultdict[int | None, list[int]](list)  # by the word of the source that each was written from
        for word in free:
            written[alignment.owners[word]].append(word)
        behind = next(((word, n) for n, word in enumerate(reversed(before)) if word in written), None)
        ahead = next(((word, n) for n, word in enumerate(after) if word in written), None)
        if behind is None and ahead is None:
            self.unsure.append(mark.label)
            number = min(len(free) - 1, round(len(free) * len(before) / max(1, len(region))))
            place = alignment.tgt_words[free[number]][0]
            return place, place
        if min(n for _, n in filter(None, (behind, ahead))) > 0:
            self.unsure.append(mark.label)
        end = alignment.tgt_words[written[behind[0]][-1]][1] if behind else -1
        start = alignment.tgt_words[written[ahead[0]][0]][0] if ahead else -1
        if behind and ahead and end <= start and not _has_word(self._text[end:start]):
            return self._in_gap(mark, end, start)
        touches_left = not mark.left.isspace() and mark.left not in OPENING
        stays_behind = mark.right in AFTER_WORDS or (touches_left and mark.right.isspace())
        if behind and (ahead is None or stays_behind or behind[1] < ahead[1]):
            return end, end
        return start, start

    def _in_gap(self, mark: Placeholder, end: int, start: int) -> Span:
        """Where between two words of the translation that stand side by side as those of the source do."""
        gap, source = self._text[end:start], self._draft.text[: mark.start]
        if gap == " " and mark.left.isalnum() and mark.right.isalnum():
            return end, start  # the source has no space there
        if mark.right.isalnum() and not mark.left.isalnum():
            return start, start
        place = end + _shared_signs(gap, _signs_around(source)[1])
        return place, place

    def _outside(self, mark: Placeholder, span: Span, spans: dict[Placeholder, Span]) -> Span:
        """A run's place, but not in a pair that does not enclose it."""
        for other, (start, end) in spans.items():
            if other.closing is not None and start < span[1] and span[0] < end:
                place = start if mark.start <= other.start and start <= span[0] else end
                return place, place
        return span
