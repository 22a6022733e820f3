"""What every lesson does with a statement of its source: hold it against a recomputation, print both, count it.

A lesson makes one ``Lesson``, named ``lesson``, and calls ``states`` for what is right, ``slips`` for what is not,
and at its end three times ``exercise``. Each fails with an ``AssertionError`` when the recomputation says otherwise,
so running a lesson tests it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

QUOTATION, CONSEQUENCE = "quotation", "consequence"
_DIGITS, _LONGEST = 4, 60


@dataclass(frozen=True)
class Statement:
    """One thing that a source states. ``where`` is its heading or section there.

    A slip has its reason in ``why``, the source's own ``words``, and its ``kind``: a quotation has the wrong value in
    these words, a consequence would follow from them.
    """

    source: str
    where: str
    claim: str
    stated: str
    computed: str
    why: str = ""
    words: str = ""
    kind: str = ""

    @property
    def is_slip(self) -> bool:
        return bool(self.why)


@dataclass(frozen=True)
class Exercise:
    """A question at the end of a lesson, with the answer that the lesson has computed."""

    question: str
    answer: str


class Lesson:
    """The statements of one source, such as ``Lesson("000", "Shaped Transformer")``, in the order of the lesson."""

    def __init__(self, source: str, title: str) -> None:
        self.source, self.title = source, title
        self.statements: list[Statement] = []
        self.exercises: list[Exercise] = []

    def states(self, where: str, claim: str, stated: Any, computed: Any, *, within: float = 0.0) -> None:
        """The source is right: ``computed`` equals ``stated``, numbers to ``within`` (absolute)."""
        assert agree(stated, computed, within), f"{where}: {claim}: stated {stated}, computed {computed}"
        self._add(Statement(self.source, where, claim, short(stated), short(computed)))

    def slips(
        self, where: str, claim: str, stated: Any, computed: Any, *,
        words: str, why: str, kind: str = QUOTATION, within: float = 0.0,
    ) -> None:  # fmt: skip
        """The source slips: ``computed`` is right, ``stated`` is not; ``why`` says it in one sentence.

        ``words`` are the source's own. With ``kind`` ``consequence``, ``stated`` is what would follow from them.
        """
        assert not agree(stated, computed, within), f"{where}: {claim}: {stated} is right after all"
        assert all((why, words)), f"{where}: {claim}: a slip needs its reason and the words of its source"
        assert kind in (QUOTATION, CONSEQUENCE), f"{where}: {claim}: {kind} is no kind of slip"
        self._add(Statement(self.source, where, claim, short(stated), short(computed), why, words, kind))

    def exercise(self, question: str, answer: Any, computed: Any, *, within: float = 0.0) -> None:
        """A question for the reader, whose ``answer`` agrees with what is ``computed`` here."""
        assert agree(answer, computed, within), f"{question}: answered {answer}, computed {computed}"
        self.exercises.append(Exercise(question, short(answer)))
        print(f"{len(self.exercises)}. {question}\n   {short(answer)}")

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
            print(f"  {statement.kind}: “{statement.words}”\n  {statement.why}")


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
