"""What each tap is and how it is recomputed: one entry for each, found by address. Imports no renderer."""

from glassformer.settings import ModelConfig
from glassformer.errors import TraceError, check_type, nearest
from glassformer.explain.addresses import kind_of
from glassformer.explain.entries import (  # noqa: F401  # each fills ENTRIES, in this order
    embedding_entries, position_entries, attention_entries, ssru_entries, layer_entries, search_entries,
    rule_entries, candidate_entries, sampling_entries, result_entries, training_entries,
)  # fmt: skip
from glassformer.explain.entries.entry import ENTRIES, Story, TapEntry, Variant
from glassformer.explain.entries.scope import PassContext, Record, Scope

__all__ = [
    "ENTRIES", "PassContext", "Record", "Scope", "Story", "TapEntry", "Variant", "entry_of", "story_of",
]  # fmt: skip


def entry_of(address: str) -> TapEntry:
    """The entry of the tap at an address, by kind of module and name; raises ``TraceError`` where there is none."""
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
    check_type("address", address, str, "the address of a tensor, a str")
    return entry_of(address).story(config)
