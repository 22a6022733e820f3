"""What was done with a file, and the list of what to check in it: lost things first, doubts last; counted."""

import re
from collections import Counter
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

    def summary(self) -> str:
        """How many texts there are to check, each counted once, by its gravest kind; empty if there are none."""
        order, gravest = [*KINDS, DOUBTFUL], dict[tuple[int, str], str]()
        for one in self.flagged:
            place = one.line, one.source
            gravest[place] = min(one.kind, gravest.get(place, DOUBTFUL), key=order.index)
        counts = Counter(gravest.values())
        if not counts:
            return ""
        listed = ", ".join(f"{counts[kind]:,} {kind}" for kind in [*KINDS, DOUBTFUL] if counts[kind])
        these = "one that is" if len(gravest) == 1 else f"{len(gravest):,} that are"
        found = f"check the {these} named above: {listed}"
        if 2 * counts[DOUBTFUL] > self.segments:
            found += (
                ". More than half are doubtful: this model is not made for such texts; train one on texts like these"
            )
        return found
