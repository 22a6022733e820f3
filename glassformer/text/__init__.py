"""From raw text to batches of ids: tokenizers, parallel text, preparation, batches.

The names below are loaded when first used: a command that only tokenizes does not read how files are parsed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.text.batches import Batch, collate, padding_fraction, plan_batches
    from glassformer.text.corpus import Pair, fingerprint, is_validation, read_pairs
    from glassformer.text.dataset import EncodedPairs, EncodedWriter
    from glassformer.text.derivation import Derivation
    from glassformer.text.lines import open_text, read_lines
    from glassformer.text.prepare import PreparedText
    from glassformer.text.tokenizer import BOS_ID, CONTROL_TOKENS, EOS_ID, PAD_ID, UNK_ID, Tokenizer

_HOMES = {
    "BOS_ID": "tokenizer",
    "CONTROL_TOKENS": "tokenizer",
    "EOS_ID": "tokenizer",
    "PAD_ID": "tokenizer",
    "UNK_ID": "tokenizer",
    "Batch": "batches",
    "Derivation": "derivation",
    "EncodedPairs": "dataset",
    "EncodedWriter": "dataset",
    "Pair": "corpus",
    "PreparedText": "prepare",
    "Tokenizer": "tokenizer",
    "collate": "batches",
    "fingerprint": "corpus",
    "is_validation": "corpus",
    "open_text": "lines",
    "padding_fraction": "batches",
    "plan_batches": "batches",
    "read_lines": "lines",
    "read_pairs": "corpus",
}

__all__ = [
    "BOS_ID",
    "CONTROL_TOKENS",
    "EOS_ID",
    "PAD_ID",
    "UNK_ID",
    "Batch",
    "Derivation",
    "EncodedPairs",
    "EncodedWriter",
    "Pair",
    "PreparedText",
    "Tokenizer",
    "collate",
    "fingerprint",
    "is_validation",
    "open_text",
    "padding_fraction",
    "plan_batches",
    "read_lines",
    "read_pairs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer.text' has no attribute {name!r}")
    return getattr(import_module(f"glassformer.text.{_HOMES[name]}"), name)
