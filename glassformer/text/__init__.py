"""From raw text to batches of ids: tokenizers, parallel text, preparation, batches."""

from glassformer.text.batches import Batch, collate, padding_fraction, plan_batches
from glassformer.text.corpus import Pair, fingerprint, is_validation, read_pairs
from glassformer.text.dataset import EncodedPairs, EncodedWriter
from glassformer.text.derivation import Derivation
from glassformer.text.lines import open_text, read_lines
from glassformer.text.prepare import PreparedText, prepare
from glassformer.text.tokenizer import BOS_ID, CONTROL_TOKENS, EOS_ID, PAD_ID, UNK_ID, Tokenizer

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
    "prepare",
    "read_lines",
    "read_pairs",
]
