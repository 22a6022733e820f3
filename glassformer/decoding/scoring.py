"""What a model thinks of a text that is already there. Knows nothing of how it is computed."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from glassformer.decoding.candidates import length_penalty


@dataclass(frozen=True)
class Scored:
    """A target as it was scored; ``tokens`` end with eos."""

    text: str
    tokens: list[str]
    token_log_probs: list[float]
    """Natural logarithm of the probability of each token, given the source and those before it."""
    log_prob: float
    """Their sum: that of the whole target."""
    score: float
    """``log_prob`` divided by the length penalty, as hypotheses of a search are scored."""
    source_truncated: bool = False
    """Whether tokens at the end of the source were left out, because the model takes no more."""

    @classmethod
    def of(
        cls,
        text: str,
        tokens: Sequence[str],
        token_log_probs: Sequence[float],
        alpha: float,
        *,
        source_truncated: bool = False,
    ) -> Self:
        """From the log-probabilities of the tokens; ``alpha`` is that of the length penalty."""
        log_prob = math.fsum(token_log_probs)
        score = log_prob / length_penalty(len(tokens), alpha)
        return cls(text, list(tokens), list(token_log_probs), log_prob, score, source_truncated)

    @property
    def perplexity(self) -> float:
        """exp(-log_prob / tokens): as unsure as among so many equally probable tokens."""
        return math.exp(min(-self.log_prob / len(self.tokens), 700.0))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "perplexity": self.perplexity}
