"""How a text becomes ids: normal form, pre-tokens, steps, as readable labels."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Merge:
    """``bpe``: two symbols become one; lowest rank first, then leftmost.

    ``rank``: the merge's place, from 0. ``left``: symbols from ``start`` to ``middle``; ``right``: to ``end``.
    """

    left: str
    right: str
    result: str
    rank: int
    start: int
    middle: int
    end: int

    def __str__(self) -> str:
        return f"{self.left} + {self.right} → {self.result} (merge {self.rank})"


@dataclass(frozen=True)
class Match:
    """``wordpiece``: ``piece`` is the longest known prefix of ``rest``, at try ``tries``.

    After the first match both begin with ##.
    """

    rest: str
    piece: str
    tries: int

    def __str__(self) -> str:
        return f"{self.rest} → {self.piece} (longest match, at try {self.tries})"


@dataclass(frozen=True)
class Segmentation:
    """``unigram``: the ``best`` or second-best split, by ``total`` log-probability."""

    pieces: tuple[str, ...]
    log_probs: tuple[float, ...]
    total: float
    best: bool

    def __str__(self) -> str:
        terms = [f"{piece} ({value:.2f})" for piece, value in zip(self.pieces, self.log_probs, strict=True)]
        return f"{' + '.join(terms)} = {self.total:.2f} ({'the best' if self.best else 'the runner-up'})"


@dataclass(frozen=True)
class Lookup:
    """``piece`` is looked up whole; ``result`` is itself or <unk>."""

    piece: str
    result: str
    reason: str

    def __str__(self) -> str:
        return f"{self.piece} → {self.result} ({self.reason})"


Step = Merge | Match | Segmentation | Lookup


@dataclass(frozen=True)
class PreToken:
    """A part tokenized alone; ``symbols``: bytes (``bpe``) or characters."""

    text: str
    symbols: tuple[str, ...]
    steps: tuple[Step, ...]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]

    def states(self) -> Iterator[tuple[str, ...]]:
        """The symbols after each merge, lazily: of quadratic size."""
        symbols = dict(enumerate(self.symbols))
        yield self.symbols
        for step in self.steps:
            if isinstance(step, Merge):
                symbols[step.start] = step.result
                del symbols[step.middle]
                yield tuple(symbols.values())

    def __str__(self) -> str:
        return f"{self.text} → {' '.join(self.tokens)} {list(self.ids)}"


@dataclass(frozen=True)
class Derivation:
    """How a tokenizer turns a text into ids.

    ``text`` (with U+FFFD for lone surrogates) and ``normalised`` are no labels.
    """

    text: str
    normalised: str
    pre_tokens: tuple[PreToken, ...]

    @property
    def tokens(self) -> list[str]:
        """All tokens' labels."""
        return [token for pre_token in self.pre_tokens for token in pre_token.tokens]

    @property
    def ids(self) -> list[int]:
        """All tokens' ids, as of ``Tokenizer.to_ids``."""
        return [number for pre_token in self.pre_tokens for number in pre_token.ids]
