"""Scores of the bundled model: of the files that are shipped, and of the run's weights in float32."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer import DecodeConfig, Translator
from glassformer.checkpoint import weights_of
from glassformer.text.corpus import Pair
from glassformer.training.evaluation import Scores, translate_and_score


@dataclass(frozen=True)
class Measurement:
    """Scores on one set of pairs with one search. ``differing`` counts the outputs that differ in float32."""

    test: str
    search: str
    shipped: Scores
    float32: Scores
    differing: int


@dataclass(frozen=True)
class Rounding:
    """The effect of float16: the largest difference of a weight, and of a reference's log-probability (nats)."""

    weight: float
    log_prob: float


def measure(shipped: Translator, float32: Translator, tests: dict[str, list[Pair]]) -> list[Measurement]:
    """Score each of the ``tests``, by name, with the run's own search and with greedy search."""
    searches = {f"beam {shipped.config.beam}": shipped.config, "greedy": DecodeConfig(beam=1)}
    found = []
    for test, pairs in tests.items():
        for search, options in searches.items():
            (scores, outputs), (others, plain) = (
                translate_and_score(translator, pairs, options) for translator in (shipped, float32)
            )
            differing = sum(output != other for output, other in zip(outputs, plain, strict=True))
            found.append(Measurement(test, search, scores, others, differing))
    return found


def rounding(shipped: Translator, float32: Translator, pairs: Sequence[Pair]) -> Rounding:
    """The largest differences between the two, in their weights and on the references of ``pairs``."""
    weights = [weights_of(translator.model) for translator in (shipped, float32)]
    furthest = max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[1])
    sources, targets = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
    log_probs = (translator.score(sources, targets) for translator in (shipped, float32))
    return Rounding(furthest, max(abs(one - other) for one, other in zip(*log_probs, strict=True)))
