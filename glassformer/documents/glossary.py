"""A glossary: terms and how they are to be translated. A term that a translation lacks is required of the search.

What a required term costs is reported, and the free translation with it. If the cost is high, the text is flagged: a
model that does not know a term may write nonsense round it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from glassformer.config import DecodeConfig
from glassformer.decoding.request import Request
from glassformer.decoding.translator import Translator
from glassformer.documents.placeholders import Result
from glassformer.errors import TextError
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


class Glossary:
    """The terms of a file."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms

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
        sources: Mapping[str, Sequence[Part]],
        results: dict[str, Result],
        options: DecodeConfig | None,
    ) -> None:
        """Translate again what lacks a term, with each form of it, and keep the best; say what that costs.

        Texts with placeholders or tags are not translated again: a term that they lack is flagged.
        """
        for source, parts in sources.items():
            result = results[source]
            plain = join_parts(part for part in parts if isinstance(part, str))
            missing = [term for term in self.terms if term.occurs_in(plain) and not term.is_met_by(result.text)]
            if not missing:
                continue
            if any(isinstance(part, Code) for part in parts):
                flags = [f"the term {term.src!r} is not {' or '.join(map(repr, term.forms))}" for term in missing]
                results[source] = Result(result.parts, (*result.flags, *flags))
            else:
                results[source] = self._require(translator, plain, missing, result, options)

    def _require(
        self, translator: Translator, source: str, missing: Sequence[Term], free: Result, options: DecodeConfig | None
    ) -> Result:
        """The best translation with a form of each missing term."""
        forms = [list(term.forms) for term in missing]
        choices = [
            tuple(each[min(number, len(each) - 1)] for each in forms) for number in range(max(map(len, forms)))
        ]
        requests = [Request(source), *(Request(source, must=choice) for choice in dict.fromkeys(choices))]
        unforced, *forced = translator.translate_stream(requests, options)
        met = [each for each in forced if not each.hypotheses[0].unmet]
        if not met:
            names = ", ".join(repr(term.src) for term in missing)
            return Result(free.parts, (*free.flags, f"the search found no translation with the terms for {names}"))
        chosen = max(met, key=lambda each: each.hypotheses[0].score)
        cost = unforced.hypotheses[0].log_prob - chosen.hypotheses[0].log_prob
        tokens = sum(len(translator.tgt_tokenizer.to_ids(each[0])) for each in forms)
        required = ", ".join(f"{term.src!r}" for term in missing)
        said = f"the required term for {required} costs {cost:.1f} nats"
        if cost > DOUBTFUL_COST * tokens:
            doubt = f"{said}, and the text round it may be wrong; without it: {unforced.text}"
            return Result((chosen.text,), (*free.flags, doubt))
        return Result((chosen.text,), free.flags, (f"{said}; without it: {unforced.text}",))
