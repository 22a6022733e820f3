"""The whole proof of a walk, as `glassformer trace --verify` reports it: each step recomputed, nothing hidden."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from glassformer.explain.ledger import Ledger, ledger
from glassformer.explain.story import kind_of
from glassformer.explain.verify import Checked, Verification, verify_walk
from glassformer.explain.walk import Walk
from glassformer.model import Transformer

_MOST = 5


@dataclass(frozen=True)
class Proof:
    """A verification of every step; and for a forced walk, the ledger of the model's operations."""

    verification: Verification
    ledger: Ledger | None

    @property
    def holds(self) -> bool:
        """Whether every step follows, and no operation is hidden."""
        return self.verification.holds and (self.ledger is None or self.ledger.balances)

    def lines(self) -> Iterator[str]:
        """The report: by kind of module, then in all, then whatever does not follow."""
        yield from _by_kind(self.verification.steps)
        yield str(self.verification)
        for step in self.verification.off[:_MOST]:
            yield f"does not follow: {step.address}, call {step.call}: off by {step.error:.3g} at {step.cell}"
        if self.ledger is not None:
            yield str(self.ledger)
            for entry in self.ledger.odd[:_MOST]:
                yield f"does not balance: {entry.address}: done {dict(entry.done)}, stated {dict(entry.stated)}"
        yield "Everything follows." if self.holds else "Not everything follows."


def prove(walk: Walk, model: Transformer) -> Proof:
    """Verify a whole walk that was made with ``model``."""
    batch = walk.sentences.batch
    forced = walk.kind == "forced"
    return Proof(verify_walk(walk, model), ledger(model, batch.src_ids, batch.tgt_in_ids) if forced else None)


def _by_kind(steps: tuple[Checked, ...]) -> Iterator[str]:
    """One line for each kind of module: steps recomputed, exact among them, largest error."""
    kinds = list(dict.fromkeys(kind_of(step.address) for step in steps))
    width = max(map(len, kinds), default=0)
    yield f"{'':{width}}  recomputed  exact  off  largest error"
    for kind in kinds:
        own = [step for step in steps if kind_of(step.address) == kind]
        count = Counter(step.kind for step in own)
        error = max(step.error for step in own)
        done = len(own) - count["given"]
        if done:
            yield f"{kind:{width}}  {done:10,}  {count['exact']:5,}  {count['off']:3}  {error:.1e}"
