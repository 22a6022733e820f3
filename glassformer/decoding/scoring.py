"""The score of a given target."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

from glassformer.settings import DecodeConfig


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
        return cls(text, tokens, log_probs, log_prob, log_prob / options.penalty(len(tokens)), source_truncated)

    @property
    def perplexity(self) -> float:
        """exp(-log_prob / tokens)."""
        return math.exp(min(-self.log_prob / len(self.tokens), 700.0))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "perplexity": self.perplexity}
