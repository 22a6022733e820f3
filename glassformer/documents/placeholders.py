"""Placeholders: what a translation must keep as it is, such as %d, {name}, <b>…</b>, an address or a number.

A placeholder that stands alone is translated as a word that the model most likely keeps, a name or a number, and then
put back. If the output does not hold that word exactly once, other words are tried; at last the placeholder is left
out of the text and put where the attention says, and the translation is flagged. Tags round a part of the text follow
the attention; where that is not clear they go round the whole text, flagged. Signs, boxes of tasks and footnotes have
no word.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from glassformer.decoding.translation import Translation
from glassformer.text.formats.segment import Code, Part, join_parts, mark_codes
from glassformer.text.sentence_splitter import split_sentences

_PLACEHOLDERS = re.compile(
    r"""
    (?P<address>https?://[^\s<>"']*[^\s<>"'.,;:!?)] | www\.[^\s<>"']*[^\s<>"'.,;:!?)] | [\w.+-]+@[\w-]+\.[\w.-]*\w)
    | (?P<percent>%%)
    | (?P<printf>%(?:\(\w+\)|\d+\$)?[-+ 0#]*(?:\d+|\*)?(?:\.\d+)?(?:hh?|ll?|[qjzt])?[diouxXeEfFgGcsSrp@](?![A-Za-z]))
    | (?P<braces>\$?\{\{?[^{}\n]*\}\}?)
    | (?P<qt>(?<!\d)%L?\d{1,2}(?![\w%])|%n(?!\w))
    | (?P<name>\$[A-Za-z_]\w*|(?<!\d)%[A-Za-z_]\w+%|(?<![\w:/]):[A-Za-z_]\w+(?![\w:]))
    | (?P<entity>&(?:\#\d+|\#x[0-9A-Fa-f]+|[A-Za-z]+);)
    | (?P<tag></?[A-Za-z][^<>\n]*>)
    """,
    re.VERBOSE,
)
_EMPTY_TAGS = ("<br", "<hr", "<img", "<input", "<wbr")
_COUNT = re.compile(r"%[^a-zA-Z]*[diouxXeEfFgG]$|count|num|total|size|\bn\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:[.,\u00a0\u202f']\d+)*")
# Currencies, ©, °, arrows, what mathematics and shells write, pictures. A number with its unit is one code.
_SIGN = (
    r"[#+<=>@\\^|~$¢-¦©®°±\u20a0-\u20cf\u2100-\u214f\u2190-\u23ff\u2460-\u27bf\u2900-\u297f\u2b00-\u2bff"
    r"\U0001f000-\U0001faff]"
)
_SIGNS = re.compile(rf"{_SIGN}(?:[\ufe0e\ufe0f\u200d]|{_SIGN})*")
_NUMBERS_AND_SIGNS = re.compile(
    rf"(?:[#+<>~$¢-¥©±\u20a0-\u20cf]\s?)?{_NUMBER.pattern}(?:\s?[%$¢-¥°\u20a0-\u20cf])?|{_SIGNS.pattern}"
)
_WORDLESS = re.compile(rf"{_SIGNS.pattern}|\[[ xX]\]|\[\^.*\]:?|:[a-z\d_+-]+:")  # boxes of tasks, footnotes, pictures
_WORDS_TO_KEEP = ("Tom", "Berlin", "Peter", "Paris", "Anna", "Japan", "Robert", "London")
_NUMBERS_TO_KEEP = ("7", "12", "5", "30", "8", "15", "40", "3")
ATTEMPTS = 4


def find_codes(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same parts, with the placeholders in their text as codes."""
    return mark_codes(parts, _PLACEHOLDERS, _code)


def _code(match: re.Match[str]) -> Code:
    raw = match[0]
    if match["tag"] is None or raw.endswith("/>") or raw.lower().startswith(_EMPTY_TAGS):
        return Code(raw, is_text=True)
    return Code(raw, "closes" if raw.startswith("</") else "opens", is_text=True)


def lost_codes(source: Sequence[Part], output: Sequence[Part]) -> list[str]:
    """The codes and placeholders of the source that the output does not have."""
    wanted, found = (
        Counter(part.raw for part in find_codes(parts) if isinstance(part, Code)) for parts in (source, output)
    )
    return list((wanted - found).elements())


@dataclass(frozen=True)
class Mark:
    """A code without a word, and where it belongs in a text: what a pair of tags encloses, or a position."""

    code: Code
    start: int
    end: int
    closing: Code | None = None
    spaced: bool = False
    """Whether there is white space next to it."""


@dataclass
class Draft:
    """The text that the model is given for a segment in one attempt, and the codes that it holds."""

    text: str
    words: list[tuple[str, Code]] = field(default_factory=list)
    """What stands for a code, in order."""
    marks: list[Mark] = field(default_factory=list)
    """Pairs of tags, and codes that have no word."""


@dataclass(frozen=True)
class Result:
    """The translated parts of a segment, and in words what should be looked at, and what else is worth knowing."""

    parts: tuple[Part, ...]
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text with its codes."""
        return join_parts(self.parts)


def make_draft(parts: Sequence[Part], attempt: int, *, numbers: bool = False) -> Draft:
    """The text of ``parts`` with words for its codes; each attempt takes others, the last one none.

    With ``numbers``, numbers and signs are codes too. Signs have no words.
    """
    if numbers:
        parts = mark_codes(parts, _NUMBERS_AND_SIGNS, lambda match: Code(match[0], is_text=True))
    plain = join_parts(part for part in parts if isinstance(part, str))
    draft, open_tags = Draft(""), list[tuple[Code, int]]()
    names, counts = (_free_words(words, plain, attempt) for words in (_WORDS_TO_KEEP, _NUMBERS_TO_KEEP))
    for part in parts:
        if isinstance(part, str):
            draft.text += part
        elif part.kind == "opens":
            open_tags.append((part, len(draft.text)))
        elif part.kind == "closes" and open_tags:
            code, start = open_tags.pop()
            draft.marks.append(Mark(code, start, len(draft.text), part))
        elif (
            part.kind == "closes"
            or attempt == ATTEMPTS - 1
            or not (names and counts)
            or _WORDLESS.fullmatch(part.raw)
        ):
            place, spaced = len(draft.text), draft.text[-1:].isspace()
            draft.text = draft.text.rstrip()
            draft.marks.append(Mark(part, min(place, len(draft.text)), len(draft.text), spaced=spaced))
        else:
            word = _word_for(part, attempt, names, counts)
            draft.words.append((word, part))
            draft.text += word
    draft.marks += [Mark(code, start, start) for code, start in open_tags]
    return _trim(draft)


def _trim(draft: Draft) -> Draft:
    """Without white space at the ends, which a model has hardly seen there."""
    text = draft.text.strip()
    shift = len(draft.text) - len(draft.text.lstrip())
    marks = [
        replace(
            mark,
            start=max(0, min(mark.start - shift, len(text))),
            end=max(0, min(mark.end - shift, len(text))),
            spaced=mark.spaced or (mark.closing is None and mark.end < shift),
        )
        for mark in draft.marks
    ]
    return Draft(text, draft.words, marks)


def _free_words(words: Sequence[str], text: str, attempt: int) -> list[str]:
    """The words that the text does not hold, those of later attempts in another order."""
    start = 2 * attempt % len(words)
    return [word for word in (*words[start:], *words[:start]) if not _find_word(word, text)]


def _word_for(code: Code, attempt: int, names: list[str], counts: list[str]) -> str:
    if code.raw == "%%":
        return "%"
    is_number = bool(_COUNT.search(code.raw) or _NUMBERS_AND_SIGNS.fullmatch(code.raw))
    return (counts if is_number != (attempt == 2) else names).pop(0)


def _find_word(word: str, text: str) -> list[re.Match[str]]:
    """Where a text has ``word``, with no letter or digit next to it."""
    return list(re.finditer(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text))


TokenEnds = Callable[[Translation], tuple[list[int], list[int]]]
"""Where, in the characters of the source and of the output, each token ends."""


def restore(draft: Draft, translation: Translation, ends: TokenEnds) -> Result | None:
    """The translation with its codes; None if a word that stands for one does not occur exactly once."""
    text = translation.text
    inserts: list[tuple[int, int, Code]] = []  # from, to (replaced), code
    for word, code in draft.words:
        places = _find_word(word, text)
        if len(places) != 1:
            return None
        inserts.append((*places[0].span(), code))
    if any(word.isdecimal() for word, _ in draft.words) and lost_numbers(text, draft.text):
        return None  # the output has a number of its own: perhaps the word once more, in another form
    flags: list[str] = []
    spans: list[tuple[int, int]] = []
    for mark in draft.marks:
        start, end, sure = _place(mark, draft, translation, ends)
        if mark.closing is not None and any(start < s < end < e or s < start < e < end for s, e in spans):
            start, end, sure = 0, len(text), False  # tags may not cross
        spans.append((start, end))
        shown = mark.code.raw + ("…" + mark.closing.raw if mark.closing else "")
        if not sure:
            flags.append(f"check where {shown} belongs")
        inserts.append((start, start, _with_spaces(mark, draft.text, text, start)))
        if mark.closing is not None:
            inserts.append((end, end, mark.closing))
    return Result(_insert(text, inserts), tuple(flags))


def _with_spaces(mark: Mark, source: str, text: str, place: int) -> Code:
    """The code with a space where it had one and the text has none, and where two words would become one."""
    raw = mark.code.raw
    spaced_before, spaced_after = mark.spaced or raw[0].isalnum(), mark.spaced or raw[-1].isalnum()
    if mark.closing is None:
        spaced_after |= source[mark.end : mark.end + 1].isspace()
    before = " " if spaced_before and place > 0 and not text[place - 1].isspace() else ""
    after = " " if spaced_after and text[place : place + 1].isalnum() else ""
    return mark.code._replace(raw=f"{before}{raw}{after}")


def _insert(text: str, inserts: Sequence[tuple[int, int, Code]]) -> tuple[Part, ...]:
    """The text with codes in it. Of those at one place, closing tags come first and opening ones last."""
    order = {"closes": 0, "alone": 1, "opens": 2}
    parts: list[Part] = []
    position = 0
    for start, end, code in sorted(inserts, key=lambda insert: (insert[0], insert[1], order[insert[2].kind])):
        between = text[position:start]
        if not between and parts and join_parts(parts)[-1:].isalnum() and code.kind == "alone":
            between = " "  # an address would not end before the code
        parts += [between, code]
        position = max(position, end)
    return tuple(part for part in (*parts, text[position:]) if part != "")


def _place(mark: Mark, draft: Draft, translation: Translation, ends: TokenEnds) -> tuple[int, int, bool]:
    """From where to where in the output a code belongs, and whether that is clear."""
    text = translation.text
    clear = _clear_place(mark, draft, text)
    if clear is not None:
        return (*clear, True)
    links = translation.links()
    if not links:
        return 0, len(text), False
    alignment = Alignment(links, *ends(translation), text)
    if mark.closing is None:
        place = alignment.after(mark.start)
        return place, place, False
    enclosed = alignment.target_span(mark.start, mark.end)
    return (0, len(text), False) if enclosed is None else (*enclosed, True)


def _clear_place(mark: Mark, draft: Draft, text: str) -> tuple[int, int] | None:
    """The place that needs no attention: the whole text, one of its ends, or round a word that stands for a code."""
    before, after = draft.text[: mark.start].strip(), draft.text[mark.end :].strip()
    if mark.closing is None:
        return (0, 0) if not before else (len(text), len(text)) if not after else None
    if not before and not after:
        return 0, len(text)
    if not before and after in (".", "!", "?", "…") and text.endswith(after):
        return 0, len(text) - 1
    inside = draft.text[mark.start : mark.end].strip()
    found = _find_word(inside, text) if any(inside == word for word, _ in draft.words) else []
    return found[0].span() if found else None


class Alignment:
    """Links from source tokens to output tokens, and where the tokens of both end."""

    def __init__(
        self, links: Sequence[tuple[int, int]], src_ends: Sequence[int], tgt_ends: Sequence[int], text: str
    ) -> None:
        self._links = [link for link in links if link[0] < len(src_ends) and link[1] < len(tgt_ends)]
        self._src_ends, self._tgt_ends, self._text = src_ends, tgt_ends, text

    def after(self, position: int) -> int:
        """The end of the last word that is linked with what stands before ``position`` in the source."""
        reached = (self._tgt_ends[target] for source, target in self._links if self._src_ends[source] <= position)
        return self._word_end(max(reached, default=0))

    def target_span(self, start: int, end: int) -> tuple[int, int] | None:
        """The words that are linked with these characters of the source; None if they do not stand side by side."""
        starts = [0, *self._src_ends[:-1]]
        inside = {index for index, to in enumerate(self._src_ends) if to > start and starts[index] < end}
        linked = sorted({target for source, target in self._links if source in inside})
        others = {target for source, target in self._links if source not in inside}
        if not linked or len(linked) != linked[-1] - linked[0] + 1 or others & set(linked):
            return None
        return self._trim([0, *self._tgt_ends][linked[0]], self._tgt_ends[linked[-1]])

    def _trim(self, start: int, end: int) -> tuple[int, int] | None:
        """The whole words between two places, without the punctuation and the spaces round them."""
        text = self._text
        while start < end and text[start].isspace():
            start += 1
        while start > 0 and text[start - 1 : start + 1].isalnum():
            start -= 1
        end = self._word_end(end)
        while end > start and not text[end - 1].isalnum() and text[end - 1] not in ")]}":
            end -= 1
        return (start, end) if end > start else None

    def _word_end(self, place: int) -> int:
        while 0 < place < len(self._text) and self._text[place - 1 : place + 1].isalnum():
            place += 1
        return place


def split_parts(parts: Sequence[Part]) -> list[tuple[tuple[Part, ...], str]]:
    """The sentences of a text with codes, and the white space after each; a line break ends a sentence too.

    A code that breaks a line is a part of its own. Tags that enclose several sentences keep them together.
    """
    codes = [part for part in parts if isinstance(part, Code)]
    text = join_parts(part for part in parts if isinstance(part, str))
    # Of the area of private use: stands for a code.
    sign = next(sign for sign in map(chr, range(0xE000, 0xF900)) if sign not in text)
    sentences = split_sentences("".join(sign if isinstance(part, Code) else part for part in parts))
    waiting, found = iter(codes), list[tuple[tuple[Part, ...], str]]()
    together, depth, gap = list[Part](), 0, ""
    for sentence in sentences:
        if gap and together:
            together.append(gap)
        for piece in re.split(f"({sign})", sentence.text):
            if piece == sign:
                code = next(waiting)
                depth += {"opens": 1, "closes": -1, "alone": 0}[code.kind]
                if code.raw.endswith("\n") and depth <= 0:
                    if together:
                        found.append((tuple(together), ""))
                    found.append(((code,), ""))
                    together = []
                else:
                    together.append(code)
            elif piece:
                together.append(piece)
        gap = sentence.gap
        if depth <= 0 and together:
            found.append((tuple(together), gap))
            together, depth, gap = [], 0, ""
    return [*found, (tuple(together), gap)] if together else found


def lost_numbers(source: str, output: str) -> list[str]:
    """The numbers of the source that the output does not have; 1,000.5 and 1.000,5 are the same."""
    missing = Counter(map(_digits, _NUMBER.findall(source))) - Counter(map(_digits, _NUMBER.findall(output)))
    return sorted(missing.elements())


def lost_signs(source: str, output: str) -> list[str]:
    """The signs of the source, such as © or an arrow, that the output does not have."""
    missing = Counter(re.findall(_SIGN, source)) - Counter(re.findall(_SIGN, output))
    return sorted(missing.elements())


def _digits(number: str) -> str:
    return "".join(sign for sign in number if sign.isdigit())
