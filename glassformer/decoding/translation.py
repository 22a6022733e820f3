"""What a translation is: the source as the model read it, and the hypotheses for it, best first."""

from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One output. ``ids`` and ``tokens`` end with eos, unless ``truncated`` says that the limit cut it short."""

    text: str
    tokens: list[str]
    ids: list[int]
    log_prob: float
    """Natural logarithm of the model's probability of ``ids``."""
    score: float
    """``log_prob`` divided by the length penalty; it ranks the hypotheses."""
    truncated: bool
    attention: Float[Tensor, "layers heads tgt src"] | None = field(default=None, compare=False, repr=False)
    """Cross-attention weights, on the CPU: row i is where the decoder looked when it wrote ``tokens[i]``."""

    @property
    def alignment(self) -> Float[Tensor, "tgt src"] | None:
        """The last layer's cross-attention, the mean of its heads; each row sums to 1. None without attention."""
        return None if self.attention is None else self.attention[-1].mean(dim=0)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the attention is there when it was asked for."""
        values = {
            "text": self.text, "tokens": self.tokens, "ids": self.ids, "log_prob": self.log_prob,
            "score": self.score, "truncated": self.truncated,
        }  # fmt: skip
        return values if self.attention is None else {**values, "attention": self.attention.tolist()}


EMPTY = Hypothesis(text="", tokens=[], ids=[], log_prob=0.0, score=0.0, truncated=False)


@dataclass(frozen=True)
class Translation:
    """The outputs for one source; at least one. For a source without anything to translate it is empty."""

    source: str
    source_tokens: list[str]
    """What the model read, eos included; ``attention``'s last axis. Empty when the model was not asked."""
    source_truncated: bool
    """Whether tokens at the end were left out, because the model takes no more."""
    hypotheses: list[Hypothesis]

    @property
    def text(self) -> str:
        """The best hypothesis's text."""
        return self.hypotheses[0].text

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "source": self.source,
            "source_tokens": self.source_tokens,
            "source_truncated": self.source_truncated,
            "hypotheses": [hypothesis.to_mapping() for hypothesis in self.hypotheses],
        }
