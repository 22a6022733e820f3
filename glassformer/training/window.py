"""What updates measured, one by one and since the last line of the log."""

import math
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Update:
    """What one update measured: losses in nats per token, over the ``tokens`` target tokens of all processes."""

    loss: float
    nll: float
    tokens: int
    rate: float
    gradient_norm: float


class Window:
    """The updates since the last line of the log: one batch says more of its own sentences than of the model."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._tokens = 0
        self._loss = self._nll = 0.0

    def add(self, update: Update) -> None:
        """One more."""
        self._tokens += update.tokens
        self._loss += update.loss * update.tokens
        self._nll += update.nll * update.tokens

    @property
    def loss(self) -> float:
        """Nats per target token."""
        return self._loss / self._tokens

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-likelihood."""
        return math.exp(min(self._nll / self._tokens, 700.0))

    @property
    def tokens_per_s(self) -> float:
        """Target tokens of all processes."""
        return self._tokens / max(time.monotonic() - self._began, 1e-9)
