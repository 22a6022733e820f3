"""What the bundled model scores: the very files that are shipped, beside the run's own weights in float32.

Knows nothing of how they are packed or of the card's words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer import DecodeConfig, Translator
from glassformer.checkpoint import weights_of
from glassformer.text.corpus import Pair
from glassformer.training.evaluation import Scores, translate_and_score


@dataclass(frozen=True)
class Measured:
    """One set of pairs in one search. ``differing`` counts the outputs that float32 writes otherwise."""

    test: str
    search: str
    shipped: Scores
    float32: Scores
    differing: int


@dataclass(frozen=True)
class Rounding:
    """What float16 changes: the greatest difference of a weight, and of a reference's log-probability (nats)."""

    weight: float
    log_prob: float


def measure(shipped: Translator, float32: Translator, tests: dict[str, list[Pair]]) -> list[Measured]:
    """Each of the ``tests``, by its name, with the run's own search and greedily."""
    searches = {f"beam {shipped.config.beam}": shipped.config, "greedy": DecodeConfig(beam=1)}
    found = []
    for test, pairs in tests.items():
        for search, options in searches.items():
            (scores, outputs), (others, plain) = (
                translate_and_score(translator, pairs, options) for translator in (shipped, float32)
            )
            differing = sum(output != other for output, other in zip(outputs, plain, strict=True))
            found.append(Measured(test, search, scores, others, differing))
    return found


def rounding(shipped: Translator, float32: Translator, pairs: Sequence[Pair]) -> Rounding:
    """How far the two are apart, in their weights and on the references of ``pairs``."""
    weights = [weights_of(translator.model) for translator in (shipped, float32)]
    furthest = max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[1])
    sources, targets = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
    scored = (translator.score(sources, targets) for translator in (shipped, float32))
    return Rounding(furthest, max(abs(one - other) for one, other in zip(*scored, strict=True)))
