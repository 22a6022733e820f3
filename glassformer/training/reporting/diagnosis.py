"""The result of a training in words; docs/training.md has the thresholds."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.text.corpus.units import Unit
from glassformer.text.scripts import split_words
from glassformer.training.evaluation.results import Example

TOO_SHORT, TOO_LONG = 0.6, 1.7  # times the words of the reference
SOMETHING_ELSE = 0.4  # least share of the reference's words in an output about the same thing
LITTLE_GAIN = 0.1  # least fall of the validation loss in the second half, if more minutes help
_FEW = 100  # sentences, whose shares are off by ten points easily
_NUMBER = re.compile(r"\d+")
_STUCK = re.compile(r"(.{1,20}?)\1{3,}")  # some characters four times in a row or more
_STUCK_CHARACTERS = 12
_JOINERS = "\u200c\u200d"  # invisible, but letters of Persian and parts of emoji need them


@dataclass(frozen=True)
class Shares:
    """How many sentences, or words, are right, and how many nearly."""

    exact: int
    near: int
    sentences: int
    unit: Unit = "sentences"

    @classmethod
    def count(cls, examples: Sequence[Example]) -> "Shares":
        """Count the examples."""
        exact = sum(one.is_exact for one in examples)
        near = sum(one.is_near for one in examples)
        return cls(exact, near, len(examples), examples[0].unit)

    def line(self, *, seen: int = 0) -> str:
        """The counts and what they mean."""
        good = (self.exact + self.near) / self.sentences
        meaning = next(words for least, words in _MEANINGS if good >= least)
        what, parts = ("sentences", "words") if self.unit == "sentences" else ("words", "symbols")
        kind = f"held-out {what}, which this training has not seen"
        if seen:
            kind = f"validation {what} (in all of them, {seen:,} have a source that the model has learned from)"
        return (
            f"Of {self.sentences:,} {kind}, {self.exact:,} are exactly "
            f"right and {self.near:,} are right but for one or two {parts}."
            + (f" {meaning}" if self.unit == "sentences" else "")
            + (f" So few {what} give a rough picture only." if self.sentences < _FEW else "")
        )


_MEANINGS = (
    (0.8, "For text of this kind, most translations need no more than a look."),
    (0.5, "For text of this kind it writes drafts: half of them or more need little work."),
    (0.2, "Read and correct every translation: most need work."),
    (0.0, "It is not of use yet: few translations are near to right."),
)


def _repeats(one: Example) -> bool:
    """Whether three words, or a few letters, are repeated."""
    if _longest_repeat(one.output) >= max(_STUCK_CHARACTERS, _longest_repeat(one.reference) + 1):
        return True
    words, reference = split_words(one.output), split_words(one.reference)
    triples = [tuple(words[start : start + 3]) for start in range(len(words) - 2)]
    known = {tuple(reference[start : start + 3]) for start in range(len(reference) - 2)}
    return any(triples.count(triple) > 1 and triple not in known for triple in triples)


def _longest_repeat(text: str) -> int:
    """The length of the longest repetition, such as hahaha."""
    return max((len(found[0]) for found in _STUCK.finditer(text)), default=0)


def _length(one: Example) -> float:
    return len(split_words(one.output)) / max(1, len(split_words(one.reference)))


def _word_overlap(one: Example) -> float:
    reference = _words(one.reference)
    return len(reference & _words(one.output)) / max(1, len(reference))


def _has_wrong_number(one: Example) -> bool:
    """Whether the numbers in digits are others."""
    output, reference = (sorted(_NUMBER.findall(text)) for text in (one.output, one.reference))
    return output != reference and (_NUMBER.search(one.source) is not None or bool(output and reference))


def _words(text: str) -> set[str]:
    return {word for part in split_words(text.lower()) for word in re.findall(r"\w+", part)}


# Each error with the test for it; of several that apply the first counts.
_ERRORS: dict[str, Callable[[Example, frozenset[str]], bool]] = {
    "a number is wrong": lambda one, _: _has_wrong_number(one),
    "words are repeated": lambda one, _: _repeats(one),
    "the end or a part is missing": lambda one, _: _length(one) < TOO_SHORT,
    "something is added": lambda one, _: _length(one) > TOO_LONG,
    "it says something else": lambda one, _: _word_overlap(one) < SOMETHING_ELSE,
    "words are left untranslated": lambda one, known: any(
        len(word) > 3 for word in _words(one.output) & _words(one.source) - known
    ),
    "single words are wrong or in another order": lambda one, _: True,
}


def count_errors(examples: Sequence[Example]) -> dict[str, list[Example]]:
    """The examples that are not exact, the most frequent kind first; of words the symbols that are confused."""
    found: dict[str, list[Example]] = {}
    if examples and examples[0].unit != "sentences":
        for one in examples:
            for wanted, written in dict.fromkeys(one.confusions()):
                found.setdefault(_describe_confusion(wanted, written), []).append(one)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))
    known = frozenset(word for one in examples for word in _words(one.reference))
    for one in examples:
        if not one.is_exact:
            found.setdefault(next(name for name, test in _ERRORS.items() if test(one, known)), []).append(one)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _describe_confusion(wanted: str, written: str) -> str:
    if not written:
        return f"{wanted or '▁'} is missing"
    return f"{written} in the place of {wanted}" if wanted else f"{written} is added"


def advise(records: Sequence[Mapping[str, Any]], pairs: int) -> str:
    """Whether more minutes or more pairs would help, by metrics.jsonl."""
    curve = [(record["update"], record["valid_loss"]) for record in records if "valid_loss" in record]
    first, last = (curve[0][1], curve[-1][1]) if curve else (0.0, 0.0)
    if len(curve) > 1 and curve[0][0] == 0 and first == min(loss for _, loss in curve) < last:
        return f"The loss on held-out sentences rose from {first:.2f} to {last:.2f}: more minutes will not help."
    if len(curve) < 4:
        return "It was too short to say what would help most: train longer first."
    half = curve[-1][0] / 2
    before = min(loss for update, loss in curve if update <= half or update == curve[0][0])
    gain = before - min(loss for _, loss in curve)
    if gain < LITTLE_GAIN:
        return (
            f"In the second half of the training its loss on held-out sentences hardly fell (by {gain:.2f}): it has "
            f"learned what its {pairs:,} pairs teach. More pairs will help more than more minutes."
        )
    return (
        f"In the second half of the training its loss on held-out sentences still fell (by {gain:.2f}): more minutes "
        "will help, and more pairs too."
    )


def describe(
    examples: Sequence[Example],
    records: Sequence[Mapping[str, Any]],
    pairs: int,
    *,
    seen: int = 0,
    loss_is_comparable: bool = True,
    limited: int = 0,
    kept_first: bool = False,
) -> list[str]:
    """The lines that end a training: what is right, wrong, and would help; ``kept_first``: nothing was learned."""
    lines = []
    if kept_first:
        lines.append(
            "Nothing was learned: no update was better than update 0, and the weights are those of the first model."
        )
    lines.append(Shares.count(examples).line(seen=seen))
    if limited:
        lines.append(
            f"The length limit cut {limited:,} of these translations: raise decode.max_length_a or max_length_b."
        )
    errors = count_errors(examples)
    if errors:
        lines.append("Typical errors, each with an example:")
        for name, wrong in list(errors.items())[:3]:
            shortest = min(wrong, key=lambda one: len(one.reference))
            output, source, reference = map(_quote, (shortest.output, shortest.source, shortest.reference))
            lines.append(f"  {name} ({len(wrong):,}): {output} for {source}, expected {reference}")
    if loss_is_comparable:
        lines.append(advise(records, pairs))
    return lines


def _quote(text: str) -> str:
    """The text in quotation marks, cut after 80 characters."""
    shown = ""
    for character in text if len(text) <= 80 else text[:79] + "…":
        is_space = unicodedata.category(character) == "Zs"
        plain = character.isprintable() or character in _JOINERS or is_space
        shown += character if plain else repr(character)[1:-1]
    return f'"{shown}"' if "'" in shown else f"'{shown}'"
