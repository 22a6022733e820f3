"""What a validation finds, as plain values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from rapidfuzz.distance import Levenshtein

from glassformer.text.corpus.units import Unit, split_symbols
from glassformer.text.scripts import split_words
from glassformer.training.evaluation.metrics import METRICS, is_same_text, symbol_edits

NEAR = 2  # words that may be wrong in a sentence that is nearly right, and at most a third of it


@dataclass(frozen=True)
class Example:
    """A held-out source, the model's output and the reference; ``unit`` is what the reference is."""

    source: str
    output: str
    reference: str
    unit: Unit = "sentences"

    @property
    def is_exact(self) -> bool:
        """Whether the output is the reference."""
        return is_same_text(self.output, self.reference)

    @property
    def is_near(self) -> bool:
        """Whether it is right but for one or two words, or symbols of a word."""
        return 0 < self.wrong_parts <= min(NEAR, len(self.parts(self.reference)) // 3)

    def parts(self, text: str) -> list[str]:
        """The words of a sentence, or the symbols of a word."""
        return split_words(text) if self.unit == "sentences" else split_symbols(text, self.unit)

    @property
    def wrong_parts(self) -> int:
        """The edit distance in words, or in symbols of a word."""
        if self.unit != "sentences":
            return symbol_edits(self.output, self.reference, self.unit)
        output, reference = split_words(self.output), split_words(self.reference)
        edits = SequenceMatcher(None, output, reference, autojunk=False).get_opcodes()
        return sum(max(to - start, ref_to - ref) for kind, start, to, ref, ref_to in edits if kind != "equal")

    def confusions(self) -> list[tuple[str, str]]:
        """Each symbol that should be there, and what is: nothing where one is missing, and the reverse."""
        output, reference = self.parts(self.output), self.parts(self.reference)
        return [
            (
                "" if edit.tag == "insert" else reference[edit.src_pos],
                "" if edit.tag == "delete" else output[edit.dest_pos],
            )
            for edit in Levenshtein.editops(reference, output)
        ]


def merge_answers(examples: Sequence[Example]) -> list[Example]:
    """One example for each source, with the one of its right answers that is nearest to the output."""
    nearest = dict[str, Example]()
    for one in examples:
        before = nearest.setdefault(one.source, one)
        if one.wrong_parts < before.wrong_parts:
            nearest[one.source] = one
    return list(nearest.values())


@dataclass(frozen=True)
class Scores:
    """The value of each metric, most in percent, sacrebleu's signatures, and how many searches a limit stopped.

    ``unit`` is what the references are; ``sentences`` counts them.
    """

    values: Mapping[str, float]
    signatures: Mapping[str, str]
    sentences: int
    limited: int = 0
    unit: Unit = "sentences"

    def __getitem__(self, metric: str) -> float:
        return self.values[metric]

    @property
    def fitting(self) -> list[str]:
        """The metrics that fit the text."""
        return [name for name in self.values if self.unit in METRICS[name].fits]

    @property
    def count_text(self) -> str:
        """How many sentences or words they are of, in words."""
        return f"{self.sentences:,} {'sentences' if self.unit == 'sentences' else 'words'}"

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        counts = {"sentences": self.sentences, "limited": self.limited}
        shown = [name for name in self.values if {"sentences", self.unit} & set(METRICS[name].fits)]
        return {**{name: self.values[name] for name in shown}, "signatures": dict(self.signatures), **counts}

    def format(self, *metrics: str, separator: str = "  ") -> str:
        """Titles and values of these ``metrics``, or of all that fit the text."""
        found = (METRICS[name] for name in metrics or self.fitting)
        return separator.join(f"{metric.title} {metric.format(self[metric.name])}" for metric in found)


@dataclass(frozen=True)
class Validation:
    """One validation: mean loss (nats per target token, not smoothed) and the scores of translated sentences.

    ``samples`` are the first sources with translations and references, ``examples`` all, in the first process.
    """

    update: int
    loss: float
    scores: Scores
    samples: tuple[tuple[str, str, str], ...]
    encoder_collapse: float
    examples: tuple[Example, ...] = ()

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return math.exp(min(self.loss, 700.0))

    def value(self, metric: str) -> float:
        """The number that ``metric`` names; higher is better."""
        return -self.loss if metric == "loss" else METRICS[metric].rank(self.scores[metric])
