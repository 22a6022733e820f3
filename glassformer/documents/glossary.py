"""A glossary: terms and how they are to be translated. A term that a translation lacks is required of the search.

What a required term costs is reported, and the free translation with it. If the cost is high, the text is flagged: a
model that does not know a term may write nonsense round it.
"""

import re
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

# A required form whose output loses more log-probability than this, for each token of the form, is doubtful: nats.
DOUBTFUL_COST = 3.0


@dataclass(frozen=True)
class Term:
    """A term of the source language and the forms that may stand for it, the first one being the usual."""

    src: str
    forms: tuple[str, ...]

    def occurs_in(self, text: str) -> bool:
        """Whether the source has the term as words; its case counts only where the term itself has capitals."""
        flags = re.IGNORECASE if self.src == self.src.lower() else re.NOFLAG
        return re.search(rf"(?<!\w){re.escape(self.src)}(?!\w)", text, flags) is not None

    def is_met_by(self, text: str) -> bool:
        """Whether one of the forms occurs."""
        return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text) for form in self.forms)


def _words(text: str) -> tuple[str, ...]:
    """The words of a text, those alike that differ only in case."""
    return tuple(word.translate(_DOTTED).casefold() for word in re.findall(r"\w+", text))


_DOTTED = {ord(sign): "i" for sign in "\u0130\u0131"}  # alike where case does not count


class Glossary:
    """The terms of a file."""

    def __init__(self, terms: Sequence[Term]) -> None:
        if not isinstance(terms, Sequence) or not all(isinstance(term, Term) for term in terms):
            raise InputError("terms: found another thing than a list of Terms; Glossary.read takes a file.")
        self.terms = terms
        self._by_words: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, term in enumerate(terms):
            self._by_words[_words(term.src)].append(number)
        self._lengths = sorted(set(map(len, self._by_words)))  # in words

    def terms_in(self, text: str) -> list[Term]:
        """The terms that occur in a text, in the order of the glossary; how many it has hardly costs time."""
        words, numbers = _words(text), set[int]()
        for length in takewhile(len(words).__ge__, self._lengths):
            for start in range(len(words) - length + 1):
                numbers.update(self._by_words.get(words[start : start + length], ()))
        return [self.terms[number] for number in sorted(numbers) if self.terms[number].occurs_in(text)]

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
            terms.append(Term(src, tuple(forms)))
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
            found = self._require(translator, plain.strip(), missing, options)
            if found is None:
                names = ", ".join(repr(term.src) for term in missing)
                flag = f"the search found no translation with the terms for {names}"
                results[source] = replace(result, flags=(*result.flags, flag))
            else:
                results[source] = found.add_to(check(source, found.translation))

    def _require(
        self, translator: Translator, source: str, missing: Sequence[Term], options: DecodeConfig | None
    ) -> "_Required | None":
        """The best translation with a form of each missing term."""
        forms = [list(term.forms) for term in missing]
        choices = [
            tuple(each[min(number, len(each) - 1)] for each in forms) for number in range(max(map(len, forms)))
        ]
        requests = [Request(source), *(Request(source, must=choice) for choice in dict.fromkeys(choices))]
        free, *forced = translator.translate_stream(requests, options)
        met = [each for each in forced if not each.hypotheses[0].unmet]
        if not met:
            return None
        chosen = max(met, key=lambda each: each.hypotheses[0].score)
        cost = free.hypotheses[0].log_prob - chosen.hypotheses[0].log_prob
        tokens = sum(len(translator.tgt_tokenizer.to_ids(each[0])) for each in forms)
        said = f"the required term for {', '.join(repr(term.src) for term in missing)} costs {cost:.1f} nats"
        return _Required(chosen, said, cost > DOUBTFUL_COST * tokens, free.text)


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
