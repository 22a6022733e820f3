"""The score of a given target."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from glassformer.decoding.batching import check_pairs, check_texts, plan_decoding, read_sources
from glassformer.decoding.engines.engine import Engine
from glassformer.decoding.sentences import read_source_sentences
from glassformer.settings import DecodeConfig
from glassformer.text.tokenizer.tokenizer import Tokenizers


@dataclass(frozen=True)
class Scored:
    """A given target with its log-probabilities; ``tokens`` end with eos."""

    text: str
    tokens: list[str]
    token_log_probs: list[float]
    """Natural log-probability of each token, given source and earlier tokens."""
    log_prob: float
    """Their sum."""
    score: float
    """``log_prob`` over the length penalty."""
    source_truncated: bool
    """Whether the end of the source was cut, being too long."""

    @property
    def perplexity(self) -> float:
        """exp(-log_prob / tokens)."""
        return math.exp(min(-self.log_prob / len(self.tokens), 700.0))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "perplexity": self.perplexity}


def score_pairs(
    sources: Sequence[str],
    targets: Sequence[str],
    engine: Engine,
    tokenizers: Tokenizers,
    options: DecodeConfig,
    *,
    start: int,
) -> list[Scored]:
    """Each target's log-probabilities; ``start`` is the first pair's number.

    ``InputError`` unless each source has a target that fits the model.
    """
    check_texts("sources", sources)
    as_typed = replace(options, keep_codes=False)  # targets have the codes
    read = [" ".join(read_source_sentences(text, as_typed)) for text in sources]
    src = read_sources(read, tokenizers[0], engine.config)
    tgt = read_sources(targets, tokenizers[1], engine.config, "targets")
    check_pairs(src, tgt, engine.config, start)
    lengths = [max(len(source.ids), len(target.ids)) for source, target in zip(src, tgt, strict=True)]
    found: dict[int, Scored] = {}
    for batch in plan_decoding(lengths, range(len(src)), 1, options.batch_tokens):
        src_ids, tgt_ids = ([side[number].ids for number in batch] for side in (src, tgt))
        for number, log_probs in zip(batch, engine.score(src_ids, tgt_ids), strict=True):
            text, tokens = tgt[number].text, tokenizers[1].to_tokens(tgt[number].ids)
            log_prob = math.fsum(log_probs)
            score = options.score(log_prob, len(tokens))
            found[number] = Scored(text, tokens, log_probs, log_prob, score, src[number].truncated)
    return [found[number] for number in range(len(src))]
