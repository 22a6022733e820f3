"""What every lesson does with a statement of its source: hold it against a recomputation, print both, count it.

A lesson makes one ``Lesson``, named ``lesson``, and calls ``states`` for what is right and ``slips`` for what is
not. Either fails with an ``AssertionError`` when the recomputation says otherwise, so running a lesson tests it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_DIGITS, _LONGEST = 4, 60


@dataclass(frozen=True)
class Statement:
    """One thing that a source states. ``where`` is its heading or section there; ``why`` tells a slip."""

    source: str
    where: str
    claim: str
    stated: str
    computed: str
    why: str = ""

    @property
    def is_slip(self) -> bool:
        return bool(self.why)


class Lesson:
    """The statements of one source, such as ``Lesson("000", "Shaped Transformer")``, in the order of the lesson."""

    def __init__(self, source: str, title: str) -> None:
        self.source, self.title = source, title
        self.statements: list[Statement] = []

    def states(self, where: str, claim: str, stated: Any, computed: Any, *, within: float = 0.0) -> None:
        """The source is right: ``computed`` equals ``stated``, numbers to ``within`` (absolute)."""
        assert agree(stated, computed, within), f"{where}: {claim}: stated {stated}, computed {computed}"
        self._add(Statement(self.source, where, claim, short(stated), short(computed)))

    def slips(self, where: str, claim: str, stated: Any, computed: Any, *, why: str, within: float = 0.0) -> None:
        """The source slips: ``computed`` is right, ``stated`` is not; ``why`` says it in one sentence."""
        assert not agree(stated, computed, within), f"{where}: {claim}: {stated} is right after all"
        assert why, f"{where}: {claim}: a slip needs its reason"
        self._add(Statement(self.source, where, claim, short(stated), short(computed), why))

    def end(self) -> None:
        """The last line of a lesson: how much of its source was held against a recomputation."""
        slips = sum(statement.is_slip for statement in self.statements)
        print(f"{self.source}: {len(self.statements)} statements recomputed, {slips} of them slips.")

    def _add(self, statement: Statement) -> None:
        self.statements.append(statement)
        mark, sign = ("✗", "≠") if statement.is_slip else ("✓", "=")
        stated = statement.stated if statement.is_slip else ""
        print(f"{mark} {statement.where}: {statement.claim}: {stated}{' ' * bool(stated)}{sign} {statement.computed}")
        if statement.is_slip:
            print(f"  {statement.why}")


def agree(stated: Any, computed: Any, within: float) -> bool:
    """Equal in shape and in each number to ``within``; other values equal as they are."""
    if isinstance(stated, Tensor) or isinstance(computed, Tensor) or within:
        left, right = (torch.as_tensor(value, dtype=torch.float64) for value in (stated, computed))
        return left.shape == right.shape and bool(torch.isclose(left, right, rtol=0.0, atol=within).all())
    return bool(stated == computed)


def short(value: Any) -> str:
    """A value as short text: shapes and small tensors whole, long ones by their shape."""
    if isinstance(value, Tensor):
        value = (
            torch.round(value.double(), decimals=_DIGITS).tolist() if value.is_floating_point() else value.tolist()
        )
    if isinstance(value, float):
        return f"{value:.6g}"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
