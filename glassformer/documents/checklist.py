"""What was done with a file, and the list of what to check in it: lost things first, doubts last; counted."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

# Kinds of remarks in the order of the list: how many of them one reads, and what they say. All others are doubts.
KINDS = {
    "left untranslated": re.compile("left as it was"),
    "with something missing, added or in another order": re.compile(
        r".*\b(?:is missing|was added|in another order|that it closes is open)|the order of"
    ),
    "with a code whose place is unclear": re.compile(r".* may stand in a wrong place"),
    "with a term of the glossary or a pair of the memory in question": re.compile(
        "the (?:required )?term|the search found|the model cannot write|the memory"
    ),
}
DOUBTFUL = "doubtful"


@lru_cache(1000)
def _kind(remark: str) -> str:
    return next((kind for kind, pattern in KINDS.items() if pattern.match(remark)), DOUBTFUL)


@dataclass(frozen=True, slots=True)  # a file may have a million
class Remark:
    """What should be looked at in a segment of the file, which begins at ``line``."""

    line: int
    source: str
    text: str
    remark: str

    @property
    def kind(self) -> str:
        """Which of the kinds it is of."""
        return _kind(self.remark)


@dataclass
class DocumentReport:
    """What was done: the segments that were translated, those taken from a memory, and what should be looked at.

    A segment without a flag kept all its placeholders and numbers.
    """

    segments: int = 0
    from_memory: int = 0
    resumed: int = 0
    """The texts that a stopped call had translated before."""
    flagged: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    """Near matches of a memory, and what required terms cost."""

    @property
    def checks(self) -> list[Remark]:
        """What is flagged, the gravest kind first; remarks of one kind stay in their order."""
        order = [*KINDS, DOUBTFUL]
        return sorted(self.flagged, key=lambda one: order.index(one.kind))

    @property
    def is_mostly_doubtful(self) -> bool:
        """Whether more than half of all texts are doubtful and nothing graver: such doubts tell nothing apart."""
        return 2 * self._count_texts()[DOUBTFUL] > self.segments

    def _count_texts(self) -> Counter[str]:
        """How many texts there are of each kind, each counted once, by its gravest."""
        gravest = {(one.line, one.source): one.kind for one in reversed(self.checks)}
        return Counter(gravest.values())

    def summary(self) -> str:
        """How many texts there are to check; empty if there are none."""
        counts = self._count_texts()
        if not counts:
            return ""
        doubtful = counts.pop(DOUBTFUL, 0)
        kinds = [f"{counts[kind]:,} {kind}" for kind in KINDS if counts[kind]]
        if not self.is_mostly_doubtful:
            kinds += [f"{doubtful:,} {DOUBTFUL}"] if doubtful else []
            return _named_above(counts.total() + doubtful, kinds)
        named = _named_above(counts.total(), kinds) + ". " if kinds else ""
        return (
            f"{named}{doubtful:,} of {self.segments:,} are doubtful: this model is not made for such texts; train "
            "one on texts like these"
        )


def _named_above(count: int, kinds: Sequence[str]) -> str:
    these = "one that is" if count == 1 else f"{count:,} that are"
    return f"check the {these} named above: {', '.join(kinds)}"
