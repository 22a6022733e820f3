"""The target language: a model of several is told it by a token such as >>spa<< before each sentence."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from glassformer.text.codes.code import Parts, has_words
from glassformer.text.steps.step import Change, TextOptions

UNKNOWN_TARGET = "the target language is not known"
_TOKEN = re.compile(r"\s*>>([^\s<>]+)<<\s*")
_ENTRY = re.compile(r"▁?>>(.+)<<")


@dataclass(frozen=True)
class TargetLanguage(Change):
    """A text without its token; each sentence of it is read with ``token`` before it."""

    token: str
    flags: tuple[str, ...] = ()

    def check(self, answer: Parts) -> list[str]:
        """What is wrong with the language that is asked for."""
        return list(self.flags)


def find_targets(entries: Iterable[str]) -> tuple[str, ...]:
    """The target languages that the entries of a vocabulary name."""
    return tuple([found[1] for entry in entries if "<<" in entry and (found := _ENTRY.fullmatch(entry))])


def read_target(parts: Parts, options: TextOptions) -> Change | None:
    """Take the target language from the start of a text, or from the options."""
    if not options.targets or not has_words(parts):
        return None
    first = parts[0] if isinstance(parts[0], str) else ""
    found = _TOKEN.match(first)
    rest = parts if found is None else tuple([part for part in (first[found.end() :], *parts[1:]) if part])
    wanted = options.target if found is None else found[1]
    if wanted in options.targets:
        return TargetLanguage((rest,), f">>{wanted}<<")
    known = ", ".join(f">>{each}<<" for each in options.targets)
    return TargetLanguage((rest,), "", (f"{UNKNOWN_TARGET}: found {wanted or 'none'}, expected one of {known}",))
