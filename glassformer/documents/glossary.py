"""A glossary: terms and how they are to be translated. A term that a translation lacks is required of the search.

What a required term costs is reported, and the free translation with it. If the cost is high, the text is flagged: a
model that does not know a term may write nonsense round it.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Self

from glassformer.decoding.request import Request
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.errors import InputError, TextError, check_path, check_type
from glassformer.settings import DecodeConfig
from glassformer.text.codes.code import Code, Parts, join_parts
from glassformer.text.lines import is_blank, read_lines
from glassformer.text.scripts import is_unspaced, split_words
from glassformer.text.tokenizer.tokenizer import UNK_ID, Tokenizer

# A required form whose output loses more log-probability than this, for each token of the form, is doubtful: nats.
DOUBTFUL_COST = 3.0
MIN_BEAM = 4  # of a search for terms
MAX_WORDS, MAX_FORMS = 100, 100  # of a term, signs counted


@dataclass(frozen=True)
class Term:
    """A term of the source language and the forms that may stand for it, the first one being the usual."""

    src: str
    forms: tuple[str, ...]
    place: str = ""
    """Where it is written, as file:line."""

    def is_met_by(self, text: str) -> bool:
        """Whether one of the forms occurs."""
        return any(re.search(_as_words(form), _compose(text)) for form in self.forms)


def _as_words(term: str) -> str:
    """A pattern for a term with no letter next to it, if its script writes spaces between words."""
    before, after = ("" if is_unspaced(edge) else r"\w" for edge in (term[:1], term[-1:]))
    return f"{before and '(?<!' + before + ')'}{re.escape(term)}{after and '(?!' + after + ')'}"


def _compose(text: str) -> str:
    """A letter and its accent as one character, where there is one."""
    return unicodedata.normalize("NFC", text)


def _fold(text: str) -> str:
    """A text without its case, as long as it was."""
    return text.translate(_ALIKE).lower()


_ALIKE = {0x130: "i", 0x131: "i", 0x17F: "s", 0x3C2: "\u03c3"}  # where case does not count: two i, an s, a sigma


def _word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words and the signs of a text are; in scripts without spaces each character is one."""
    spans = list[tuple[int, int]]()
    for run in re.finditer(r"\w+|[^\w\s]", text):
        ends = [*accumulate(map(len, split_words(run[0])), initial=run.start())]
        spans += pairwise(ends)
    return spans


