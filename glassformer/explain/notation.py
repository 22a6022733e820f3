"""Symbolic axes: our axis words settled by address, and the walkthroughs' symbols for them.

``query``, ``key`` and ``position`` say what a module does with an axis; where the module stands says whether
that is the source or the target. Knows no values.
"""

from glassformer.axes import LEGEND
from glassformer.trace import Step

_SRC_ROOTS = ("encoder", "src_embedding", "src_mask")


def resolved_axes(step: Step) -> tuple[str, ...]:
    """The step's axis words, with ``src`` or ``tgt`` in place of ``position``, ``query`` and ``key``."""
    return tuple(_resolved(step.address, word) for word in step.axes)


def symbols(step: Step) -> tuple[str, ...]:
    """The walkthroughs' symbol of each axis: ``nbatches``, ``h``, ``n_seq_tgt``, ``n_seq_src``, ``d_k`` ..."""
    return tuple(LEGEND[word].symbol for word in resolved_axes(step))


def _resolved(address: str, word: str) -> str:
    if word not in ("position", "query", "key"):
        return word
    parts = address.split(".")
    if parts[0] in _SRC_ROOTS or (word == "key" and "cross_attention" in parts):
        return "src"
    return "tgt"
