"""Sentences: each sentence of a text, or each of its lines, is read alone; what has no word is copied."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from glassformer.text.codes.code import Code, Part, Parts, has_words, join_parts, unused_signs
from glassformer.text.codes.find import begins_new_text
from glassformer.text.lines import is_blank
from glassformer.text.scripts import CLOSING, gap_between
from glassformer.text.sentence_splitter import Sentence, split_lines, split_sentences
from glassformer.text.steps.step import Change, TextOptions

_MOST_CODES, _LONGEST_WITH_CODES = 300, 30_000  # of one text, in characters; far beyond any sentence
_NEAR = 60  # characters before and after a border of two sentences
_CROWDED = "left as it was: it has too many placeholders, or is too long for them"


@dataclass(frozen=True)
class Sentences(Change):
    """The sentences of a text, and the white space after each."""

    gaps: tuple[str, ...]

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The answers with the white space between them, as the script of each asks."""
        found, words = list[Part](), [_words(text) for text in self.texts]
        for number, answer in enumerate(answers):
            gap = self.gaps[number]
            is_last = number == len(answers) - 1
            if not is_last and words[number].strip() and words[number + 1].strip():  # neither is a break
                gap = gap_between(words[number], _words(answer), gap)
            found += answer
            if gap and (is_whole or not is_last):
                found.append(gap)
        return tuple(found)


def _words(parts: Parts) -> str:
    return "".join([part for part in parts if isinstance(part, str)])


def read_sentences(parts: Parts, options: TextOptions) -> Change | None:
    """Cut a text into its sentences, or into its lines."""
    split = partial(split_sentences, language=options.language) if options.splits_sentences else split_lines
    found = split_parts(parts, split)
    if len(found) == 1 and not found[0][1]:
        return None
    return Sentences(tuple([text for text, _ in found]), tuple([gap for _, gap in found]))


@dataclass(frozen=True)
class Copied(Change):
    """A text that is its own answer."""

    parts: Parts
    flags: tuple[str, ...] = ()

    def restore(self, answers: Sequence[Parts], *, is_whole: bool = True) -> Parts:
        """The text as it is."""
        return self.parts

    def check(self, answer: Parts) -> list[str]:
        """Why it was left, if it has words."""
        return list(self.flags)


def read_wordless(parts: Parts, options: TextOptions) -> Change | None:
    """Copy what has no letter outside its codes, and what has so many codes that their search would not end."""
    if options.is_constrained and not is_blank(join_parts(parts)):
        return None
    if not has_words(parts):
        is_read = not options.copies_wordless and len(parts) == 1 and isinstance(parts[0], str)
        return None if is_read and not is_blank(join_parts(parts)) else Copied((), parts)
    return Copied((), parts, (_CROWDED,)) if is_crowded(parts) else None


def is_crowded(parts: Sequence[Part]) -> bool:
    """Whether the places of the codes would take time without end: each is looked for among all words."""
    if len(parts) == 1:
        return False
    codes = sum(isinstance(part, Code) for part in parts)
    return codes > _MOST_CODES or (codes > 1 and len(join_parts(parts)) > _LONGEST_WITH_CODES)


def split_parts(parts: Parts, split: Callable[[str], list[Sentence]] = split_sentences) -> list[tuple[Parts, str]]:
    """The sentences of a text with codes, as ``split`` cuts a text, and the white space after each.

    A code that begins a new text is a part of its own. Tags that enclose several sentences keep them together.
    """
    codes = [part for part in parts if isinstance(part, Code)]
    text = join_parts(part for part in parts if isinstance(part, str))
    free = unused_signs(text)
    sign, opening = next(free), next(free)
    # A closing quotation mark stands for a closing code: it belongs to the sentence before it.
    signs = {"alone": sign, "opens": opening, "closes": next((each for each in CLOSING if each not in text), sign)}
    closing = signs["closes"]
    coded = "".join([part if isinstance(part, str) else signs[part.kind] for part in parts])
    sentences = split(coded) if text == coded else _cut_at_tags(split(coded), split, opening, closing)
    waiting, found = iter(codes), list[tuple[Parts, str]]()
    together, depth, gap = list[Part](), 0, ""
    for sentence in sentences:
        if gap and together:
            together.append(gap)
        for piece in re.split(f"([{sign}{opening}{re.escape(closing)}])", sentence.text):
            if piece not in signs.values():
                together += [piece] if piece else []
                continue
            code = next(waiting)
            if begins_new_text(code):
                found += [(tuple(together), "")] if together else []
                found.append(((code,), ""))
                together = []
            else:
                depth += {"opens": 1, "closes": -1, "alone": 0}[code.kind]
                together.append(code)
        gap = sentence.gap
        if together and depth <= 0:
            found.append((tuple(together), gap))
            together, depth, gap = [], 0, ""
        elif not together and found:  # white space behind a code that begins a new text
            found[-1] = (found[-1][0], found[-1][1] + gap)
            gap = ""
    return [*found, (tuple(together), gap)] if together else found


def _cut_at_tags(
    sentences: list[Sentence], split: Callable[[str], list[Sentence]], opening: str, closing: str
) -> list[Sentence]:
    """The sentences, cut where only a tag stands between two of them: ``I am tired.</b>We go.``"""
    closed, opened = re.escape(closing), f"{opening}+(?=[^\\W\\d_])"
    border = re.compile(f"(?<=[.!?…])(?:{closed}+(?={opened}|[^\\W\\d_])|(?={opened}))")
    found = list[Sentence]()
    for sentence in sentences:
        text, start = sentence.text, 0
        for match in border.finditer(text):
            end = match.end()
            if len(split(f"{text[max(start, end - _NEAR) : end]} {text[end : end + _NEAR]}")) > 1:
                found.append(Sentence(text[start:end], ""))
                start = end
        found.append(Sentence(text[start:], sentence.gap))
    return found
