"""How far scores would move with other sentences of the same kind: sacrebleu's paired bootstrap over seeds.

Koehn 2004. Knows nothing of how the translations came about.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sacrebleu.significance import PairedTest

from glassformer.reproduction.ways import Way

RESAMPLES = 1000


def compare(
    way: Way, outputs: Mapping[str, Sequence[str]], references: Sequence[str], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Each system's score over redrawn sentences, and for each two of them how likely chance alone explains them.

    ``interval`` is half the width of what holds 95 of 100 redrawn scores; ``p`` is the share of redrawn differences
    that stray from their mean as far as the one that was found. Plain values, ready for JSON.
    """
    systems = list(outputs.items())
    redrawn: dict[str, dict[str, float]] = {}
    pairs = []
    for place, (name, _) in enumerate(systems):
        first, *others = _tested(way, systems[place:], references, resamples)
        if not redrawn:
            results = zip(outputs, [first, *others], strict=True)
            redrawn = {one: {"mean": result.mean, "interval": result.ci} for one, result in results}
        pairs += [
            {"first": name, "second": other, "difference": first.score - result.score, "p": result.p_value}
            for (other, _), result in zip(systems[place + 1 :], others, strict=True)
        ]
    return {"way": way.name, "resamples": resamples, "redrawn": redrawn, "pairs": pairs}


def _tested(
    way: Way, systems: list[tuple[str, Sequence[str]]], references: Sequence[str], resamples: int
) -> list[Any]:
    test = PairedTest(systems, {"": way.metric()}, [list(references)], test_type="bs", n_samples=resamples)
    _, columns = test()
    (results,) = (column for name, column in columns.items() if name != "System")
    return list(results)
