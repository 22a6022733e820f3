"""Confidence: the estimated chance that a translation is good, from what is known when it has been made.

A logistic regression over a few numbers of the source and the output, which ``training/evaluation/calibration.py``
fits on validation translations, with the chance below which a translation is doubted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from glassformer.decoding.confidence.seen_text import SeenText, Unseen
from glassformer.decoding.translation import Doubt
from glassformer.errors import CheckpointError
from glassformer.files import read_sealed_json, storage_errors, write_sealed_json

if TYPE_CHECKING:
    from glassformer.decoding.translation import Hypothesis

FEATURES = ("log_prob", "unseen", "unknown", "lost", "short", "long")
_FORMAT = 2
_MAX_BYTES = 300_000
_MORE = 10  # characters that are added to both lengths: a short text says little by its length


@dataclass(frozen=True)
class Weight:
    """One feature of the regression: (value - mean) / scale · weight is what it adds to the log-odds."""

    mean: float
    scale: float
    weight: float


@dataclass(frozen=True)
class Confidence:
    """The chance that a translation is good; ``good`` says what that means, such as ``chrF >= 50``.

    ``seen`` is what the model learned from, ``length_ratio`` the typical log of an output's characters per source
    character. Below ``doubtful`` a translation is doubted. ``fitted_on`` is for readers.
    """

    good: str
    length_ratio: float
    bias: float
    doubtful: float
    weights: Mapping[str, Weight]
    fitted_on: Mapping[str, float]
    seen: SeenText

    def judge(self, source: str, hypotheses: Sequence["Hypothesis"]) -> tuple[list[float], Doubt | None]:
        """The chance of each hypothesis of a source as the model read it, from 0 to 1, and why to doubt the first."""
        unseen = self.seen.unseen(source)
        chances = []
        for hypothesis in hypotheses:
            values = features(source, hypothesis, unseen, self.length_ratio)
            parts = ((values[name] - one.mean) / one.scale * one.weight for name, one in self.weights.items())
            log_odds = self.bias + math.fsum(parts)
            chances.append(0.5 * (1 + math.tanh(log_odds / 2)))
        return chances, self._doubt(unseen, hypotheses[0], chances[0])

    def _doubt(self, unseen: Unseen, hypothesis: "Hypothesis", chance: float) -> Doubt | None:
        """The first reason that applies; None without a doubt.

        Another language, characters that were not copied, and a long source are doubted whatever the chance.
        """
        if unseen.is_foreign:
            return Doubt("language")
        if lost := tuple(one for one in unseen.characters if one not in hypothesis.text):
            return Doubt("characters", lost)
        if chance < self.doubtful and unseen.words:
            return Doubt("words", unseen.words)
        if unseen.is_long:
            return Doubt("length")
        return Doubt("unsure") if chance < self.doubtful else None

    def write(self, path: Path) -> None:
        """Save as JSON, sealed by a SHA-256 sum; ``StorageError`` if it cannot be written."""
        weights = {name: vars(one) for name, one in self.weights.items()}
        values = {**vars(self), "weights": weights, "seen": self.seen.to_mapping()}
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
        names = [field.name for field in fields(cls)]
        if values.keys() != set(names):
            raise ValueError(f"expected an object with {', '.join(sorted(names))}")
        counts = values["fitted_on"]
        if not isinstance(values["good"], str) or not isinstance(counts, dict):
            raise ValueError("good: expected text; fitted_on: expected counts")
        numbers = {name: _number(name, values[name]) for name in ("length_ratio", "bias", "doubtful")}
        counts = {str(name): _number(name, count) for name, count in counts.items()}
        seen, weights = SeenText.from_mapping(values["seen"]), _read_weights(values["weights"])
        return cls(good=values["good"], weights=weights, fitted_on=counts, seen=seen, **numbers)


def features(source: str, hypothesis: "Hypothesis", unseen: Unseen, length_ratio: float) -> dict[str, float]:
    """The numbers that the regression weighs; the source is as the model reads it.

    What is ``unseen`` in it: a share of n-grams, unknown characters, and words that the output has lost. How much
    shorter or longer than usual the output is, is a logarithm.
    """
    ratio = log_length_ratio(source, hypothesis.text) - length_ratio
    return {
        "log_prob": hypothesis.log_prob / max(1, len(hypothesis.ids)),
        "unseen": unseen.ngrams,
        "unknown": float(len(unseen.characters)),
        "lost": float(len(unseen.lost_words(hypothesis.text))),
        "short": max(0.0, -ratio),
        "long": max(0.0, ratio),
    }


def log_length_ratio(source: str, target: str) -> float:
    """The log of the target's characters per character of the source, less extreme for short texts."""
    return math.log((len(target.strip()) + _MORE) / (len(source.strip()) + _MORE))


def _read_weights(values: Any) -> dict[str, Weight]:
    if not isinstance(values, dict) or values.keys() != set(FEATURES):
        raise ValueError(f"weights: expected values for {', '.join(FEATURES)}")
    found = {}
    for name, one in values.items():
        if not isinstance(one, dict) or one.keys() != {"mean", "scale", "weight"}:
            raise ValueError(f"weights.{name}: expected mean, scale and weight")
        found[name] = Weight(**{key: _number(f"weights.{name}.{key}", value) for key, value in one.items()})
        if found[name].scale <= 0:
            raise ValueError(f"weights.{name}.scale: found {found[name].scale}, expected more than 0")
    return found


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{where}: found {value!r:.40}, expected a number")
    return float(value)
