"""The rules by which texts are read, for the page: patterns of Python as those of JavaScript, and lists of words.

The page takes them from here, so that none is copied by hand.
"""

import re
from itertools import count, product
from re import _parser  # type: ignore[attr-defined]  # what a pattern says has no public name
from string import ascii_lowercase
from typing import Any

from glassformer.decoding.restore import parts_writer, places
from glassformer.text import scripts, sentence_splitter
from glassformer.text.codes import checks, draft, find
from glassformer.text.steps import signs, style
from glassformer.text.tokenizer.tokenizer import Tokenizer

_PATTERNS = {
    "placeholder": find._PLACEHOLDERS, "block": find._BLOCK, "tagName": find._TAG_NAME, "breaks": find._BREAK,
    "wordless": find._WORDLESS, "addressTag": find._ADDRESS_TAG, "count": draft._COUNT,
    "numberOrSign": draft._NUMBERS_AND_SIGNS, "number": checks._NUMBER, "time": checks._TIME, "run": checks._RUN,
    "sign": checks._SIGN, "ofCodes": checks._OF_CODES, "dropped": checks.DROPPED, "emoji": style.EMOJI,
    "bullet": style._BULLET, "marks": style._MARKS, "firstLetter": style._FIRST_LETTER,
    "directions": signs._MARKS, "sentenceEnd": sentence_splitter._END, "word": scripts._WORD,
    "initial": sentence_splitter._INITIAL_OR_NUMBER, "shortWord": sentence_splitter._SHORT_WORD,
    "lastWord": sentence_splitter._LAST_WORD, "unspaced": scripts._UNSPACED, "piece": scripts._PIECE,
    "positional": places._POSITIONAL, "allWords": places._WORDS, "letterAndDigit": parts_writer._LETTER_AND_DIGIT,
}  # fmt: skip
_LISTS: dict[str, Any] = {
    "names": draft._NAMES, "counts": draft._COUNTS, "endings": draft._ENDINGS, "pictures": style._ONE,
    "joins": style._JOINS,
    "opening": scripts.OPENING, "afterWords": scripts.AFTER_WORDS, "closing": scripts.CLOSING,
    "stops": scripts.UNSPACED_STOPS, "written": signs.WRITTEN, "emptyTags": find._EMPTY_TAGS, "alike": places._ALIKE,
}  # fmt: skip
_LONGEST_WORD = 8
_LONGER = ("Messrs", "Prof", "Univ", "Assn", "Corp", "Bros", "Dept", "Gov", "Supt", "approx", "dept", "etc", "incl")
_CLASSES = {"WORD": r"\p{L}\p{N}_", "DIGIT": r"\p{Nd}", "SPACE": r"\s", "NOT_SPACE": r"\S"}
_PLACES = {"AT_BEGINNING": "^", "AT_END": "$", "AT_END_STRING": "(?![^])", "AT_BOUNDARY": r"\b"}


def pack_rules(tokenizer: Tokenizer, language: str, languages: tuple[str, str] | None) -> dict[str, Any]:
    """Patterns by name, each with its flags, and the lists; ``tokenizer`` and ``language``: of the source."""
    patterns = {name: to_javascript(pattern) for name, pattern in _PATTERNS.items()}
    abbreviations = sorted(_abbreviations(tokenizer, language))
    return {
        "patterns": patterns, "abbreviations": abbreviations, "amounts": draft.amount_signs(languages), **_LISTS,
    }  # fmt: skip


def _abbreviations(tokenizer: Tokenizer, language: str) -> set[str]:
    """Those among the short words of a vocabulary, and among all of two and three letters."""
    entries = {word for entry in tokenizer.entries() for word in re.findall(r"[^\W\d_]{2,}", entry)}
    words = {word for word in entries if len(word) <= _LONGEST_WORD} | set(_LONGER)
    words |= {"".join(letters) for size in (2, 3) for letters in product(ascii_lowercase, repeat=size)}
    code = language.partition("-")[0].lower()
    is_abbreviation = sentence_splitter._is_abbreviation.__wrapped__  # so many are not kept
    return {form for word in words for form in {word, word.capitalize()} if is_abbreviation(f"{form}.", code)}


