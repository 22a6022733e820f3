"""The list of what to check in a translated file: what lost something first, what is only doubtful last; counted."""

import re
from collections import Counter
from collections.abc import Sequence

from glassformer.documents.translate_file import Remark

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


def kind_of(remark: Remark) -> str:
    """Which of the kinds a remark is of."""
    return next((kind for kind, pattern in KINDS.items() if pattern.match(remark.remark)), DOUBTFUL)


def sort_remarks(remarks: Sequence[Remark]) -> list[Remark]:
    """The remarks by kind, those of one kind as they were."""
    order = [*KINDS, DOUBTFUL]
    return sorted(remarks, key=lambda one: order.index(kind_of(one)))


def summary(remarks: Sequence[Remark], segments: int) -> str:
    """How many texts there are to check, each counted once, by its gravest kind; empty if there are none."""
    gravest: dict[tuple[int, str], str] = {}
    for remark in sort_remarks(remarks):
        gravest.setdefault((remark.line, remark.source), kind_of(remark))
    counts = Counter(gravest.values())
    if not counts:
        return ""
    listed = ", ".join(f"{counts[kind]:,} {kind}" for kind in [*KINDS, DOUBTFUL] if counts[kind])
    these = "one that is" if len(gravest) == 1 else f"{len(gravest):,} that are"
    found = f"check the {these} named above: {listed}"
    if 2 * counts[DOUBTFUL] > segments:
        found += ". More than half are doubtful: this model is not made for such texts; train one on texts like these"
    return found
