"""The equations of the stories as functions: each recomputes one step from the recorded steps before it and the
weights. What no equation makes is given: texts, limits, random numbers, and what an optimizer remembers.
"""

from glassformer.explain.equations.attention import ATTENTION
from glassformer.explain.equations.ends import ENDS
from glassformer.explain.equations.entry import Equation, Table
from glassformer.explain.equations.layers import LAYERS, NORM_SCALES
from glassformer.explain.equations.scope import Record, Scope, Setting
from glassformer.explain.equations.search import SEARCH
from glassformer.explain.equations.training import TRAINING

__all__ = ["EQUATIONS", "GIVEN", "SCALES", "Equation", "Record", "Scope", "Setting"]

EQUATIONS: dict[str, Table] = {**ENDS, **ATTENTION, **LAYERS, "search": SEARCH, **TRAINING}

SCALES = {"norm": NORM_SCALES}

GIVEN: dict[str, tuple[str, ...]] = {
    "text": (
        "src_normalised", "src_pre_tokens", "src_spelling", "src_tokens", "tgt_normalised", "tgt_pre_tokens",
        "tgt_spelling", "tgt_out_ids",
    ),
    "dropout": ("kept",),
    "search": ("uniforms", "demanded_prefixes", "required_ids", "banned_ids"),
    "update": ("count_before", "cooldown"),
    "weight": ("gradient", "value_before", "first_moment_before", "second_moment_before"),
}  # fmt: skip