class Glossary:
    """The terms of a file; those that are written alike are one term with the forms of all."""

    def __init__(self, terms: Sequence[Term]) -> None:
        if not isinstance(terms, Sequence) or not all(isinstance(term, Term) for term in terms):
            raise InputError("terms: found another thing than a list of Terms; Glossary.read takes a file.")
        merged: dict[str, tuple[str, dict[str, None]]] = {}  # the place and the forms of each
        for term in terms:
            _, forms = merged.setdefault(" ".join(_compose(term.src).split()), (term.place, {}))
            forms.update(dict.fromkeys(map(_compose, term.forms)))
        self.terms = tuple(Term(src, tuple(forms), place) for src, (place, forms) in merged.items())
        self._numbers: defaultdict[tuple[bool, str], list[int]] = defaultdict(list)
        self._lengths: defaultdict[str, set[int]] = defaultdict(set)  # in words, by the first word
        for number, term in enumerate(self.terms):
            has_case = term.src != term.src.lower()
            self._numbers[has_case, term.src if has_case else _fold(term.src)].append(number)
            spans = _word_spans(term.src)
            if not 0 < len(spans) <= MAX_WORDS or len(term.forms) > MAX_FORMS:
                raise InputError(
                    f"{term.place or 'terms'}: found a term of {len(spans):,} words and signs with "
                    f"{len(term.forms):,} forms, expected 1 to {MAX_WORDS} and at most {MAX_FORMS}. Put whole "
                    "sentences into a memory."
                )
            self._lengths[_fold(term.src[slice(*spans[0])])].add(len(spans))

    def terms_in(self, text: str) -> list[Term]:
        """The terms that occur in a text, in the order of the glossary; not one that occurs only in a longer one.

        A term has its words and signs side by side; its case counts only where it has capitals itself. How many terms
        the glossary has hardly costs time.
        """
        check_type("text", text, str, "a str")
        text = " ".join(_compose(text).split())
        found, reached = set[int](), 0
        for end, numbers in self._longest(text):
            if end > reached:  # not inside a longer one that begins before
                found.update(numbers)
                reached = end
        return [self.terms[number] for number in sorted(found)]

    def _longest(self, text: str) -> Iterator[tuple[int, list[int]]]:
        """Where the longest terms that begin at a word end, and their numbers, word by word."""
        folded, spans = _fold(text), _word_spans(text)
        for first, (start, end) in enumerate(spans):
            for length in sorted(self._lengths.get(folded[start:end], ()), reverse=True):
                stop = spans[first + length - 1][1] if first + length <= len(spans) else start
                if stop == start or _touches(text, start, start - 1) or _touches(text, stop - 1, stop):
                    continue
                keys = (True, text[start:stop]), (False, folded[start:stop])
                if numbers := [number for key in keys for number in self._numbers.get(key, ())]:
                    yield stop, numbers
                    break

    @classmethod
    def read(cls, path: Path) -> Self:
        """A line for each term: the term, a tab, its translation, and other forms of that after further tabs.

        Blank lines and lines that begin with # are comments. Raises ``TextError`` for a line without a translation.
        """
        path, terms = check_path("path", path), []
        for number, line in enumerate(read_lines(path), 1):
            if is_blank(line) or line.startswith("#"):
                continue
            src, *forms = (cell.strip() for cell in line.split("\t"))
            forms = [form for form in forms if form]
            if not src or not forms:
                raise TextError(f"{path}:{number}: found {line[:100]!r}, expected a term, a tab and its translation.")
            terms.append(Term(src, tuple(forms), f"{path}:{number}"))
        return cls(terms)

    def review(
        self,
        sources: Sequence[Parts],
        translations: Sequence[Translation],
        translator: Translator,
        options: DecodeConfig,
    ) -> list[Translation]:
        """Translate again what lacks a term, with each form of it, and keep the best; say what that costs.

        Texts with placeholders or tags are not translated again: a term that they lack is flagged.
        """
        found = list(translations)
        for number, source in enumerate(sources):
            plain = join_parts(part for part in source if isinstance(part, str))
            one = translations[number]
            missing = [term for term in self.terms_in(plain) if not term.is_met_by(one.text)]
            if not missing:
                continue
            if any(isinstance(part, Code) for part in source):
                flags = [f"the term {term.src!r} is not {' or '.join(map(repr, term.forms))}" for term in missing]
                found[number] = replace(one, flags=(*one.flags, *flags))
                continue
            missing, flags = writable_terms(missing, translator.tgt_tokenizer)
            required = self._require(translator, plain.strip(), missing, options) if missing else None
            if missing and required is None:
                names = ", ".join(repr(term.src) for term in missing)
                flags.append(f"the search found no translation with the terms for {names}")
            chosen = one if required is None else required.explain()
            found[number] = replace(chosen, flags=(*chosen.flags, *flags))
        return found

    def _require(
        self, translator: Translator, source: str, missing: Sequence[Term], options: DecodeConfig
    ) -> "_Required | None":
        """The best translation with a form of each missing term.

        A narrow search has no place for a term but the start: it is widened.
        """
        width = options.beam if options.sample else max(options.beam, MIN_BEAM)
        wide = replace(options, beam=width, split_sentences=False)
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


def _touches(text: str, edge: int, index: int) -> bool:
    """Whether the character next to the edge of a term belongs to a word with it."""
    neighbour = text[max(0, index) : index + 1]
    return (neighbour.isalnum() or neighbour == "_") and not is_unspaced(text[edge])


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

    def explain(self) -> Translation:
        """The translation, with the cost as a note or as a flag: it says more than the confidence."""
        found = self.translation
        flags = tuple(flag for flag in found.flags if flag != found.warning)
        if self.is_doubtful:
            flag = f"{self.cost}, and the text round it may be wrong; without it: {self.free}"
            return replace(found, flags=(*flags, flag))
        return replace(found, flags=flags, notes=(f"{self.cost}; without it: {self.free}",))
