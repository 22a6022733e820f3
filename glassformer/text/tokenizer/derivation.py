"""How a text becomes ids, as ``Tokenizer.derive`` returns it: its normal form, its pre-tokens, and each step.

All texts in it are readable labels, and ``str`` gives one line for each part.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Merge:
    """``bpe``: two neighbouring symbols become one; the lowest rank first, and of equal ranks the leftmost.

    ``rank`` is the merge's place, from 0, in the order in which merges were learned. ``left`` is made of the
    pre-token's symbols from ``start`` up to ``middle``, ``right`` of those from ``middle`` up to ``end``.
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
    """``wordpiece``: ``piece`` is the longest prefix of ``rest`` that is in the vocabulary, found at try ``tries``.

    After the first match both begin with ##, the mark of a continued word.
    """

    rest: str
    piece: str
    tries: int

    def __str__(self) -> str:
        return f"{self.rest} → {self.piece} (longest match, at try {self.tries})"


@dataclass(frozen=True)
class Segmentation:
    """``unigram``: the ``best`` segmentation of the pre-token or the second best, by ``total`` log-probability."""

    pieces: tuple[str, ...]
    log_probs: tuple[float, ...]
    total: float
    best: bool

    def __str__(self) -> str:
        terms = [f"{piece} ({value:.2f})" for piece, value in zip(self.pieces, self.log_probs, strict=True)]
        return f"{' + '.join(terms)} = {self.total:.2f} ({'the best' if self.best else 'the runner-up'})"


@dataclass(frozen=True)
class Lookup:
    """``piece`` is looked up whole; ``result`` is itself or <unk>, as for an unknown word of ``wordpiece``."""

    piece: str
    result: str
    reason: str

    def __str__(self) -> str:
        return f"{self.piece} → {self.result} ({self.reason})"


Step = Merge | Match | Segmentation | Lookup


@dataclass(frozen=True)
class PreToken:
    """A part of the text that is tokenized alone; its first ``symbols`` are bytes (``bpe``) or characters."""

    text: str
    symbols: tuple[str, ...]
    steps: tuple[Step, ...]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]

    def states(self) -> Iterator[tuple[str, ...]]:
        """The symbols at first and after each merge, lazily: together they take the square of the word's length."""
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
    """How a tokenizer turns one text into ids.

    ``text`` is the given one, with U+FFFD for a lone surrogate, ``normalised`` its normal form; they are no labels.
    """

    text: str
    normalised: str
    pre_tokens: tuple[PreToken, ...]

    @property
    def tokens(self) -> list[str]:
        """The labels of all tokens, in order."""
        return [token for pre_token in self.pre_tokens for token in pre_token.tokens]

    @property
    def ids(self) -> list[int]:
        """The ids of all tokens, in order: those of ``Tokenizer.to_ids``."""
        return [number for pre_token in self.pre_tokens for number in pre_token.ids]
