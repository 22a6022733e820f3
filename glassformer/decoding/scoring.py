"""The score of a given target."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

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
    """Natural logarithm of the probability of each token, given the source and the tokens before it."""
    log_prob: float
    """Their sum."""
    score: float
    """``log_prob`` divided by the length penalty, like the score of a hypothesis."""
    source_truncated: bool
    """Whether tokens at the end of the source were cut off, because the model takes no more."""

    @classmethod
    def from_tokens(
        cls, text: str, tokens: list[str], log_probs: list[float], options: DecodeConfig, *, source_truncated: bool
    ) -> Self:
        """From the tokens' log-probabilities; the options have the length penalty."""
        log_prob = math.fsum(log_probs)
        return cls(text, tokens, log_probs, log_prob, options.score(log_prob, len(tokens)), source_truncated)

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
    """Each target with its log-probabilities, given its source; ``start`` is the number of the first pair.

    Raises ``InputError`` unless there is one target for each source, none longer than the model takes.
    """
    check_texts("sources", sources)
    as_typed = replace(options, keep_codes=False)  # their targets have the codes
    read = [" ".join(read_source_sentences(text, as_typed)) for text in sources]
    src = read_sources(read, tokenizers[0], engine.config)
    tgt = read_sources(targets, tokenizers[1], engine.config, "targets")
    check_pairs(src, tgt, engine.config, start)
    lengths = [max(len(source.ids), len(target.ids)) for source, target in zip(src, tgt, strict=True)]
    log_probs: list[list[float]] = [[] for _ in src]
    for batch in plan_decoding(lengths, range(len(src)), 1, options.batch_tokens):
        src_ids, tgt_ids = ([side[number].ids for number in batch] for side in (src, tgt))
        for number, token_log_probs in zip(batch, engine.score(src_ids, tgt_ids), strict=True):
            log_probs[number] = token_log_probs
    tokens = [tokenizers[1].to_tokens(target.ids) for target in tgt]
    return [
        Scored.from_tokens(target.text, labels, of_tokens, options, source_truncated=source.truncated)
        for source, target, labels, of_tokens in zip(src, tgt, tokens, log_probs, strict=True)
    ]
