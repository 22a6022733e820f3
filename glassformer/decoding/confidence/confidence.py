"""Confidence: the estimated chance that a translation is good, from what is known when it has been made.

A logistic regression over five numbers of the source and the output, which ``training/evaluation/calibration.py``
fits on validation translations. Knows nothing of models.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from glassformer.decoding.confidence.ngrams import NgramTable
from glassformer.errors import CheckpointError
from glassformer.files import read_sealed_json, storage_errors, write_sealed_json
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, UNK_ID

if TYPE_CHECKING:
    from glassformer.decoding.translation import Hypothesis, Translation

DOUBTFUL = 0.2
"""``translate`` warns of a translation with less confidence than this."""

# What each number is, and what it means for a reader if it speaks against a translation.
FEATURES = {
    "log_prob": "the model was unsure which words to write",
    "unseen": "the text does not look like the text that the model learned from: another language, or misspelt?",
    "unknown": "the text has characters that the model does not know",
    "short": "the translation is shorter than expected: something may be missing",
    "long": "the translation is longer than expected",
}
_FORMAT = 1
_MAX_BYTES = 200_000
_MORE = 10  # characters that are added to both lengths: a short text says little by its length
_UNKNOWN = CONTROL_TOKENS[UNK_ID]


@dataclass(frozen=True)
class Weight:
    """One feature of the regression: (value - mean) / scale · weight is what it adds to the log-odds."""

    mean: float
    scale: float
    weight: float


@dataclass(frozen=True)
class Confidence:
    """The chance that a translation is good; ``good`` says what that means, such as ``chrF >= 50``.

    ``length_ratio`` is the typical log of an output's characters per source character; ``fitted_on`` is for readers.
    """

    good: str
    ngrams: NgramTable
    length_ratio: float
    weights: Mapping[str, Weight]
    bias: float
    fitted_on: Mapping[str, float]

    def estimate(self, source: str, source_tokens: list[str], hypothesis: "Hypothesis") -> float:
        """The chance for one hypothesis of a source as the model read it, from 0 to 1."""
        log_odds = self.bias + math.fsum(self._contributions(source, source_tokens, hypothesis).values())
        return 0.5 * (1 + math.tanh(log_odds / 2))

    def reason(self, translation: "Translation") -> str:
        """What speaks most against the best hypothesis, in words."""
        best = translation.hypotheses[0]
        contributions = self._contributions(translation.read, translation.source_tokens, best)
        return FEATURES[min(contributions, key=contributions.__getitem__)]

    def warning(self, translation: "Translation") -> str | None:
        """Why to doubt a translation, in words; None if there is no doubt."""
        chance = translation.hypotheses[0].confidence
        if chance is None or chance >= DOUBTFUL:
            return None
        return f"the translation is probably wrong (confidence {chance:.2f}): {self.reason(translation)}"

    def _contributions(self, source: str, tokens: list[str], hypothesis: "Hypothesis") -> dict[str, float]:
        """What each feature adds to the log-odds."""
        values = features(source, tokens, hypothesis, self.ngrams, self.length_ratio)
        return {name: (values[name] - one.mean) / one.scale * one.weight for name, one in self.weights.items()}

    def write(self, path: Path) -> None:
        """Save as JSON, sealed by a SHA-256 sum; ``StorageError`` if it cannot be written."""
        values = {
            "good": self.good,
            "length_ratio": self.length_ratio,
            "bias": self.bias,
            "weights": {name: vars(one) for name, one in self.weights.items()},
            "fitted_on": dict(self.fitted_on),
            "ngrams": self.ngrams.to_mapping(),
        }
        with storage_errors(path, "Free some space and try again."):
            write_sealed_json(path, _FORMAT, values, indent=1)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """What ``write`` saved, None if there is no file; ``CheckpointError`` if it is damaged or something else."""
        if not path.exists() and not path.is_symlink():
            return None
        try:
            return cls._from_mapping(read_sealed_json(path, _FORMAT, _MAX_BYTES))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise CheckpointError(
                f"{path}: is damaged or was not written by a training: {error}. Delete it to translate without "
                "confidence, or `glassformer average` fits it anew."
            ) from error

    @classmethod
    def _from_mapping(cls, values: dict[str, Any]) -> Self:
        names = {"good", "length_ratio", "bias", "weights", "fitted_on", "ngrams"}
        if values.keys() != names:
            raise ValueError(f"expected an object with {', '.join(sorted(names))}")
        weights = _numbers("weights", values["weights"], FEATURES)
        counts = values["fitted_on"]
        if not isinstance(values["good"], str) or not isinstance(counts, dict):
            raise ValueError("good: expected text; fitted_on: expected counts")
        return cls(
            good=values["good"],
            ngrams=NgramTable.from_mapping(values["ngrams"]),
            length_ratio=_number("length_ratio", values["length_ratio"]),
            weights=weights,
            bias=_number("bias", values["bias"]),
            fitted_on={str(name): _number(name, count) for name, count in counts.items()},
        )


def features(
    source: str, source_tokens: list[str], hypothesis: "Hypothesis", ngrams: NgramTable, length_ratio: float
) -> dict[str, float]:
    """The numbers that the regression weighs; of the source, as the model reads it."""
    ratio = log_length_ratio(source, hypothesis.text) - length_ratio
    return {
        "log_prob": hypothesis.log_prob / max(1, len(hypothesis.ids)),
        "unseen": ngrams.unseen(source),
        "unknown": source_tokens.count(_UNKNOWN) / max(1, len(source_tokens)),
        "short": max(0.0, -ratio),
        "long": max(0.0, ratio),
    }


def log_length_ratio(source: str, target: str) -> float:
    """The log of the target's characters per character of the source, less extreme for short texts."""
    return math.log((len(target.strip()) + _MORE) / (len(source.strip()) + _MORE))


def _numbers(where: str, values: Any, names: Mapping[str, str]) -> dict[str, Weight]:
    if not isinstance(values, dict) or values.keys() != names.keys():
        raise ValueError(f"{where}: expected values for {', '.join(names)}")
    found = {}
    for name, one in values.items():
        if not isinstance(one, dict) or one.keys() != {"mean", "scale", "weight"}:
            raise ValueError(f"{where}.{name}: expected mean, scale and weight")
        found[name] = Weight(**{key: _number(f"{where}.{name}.{key}", value) for key, value in one.items()})
        if found[name].scale <= 0:
            raise ValueError(f"{where}.{name}.scale: found {found[name].scale}, expected more than 0")
    return found


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{where}: found {value!r:.40}, expected a number")
    return float(value)
