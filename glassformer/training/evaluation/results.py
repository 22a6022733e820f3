"""What a validation finds, as plain values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from glassformer.text.scripts import split_words
from glassformer.training.evaluation.metrics import METRICS, is_same_text

NEAR = 2  # words that may be wrong in a sentence that is nearly right, and at most a third of it


@dataclass(frozen=True)
class Example:
    """A held-out source, the model's output and the reference."""

    source: str
    output: str
    reference: str

    @property
    def is_exact(self) -> bool:
        """Whether the output is the reference."""
        return is_same_text(self.output, self.reference)

    @property
    def is_near(self) -> bool:
        """Whether it is right but for one or two words."""
        return 0 < self.wrong_words <= min(NEAR, len(split_words(self.reference)) // 3)

    @property
    def wrong_words(self) -> int:
        """The edit distance in words."""
        output, reference = split_words(self.output), split_words(self.reference)
        edits = SequenceMatcher(None, output, reference, autojunk=False).get_opcodes()
        return sum(max(to - start, ref_to - ref) for kind, start, to, ref, ref_to in edits if kind != "equal")


@dataclass(frozen=True)
class Scores:
    """The value of each metric in percent, sacrebleu's signatures, and how many searches a limit stopped."""

    values: Mapping[str, float]
    signatures: Mapping[str, str]
    sentences: int
    limited: int = 0

    def __getitem__(self, metric: str) -> float:
        return self.values[metric]

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        counts = {"sentences": self.sentences, "limited": self.limited}
        return {**self.values, "signatures": dict(self.signatures), **counts}

    def format(self, *metrics: str, separator: str = "  ") -> str:
        """Titles and values of these ``metrics``, or of all."""
        found = (METRICS[name] for name in metrics or self.values)
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
