"""Minimum Bayes risk: of what was drawn, the output that agrees most with all that was drawn.

Eikema and Aziz 2020 (arXiv 2005.10283): samples show what the model believes, and the best output is the one with
the greatest expected utility under that belief. The utility is chrF (Popović 2015) of sacrebleu, from 0 to 100.
Knows nothing of models.
"""

from collections import Counter
from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]


def chrf_utility() -> Utility:
    """How well a text agrees with another that is taken for its reference: sentence chrF."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return lambda text, reference: float(metric.sentence_score(text, [reference]).score)


def expected_utilities(texts: Sequence[str], utility: Utility) -> dict[str, float]:
    """Of each distinct text the mean utility against all ``texts``, itself included; in the order of first sight.

    Equal texts are compared once: u distinct texts cost u² calls of ``utility``, some 0.1 ms each for a sentence,
    so that 50 samples that all differ cost a quarter of a second.
    """
    counts = Counter(texts)
    return {
        text: sum(times * utility(text, reference) for reference, times in counts.items()) / len(texts)
        for text in counts
    }


def least_risk(texts: Sequence[str], n_best: int, utility: Utility) -> list[tuple[int, float]]:
    """The ``n_best`` distinct texts of greatest expected utility: where each stands first, and its utility.

    Of equal utility the one that stands first; fewer come back where fewer differ.
    """
    utilities = expected_utilities(texts, utility)
    best = sorted(utilities, key=utilities.__getitem__, reverse=True)[:n_best]
    return [(texts.index(text), utilities[text]) for text in best]
