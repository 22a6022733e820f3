"""A glossary: terms and how they are to be translated. A term that a translation lacks is required of the search.

What a required term costs is reported, and the free translation with it. If the cost is high, the text is flagged: a
model that does not know a term may write nonsense round it.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Self

from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.documents.restore import Result
from glassformer.errors import InputError, TextError
from glassformer.settings import DecodeConfig
from glassformer.text.formats.segment import Code, Part, join_parts
from glassformer.text.lines import is_blank, read_lines
from glassformer.text.scripts import is_unspaced, split_words
from glassformer.text.tokenizer.tokenizer import UNK_ID, Tokenizer

# A required form whose output loses more log-probability than this, for each token of the form, is doubtful: nats.
DOUBTFUL_COST = 3.0
MIN_BEAM = 4  # of a search for terms


@dataclass(frozen=True)
class Term:
    """A term of the source language and the forms that may stand for it, the first one being the usual."""

    src: str
    forms: tuple[str, ...]
    place: str = ""
    """Where it is written, as file:line."""

    def spans_in(self, text: str) -> list[tuple[int, int]]:
        """Where the source has the term as words; its case counts only where the term itself has capitals."""
        flags = re.IGNORECASE if self.src == self.src.lower() else re.NOFLAG
        return [found.span() for found in re.finditer(_as_words(self.src), text, flags)]

    def is_met_by(self, text: str) -> bool:
        """Whether one of the forms occurs."""
        return any(re.search(_as_words(form), _compose(text)) for form in self.forms)


def _as_words(term: str) -> str:
    """A pattern for a term with no letter beside it, if its script writes spaces between words."""
    before, after = ("" if is_unspaced(edge) else r"\w" for edge in (term[:1], term[-1:]))
    return f"{before and '(?<!' + before + ')'}{re.escape(term)}{after and '(?!' + after + ')'}"


def _compose(text: str) -> str:
    """A letter and its accent as one character, where there is one."""
    return unicodedata.normalize("NFC", text)


def _words(text: str) -> tuple[str, ...]:
    """The words of a text, those alike that differ only in case; in scripts without spaces the characters."""
    words = (word for run in re.findall(r"\w+", text) for word in split_words(run))
    return tuple(word.translate(_DOTTED).casefold() for word in words)


_DOTTED = {ord(sign): "i" for sign in "\u0130\u0131"}  # alike where case does not count


class Glossary:
    """The terms of a file; those that are written alike are one term with the forms of all."""

    def __init__(self, terms: Sequence[Term]) -> None:
        if not isinstance(terms, Sequence) or not all(isinstance(term, Term) for term in terms):
            raise InputError("terms: found another thing than a list of Terms; Glossary.read takes a file.")
        merged: dict[str, Term] = {}
        for term in terms:
            src = _compose(term.src)
            first = merged.setdefault(src, Term(src, (), term.place))
            forms = dict.fromkeys((*first.forms, *map(_compose, term.forms)))
            merged[src] = replace(first, forms=tuple(forms))
        self.terms = tuple(merged.values())
        self._by_words: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, term in enumerate(self.terms):
            self._by_words[_words(term.src)].append(number)
        self._lengths = sorted(set(map(len, self._by_words)))  # in words

    def terms_in(self, text: str) -> list[Term]:
        """The terms that occur in a text, in the order of the glossary; not one that occurs only in a longer one.

        How many terms the glossary has hardly costs time.
        """
        text = _compose(text)
        words, numbers = _words(text), set[int]()
        for length in takewhile(len(words).__ge__, self._lengths):
            for start in range(len(words) - length + 1):
                numbers.update(self._by_words.get(words[start : start + length], ()))
        found = {number: self.terms[number].spans_in(text) for number in sorted(numbers)}
        taken = [span for spans in found.values() for span in spans]
        return [
            self.terms[number]
            for number, spans in found.items()
            if any(not any(_is_longer(other, span) for other in taken) for span in spans)
        ]

    @classmethod
    def read(cls, path: Path) -> Self:
        """A line for each term: the term, a tab, its translation, and other forms of that after further tabs.

        Blank lines and lines that begin with # are comments. Raises ``TextError`` for a line without a translation.
        """
        terms = []
        for number, line in enumerate(read_lines(path), 1):
            if is_blank(line) or line.startswith("#"):
                continue
            src, *forms = (cell.strip() for cell in line.split("\t"))
            forms = [form for form in forms if form]
            if not src or not forms:
                raise TextError(f"{path}:{number}: found {line!r}, expected a term, a tab and its translation.")
            terms.append(Term(src, tuple(forms), f"{path}:{number}"))
        return cls(terms)

    def apply(
        self,
        translator: Translator,
        results: dict[tuple[Part, ...], Result],
        check: Callable[[tuple[Part, ...], Translation], Result],
        options: DecodeConfig | None,
    ) -> None:
        """Translate again what lacks a term, with each form of it, and keep the best; say what that costs.

        ``results`` has the translation of each source; ``check`` flags what another translation of it lacks. Texts
        with placeholders or tags are not translated again: a term that they lack is flagged.
        """
        for source, result in results.items():
            plain = join_parts(part for part in source if isinstance(part, str))
            missing = [term for term in self.terms_in(plain) if not term.is_met_by(result.text)]
            if not missing:
                continue
            if any(isinstance(part, Code) for part in source):
                flags = [f"the term {term.src!r} is not {' or '.join(map(repr, term.forms))}" for term in missing]
                results[source] = replace(result, flags=(*result.flags, *flags))
                continue
            missing, flags = writable_terms(missing, translator.tgt_tokenizer)
            result = results[source] = replace(result, flags=(*result.flags, *flags))
            if not missing:
                continue
            found = self._require(translator, plain.strip(), missing, options)
            if found is None:
                names = ", ".join(repr(term.src) for term in missing)
                flag = f"the search found no translation with the terms for {names}"
                results[source] = replace(result, flags=(*result.flags, flag))
            else:
                checked = check(source, found.translation)
                results[source] = found.add_to(replace(checked, flags=(*checked.flags, *flags)))

    def _require(
        self, translator: Translator, source: str, missing: Sequence[Term], options: DecodeConfig | None
    ) -> "_Required | None":
        """The best translation with a form of each missing term.

        A narrow search has no place for a term but the start: it is widened.
        """
        options = options or translator.config
        width = options.beam if options.sample else max(options.beam, MIN_BEAM)
        wide = replace(options, beam=width)
        forms = [list(term.forms) for term in missing]
        choices = [
            tuple(each[min(number, len(each) - 1)] for each in forms) for number in range(max(map(len, forms)))
        ]
        requests = [Request(source), *(Request(source, must=choice) for choice in dict.fromkeys(choices))]
        free, *forced = translator.translate_stream(requests, wide)
        met = [each for each in forced if not each.hypotheses[0].unmet]
        if not met:
            return None
        chosen = max(met, key=lambda each: each.hypotheses[0].score)
        cost = free.hypotheses[0].log_prob - chosen.hypotheses[0].log_prob
        tokens = sum(len(translator.tgt_tokenizer.to_ids(each[0])) for each in forms)
        widened = f", with beam {width} in place of {options.beam}" if width > options.beam else ""
        said = f"the required term for {', '.join(repr(term.src) for term in missing)} costs {cost:.1f} nats{widened}"
        return _Required(chosen, said, cost > DOUBTFUL_COST * tokens, free.text)


def _is_longer(span: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether a span holds another and more."""
    return span != other and span[0] <= other[0] and other[1] <= span[1]


def writable_terms(terms: Sequence[Term], tokenizer: Tokenizer) -> tuple[list[Term], list[str]]:
    """The terms with the forms that a tokenizer can write, and in words those without any."""
    found, flags = list[Term](), list[str]()
    for term in terms:
        forms = tuple(form for form in term.forms if UNK_ID not in tokenizer.to_ids(form))
        if forms:
            found.append(replace(term, forms=forms))
        else:
            where = f" ({term.place})" if term.place else ""
            wanted = " or ".join(map(repr, term.forms))
            flags.append(f"the model cannot write {wanted} for {term.src!r}{where}: it lacks a letter of it")
    return found, flags


@dataclass(frozen=True)
class _Required:
    """A translation with the required terms, what they cost in words, and the translation without them."""

    translation: Translation
    cost: str
    is_doubtful: bool
    free: str

    def add_to(self, result: Result) -> Result:
        """The result with the cost as a note, or as a flag."""
        if self.is_doubtful:
            flag = f"{self.cost}, and the text round it may be wrong; without it: {self.free}"
            return replace(result, flags=(*result.flags, flag))
        return replace(result, notes=(*result.notes, f"{self.cost}; without it: {self.free}"))
