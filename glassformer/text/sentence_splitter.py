"""Splits a text into lines, or into sentences: by rules that suit all scripts, and by a library's abbreviations.

A sentence ends at a line break, and after the end mark of any script and the quotes and brackets that close, if

- white space follows, or the mark is one of 。！？, which need none;
- a full stop does not follow an abbreviation ("Dr. Smith"), a single letter ("J. R. Smith", "z. B.", "U.S.") or a
  small number ("der 3. Tag"), nor a short word that a number follows ("fig. 3"), unless the line ends there;
- the next letter is not a lower-case letter ("approx. two", "«Come?» — she asked").

sentencex knows the abbreviations.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from glassformer.text.lines import LINE_BREAKS
from glassformer.text.scripts import CLOSING, OPENING, UNSPACED_STOPS

# Latin, ellipses and doubled marks, Greek, Armenian, Hebrew, Arabic, Urdu, Devanagari, Tibetan, Burmese, Ethiopic,
# Khmer, Mongolian: white space follows.
_SPACED = ".!?…‼⁇⁈⁉\u037e։׃؟۔।॥།༎။።፧។៕᠃᠉"
_CLOSING, _OPENING = re.escape(CLOSING), re.escape(OPENING)

# Tried only where a run of marks begins: a run of any length takes time in proportion.
_END = re.compile(
    rf"(?<![{UNSPACED_STOPS}{_SPACED}])(?:(?P<spaced>[{_SPACED}]++(?:\s?»(?=\s))?[{_CLOSING}]*+)(?=\s)"
    # A quotation with no space after it is usually inside a sentence: 「はい。」と言った。
    rf"|[{_SPACED}]*+[{UNSPACED_STOPS}][{UNSPACED_STOPS}{_SPACED}]*+(?:(?![{_CLOSING}])|[{_CLOSING}]++(?=\s)))"
    rf"|(?=[{LINE_BREAKS}])"
)
_INITIAL_OR_NUMBER = re.compile(rf"(?:^|[\s.\"'‘{_OPENING}-])(?:[^\W\d_]|\d{{1,2}})\.$")
_SHORT_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,4}\.$")
_LAST_WORD = re.compile(rf"[^\s\"'‘{_OPENING}]+$")
_SPACE = re.compile(r"\s*")
_BREAKS = frozenset(LINE_BREAKS)
_MAX_LOOK_BACK = 40  # characters before a full stop; the limit prevents quadratic time
# What sentencex takes for abbreviations, and what oftener is a word at the end of a sentence.
_WORDS = frozenset(
    ("art", "ark", "bien", "cal", "dat", "fin", "ill", "la", "mag", "mar", "may", "me", "mich", "miss", "no", "ok",
     "ore", "re", "sen", "set", "sol", "Art", "No", "OK")
)  # fmt: skip


class Sentence(NamedTuple):
    """A sentence and the white space between it and the next one; empty after the last."""

    text: str
    gap: str


def split_lines(text: str) -> list[Sentence]:
    """The lines of ``text``, at least one, with the white space around each line break as their gap."""
    found, start = list[Sentence](), 0
    for match in re.compile(r"\s+").finditer(text, _skip_space(text, 0), len(text.rstrip())):
        if not _BREAKS.isdisjoint(match[0]):
            found.append(Sentence(text[start : match.start()], match[0]))
            start = match.end()
    return [*found, Sentence(text[start:], "")]


def split_sentences(text: str, language: str = "") -> list[Sentence]:
    """The sentences of ``text``, at least one; joined with their gaps they give the text again.

    White space at the start and at the end of the text belongs to the first and to the last sentence. ``language`` is
    a code such as "de", for its abbreviations; those of English are known in every language.
    """
    found: list[Sentence] = []
    start = stop = 0
    first = _skip_space(text, 0)  # the first visible character
    marked = text.replace(";", "\u037e") if language.startswith("el") else text
    for match in _END.finditer(marked):
        end = match.end()
        if end < max(first, stop):  # inside white space that was skipped
            continue
        stop = _skip_space(text, end)
        last, gap = text[max(start, end - _MAX_LOOK_BACK) : end], text[end:stop]
        following = text[stop : stop + 3].lstrip("-–— ")[:1] or text[stop : stop + 1]
        if stop < len(text) and first < end and _ends(last, match["spaced"], gap, following, language):
            found.append(Sentence(text[start:end], gap))
            start = first = stop
    return [*found, Sentence(text[start:], "")]


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _ends(last: str, mark: str | None, gap: str, following: str, language: str) -> bool:
    """Whether a sentence ends after its ``last`` characters.

    ``mark``: a mark that needs white space after it, or None; ``following``: the next visible character.
    """
    if mark is None or not _BREAKS.isdisjoint(gap):
        return True
    if mark == ".":
        if _INITIAL_OR_NUMBER.search(last) or (following.isdecimal() and _SHORT_WORD.search(last)):
            return False
        word = _LAST_WORD.search(last)
        if word is not None and _is_abbreviation(word[0], language.partition("-")[0].lower()):
            return False
    return not following.islower()


@lru_cache(maxsize=4096)
def _is_abbreviation(word: str, language: str) -> bool:
    """Whether a word with its full stop is an abbreviation in the language, or in English."""
    import sentencex  # only where sentences are cut

    if word[:-1] in _WORDS:
        return False
    return any(len(sentencex.segment(code, f"Xy {word} Xy")) == 1 for code in {"en", language})
