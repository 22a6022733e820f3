"""Nothing hidden: every operation that the model carries out belongs to the equation of the step that it leads to.

While a pass is recorded, a dispatch mode writes down each operation of torch's own and the step that comes next.
Each equation is then carried out under the same mode: what it needed must be what the model did, operation by
operation. Operations that only move numbers, and those that look at the ids to refuse bad ones, are set aside.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.explain.equations import Record, Scope, Setting
from glassformer.explain.verify import recompute
from glassformer.model import Transformer
from glassformer.model.inference import evaluating
from glassformer.trace import Step, Trace, tracing

_MOVES = {
    "alias", "arange", "as_strided", "cat", "clone", "contiguous", "copy_", "detach", "empty", "empty_like", "expand",
    "flatten", "index_select", "lift_fresh", "new_empty", "permute", "reshape", "select", "slice", "split", "squeeze",
    "stack", "t", "transpose", "unbind", "unsqueeze", "view", "_reshape_alias", "_to_copy", "_unsafe_view",
}  # fmt: skip
_CHECKS = {"aminmax", "_local_scalar_dense", "equal", "is_nonzero"}


class OperationLog(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own is untyped
    """Counts the operations that compute, under the number of steps that ``trace`` held when each was done."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own is untyped
        self.trace = trace
        self.before: dict[int, Counter[str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry the operation out and count it."""
        name = func.overloadpacket.__name__
        if name not in _MOVES | _CHECKS:
            self.before.setdefault(len(self.trace), Counter())[name] += 1
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Entry:
    """The operations that led to one step: those that the model did, and those that its equation needs."""

    address: str
    done: Counter[str]
    stated: Counter[str]

    @property
    def balances(self) -> bool:
        """Whether they are the same operations, each as often."""
        return self.done == self.stated


@dataclass(frozen=True)
class Ledger:
    """An entry for each recorded step, and what was done after the last: nothing, or it is hidden."""

    entries: tuple[Entry, ...]
    left_over: Counter[str]

    @property
    def operations(self) -> int:
        """How many operations the model carried out."""
        return sum(entry.done.total() for entry in self.entries) + self.left_over.total()

    @property
    def accounted(self) -> int:
        """How many of them the equations state."""
        return sum((entry.done & entry.stated).total() for entry in self.entries)

    @property
    def odd(self) -> tuple[Entry, ...]:
        """The entries that do not balance."""
        return tuple(entry for entry in self.entries if not entry.balances)

    @property
    def balances(self) -> bool:
        """Whether every operation is accounted for, and no equation states one that was not done."""
        return not self.odd and not self.left_over

    def __str__(self) -> str:
        return f"{self.operations:,} operations carried out, {self.accounted:,} stated by the equations of the taps."


def ledger(model: Transformer, src_ids: Int[Tensor, "batch src"], tgt_in_ids: Int[Tensor, "batch tgt"]) -> Ledger:
    """Run one pass with teacher forcing, without what is shown beside the way, and account for every operation."""
    device = next(model.parameters()).device
    src_ids, tgt_in_ids = src_ids.to(device), tgt_in_ids.to(device)
    with torch.no_grad(), evaluating(model), tracing(model, shown=False) as trace, OperationLog(trace) as log:
        model(src_ids, tgt_in_ids)
    given = [Step("text.src_ids", ("batch", "src"), src_ids), Step("text.tgt_in_ids", ("batch", "tgt"), tgt_in_ids)]
    record = Record([*given, *trace], Setting(model))
    entries = []
    for place, step in enumerate(trace):
        with torch.no_grad(), OperationLog(Trace()) as stated:
            recompute(Scope(record, place + len(given)))
        entries.append(Entry(step.address, log.before.get(place, Counter()), stated.before.get(0, Counter())))
    return Ledger(tuple(entries), log.before.get(len(trace), Counter()))