def to_javascript(pattern: re.Pattern[str]) -> tuple[str, str]:
    """A pattern as JavaScript has it, and its flags."""
    writer = _Writer({number: name for name, number in pattern.groupindex.items()})
    flags = "u" + "i" * bool(pattern.flags & re.IGNORECASE) + "s" * bool(pattern.flags & re.DOTALL)
    return writer.write(_parser.parse(pattern.pattern, pattern.flags)), flags


class _Writer:
    """Writes what Python has parsed; ``folds``: in a part in which case does not count."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names, self._folds, self._numbers = names, False, count()

    def write(self, parsed: Any) -> str:
        """The parts of a pattern, one after the other."""
        return "".join([getattr(self, f"_{str(kind).lower()}")(value) for kind, value in parsed])

    def _literal(self, code: int) -> str:
        return self._in([("LITERAL", code)]) if self._folds else _escape(code)

    def _not_literal(self, code: int) -> str:
        return f"[^{_escape(code)}]"

    def _any(self, _: None) -> str:
        return "."

    def _at(self, place: Any) -> str:
        return _PLACES[str(place)]

    def _branch(self, value: Any) -> str:
        return f"(?:{'|'.join(map(self.write, value[1]))})"

    def _subpattern(self, value: Any) -> str:
        number, more, _, inner = value
        before, self._folds = self._folds, self._folds or bool(more & re.IGNORECASE)
        name = f"?<{self._names[number]}>" if number in self._names else "" if number else "?:"
        found = f"({name}{self.write(inner)})"
        self._folds = before
        return found

    def _assert(self, value: Any, sign: str = "=") -> str:
        return f"(?{'<' * (value[0] < 0)}{sign}{self.write(value[1])})"

    def _assert_not(self, value: Any) -> str:
        return self._assert(value, "!")

    def _max_repeat(self, value: Any) -> str:
        least, most, part = value
        return f"(?:{self.write(part)}){{{least},{'' if most is _parser.MAXREPEAT else most}}}"

    def _min_repeat(self, value: Any) -> str:
        return f"{self._max_repeat(value)}?"

    def _possessive_repeat(self, value: Any) -> str:
        name = f"all{next(self._numbers)}"  # what a look-ahead has found is not given back
        return rf"(?=(?<{name}>{self._max_repeat(value)}))\k<{name}>"

    def _in(self, items: Any) -> str:
        return _write_class([(str(kind), value) for kind, value in items], folds=self._folds)


def _write_class(items: list[tuple[str, Any]], *, folds: bool) -> str:
    is_negated = items[0][0] == "NEGATE"
    found, lacks_words = list[str](), False
    for kind, value in items[is_negated:]:
        if kind == "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            lacks_words |= name == "NOT_WORD"
            found.append(_CLASSES.get(name, ""))
        elif kind == "RANGE":
            found.append("-".join(map(_escape, value)))
        else:
            character = chr(value)
            found += map(_escape, {value, *(map(ord, character.lower() + character.upper()) if folds else ())})
    rest = "".join(found)
    if lacks_words and is_negated:  # [^\W\d_]: a class in a class
        return rf"(?:(?![{rest}])[{_CLASSES['WORD']}])"
    return rf"(?:[{rest}]|[^{_CLASSES['WORD']}])" if lacks_words else f"[{'^' * is_negated}{rest}]"


def _escape(code: int) -> str:
    if chr(code) in r"^$\.*+?()[]{}|/":
        return f"\\{chr(code)}"
    return f"\\x{code:02x}" if code < 32 or chr(code) == "-" else chr(code)
