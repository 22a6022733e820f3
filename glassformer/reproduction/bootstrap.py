"""How far scores would move with other sentences of the same kind: sacrebleu's paired bootstrap over seeds.

Koehn 2004. Knows nothing of how the translations came about.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from sacrebleu.significance import PairedTest, Result

from glassformer.reproduction.ways import Way

RESAMPLES = 1000


def compare(
    way: Way, outputs: Mapping[str, Sequence[str]], references: Sequence[str], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Each system's score over redrawn sentences, and for each two of them how likely chance alone explains them.

    ``interval`` is half the width of what holds 95 of 100 redrawn scores. ``p`` is small where a difference is hardly
    chance. Plain values, ready for JSON.
    """
    signature, results = _tested(way, list(outputs), outputs, references, resamples)
    redrawn = {name: {"mean": _number(one.mean), "interval": _number(one.ci)} for name, one in results.items()}
    pairs = []
    for first, second in combinations(outputs, 2):
        _, both = _tested(way, [first, second], outputs, references, resamples)
        difference = _number(both[first].score - both[second].score)
        pairs.append({"first": first, "second": second, "difference": difference, "p": _number(both[second].p_value)})
    return {"way": way.name, "resamples": resamples, "signature": signature, "redrawn": redrawn, "pairs": pairs}


def _tested(
    way: Way, names: Sequence[str], outputs: Mapping[str, Sequence[str]], references: Sequence[str], resamples: int
) -> tuple[str, dict[str, Result]]:
    """sacrebleu's results by name; the first is what the others are held against."""
    systems: list[tuple[str, Sequence[str]]] = [(name, outputs[name]) for name in names]
    test = PairedTest(systems, {"": way.metric()}, [list(references)], test_type="bs", n_samples=resamples)
    signatures, columns = test()
    ((metric, signature),) = signatures.items()
    results = [found for found in columns[metric] if isinstance(found, Result)]
    return str(signature), dict(zip(names, results, strict=True))


def _number(found: float | None) -> float:
    """NumPy's as Python's own; a test of two always has them."""
    assert found is not None
    return float(found)
