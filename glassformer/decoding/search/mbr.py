"""Minimum Bayes risk decoding: the sample that agrees most with all samples.

Eikema and Aziz 2020 (arXiv 2005.10283): samples represent the model's distribution, and the best output is the one
with the greatest expected utility under it. The utility is sacrebleu's chrF (Popović 2015), from 0 to 100.
"""

from collections import Counter
from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]


def chrf_utility() -> Utility:
    """The sentence chrF of a text with another one as its reference."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return lambda text, reference: float(metric.sentence_score(text, [reference]).score)


def expected_utilities(texts: Sequence[str], utility: Utility) -> dict[str, float]:
    """The mean utility of each distinct text against all ``texts``, itself included; in the order of appearance.

    Each pair of distinct texts costs a call of ``utility``, some 0.1 ms for a sentence.
    """
    counts = Counter(texts)
    return {
        text: sum(times * utility(text, reference) for reference, times in counts.items()) / len(texts)
        for text in counts
    }


def mbr_rank(texts: Sequence[str], n_best: int, utility: Utility) -> list[tuple[int, float]]:
    """Index and utility of the ``n_best`` distinct texts of greatest expected utility, or of all if fewer differ.

    Of equal utility the first comes first.
    """
    utilities = expected_utilities(texts, utility)
    best = sorted(utilities, key=utilities.__getitem__, reverse=True)[:n_best]
    return [(texts.index(text), utilities[text]) for text in best]
