"""What each tap is and how it is recomputed: one entry for each, found by address. Imports no renderer."""

from glassformer.settings import ModelConfig
from glassformer.errors import TraceError, nearest
from glassformer.explain.addresses import kind_of
from glassformer.explain.entries.attention import ATTENTION
from glassformer.explain.entries.candidates import CANDIDATES
from glassformer.explain.entries.embedding import EMBEDDING
from glassformer.explain.entries.entry import Check, Entries, Story, TapEntry, Variant
from glassformer.explain.entries.layers import LAYERS
from glassformer.explain.entries.positions import POSITIONS
from glassformer.explain.entries.rules import RULES
from glassformer.explain.entries.sampling import SAMPLING
from glassformer.explain.entries.scope import PassContext, Record, Scope
from glassformer.explain.entries.search import SEARCH
from glassformer.explain.entries.training import TRAINING

__all__ = [
    "ENTRIES", "Check", "PassContext", "Record", "Scope", "Story", "TapEntry", "Variant", "entry_of", "story_of",
]  # fmt: skip

ENTRIES: Entries = {}
for _part in (EMBEDDING, POSITIONS, ATTENTION, LAYERS, SEARCH, RULES, CANDIDATES, SAMPLING, TRAINING):
    for _kind, _entries in _part.items():
        ENTRIES.setdefault(_kind, {}).update(_entries)


def entry_of(address: str) -> TapEntry:
    """The entry of the tap at an address; raises ``TraceError`` where there is none.

    A tap's name is unique in its module, not in the model, so an entry is found by the kind of module and the name.
    """
    kind, name = kind_of(address), address.rpartition(".")[2]
    if kind not in ENTRIES:
        raise TraceError(
            f"{address}: found a module of kind {kind!r}, for which no tap has an entry.{nearest(kind, ENTRIES)}"
        )
    if name not in ENTRIES[kind]:
        raise TraceError(f"{address}: {kind} has no entry for a tap {name!r}.{nearest(name, ENTRIES[kind])}")
    return ENTRIES[kind][name]


def story_of(address: str, config: ModelConfig | None = None) -> Story:
    """What the tensor at ``address`` is; with a ``config``, the equation is the one that this model computes.

    Without one it is the paper's. Raises ``TraceError`` for an address without an entry.
    """
    return entry_of(address).story(config)
