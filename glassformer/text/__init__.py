"""From raw text to batches of ids: tokenizers, parallel text, preparation, batches.

The names below are loaded when first used: a command that only tokenizes does not read how files are parsed.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import lazy_names

if TYPE_CHECKING:
    from glassformer.text.corpus.batches import (
        Batch as Batch,
        collate as collate,
        padding_fraction as padding_fraction,
        plan_batches as plan_batches,
    )
    from glassformer.text.corpus.corpus import (
        Pair as Pair,
        fingerprint as fingerprint,
        is_validation as is_validation,
        read_pairs as read_pairs,
    )
    from glassformer.text.corpus.dataset import EncodedPairs as EncodedPairs, EncodedWriter as EncodedWriter
    from glassformer.text.tokenizer.derivation import Derivation as Derivation
    from glassformer.text.lines import open_text as open_text, read_lines as read_lines
    from glassformer.text.corpus.prepare import PreparedText as PreparedText
    from glassformer.text.tokenizer.tokenizer import (
        BOS_ID as BOS_ID,
        CONTROL_TOKENS as CONTROL_TOKENS,
        EOS_ID as EOS_ID,
        PAD_ID as PAD_ID,
        UNK_ID as UNK_ID,
        Tokenizer as Tokenizer,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
