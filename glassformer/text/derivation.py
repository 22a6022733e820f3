"""How the tokens of a text came to be: its normal form, its pre-tokens, each step that spells them, the ids.

What a ``Derivation`` holds and how it reads; ``spelling`` makes it. Texts are labels, as people read them, and
every part prints as one line. Knows nothing of vocabularies, files or models.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Merge:
    """``bpe``: two neighbours become one. In a pre-token the lowest rank goes first, and of equal ranks the leftmost.

    ``rank`` counts the merges in the order they were learned, from 0. Of the symbols that the pre-token began
    with, ``left`` is made of ``start`` up to ``middle`` and ``right`` of ``middle`` up to ``end``.
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
    """``wordpiece``: ``piece`` is the longest beginning of ``rest`` that is in the vocabulary.

    ``tries`` counts the beginnings looked up, from all of ``rest`` down to ``piece``. After the first match both
    carry ##, the mark of a continued word.
    """

    rest: str
    piece: str
    tries: int

    def __str__(self) -> str:
        return f"{self.rest} → {self.piece} (longest match, at try {self.tries})"


@dataclass(frozen=True)
class Segmentation:
    """``unigram``: a way to cut the pre-token into pieces; the highest sum of log-probabilities wins.

    ``total`` is that sum, ``best`` tells the one that won from the runner-up. Natural logarithms. Characters
    outside of the vocabulary have a log-probability, too, and neighbours among them are one piece.
    """

    pieces: tuple[str, ...]
    log_probs: tuple[float, ...]
    total: float
    best: bool

    def __str__(self) -> str:
        terms = [f"{piece} ({value:.2f})" for piece, value in zip(self.pieces, self.log_probs, strict=True)]
        return f"{' + '.join(terms)} = {self.total:.2f} ({'the best' if self.best else 'the runner-up'})"


@dataclass(frozen=True)
class Lookup:
    """``piece`` is looked up whole and gives ``result``: itself, or <unk>.

    All that ``words`` and ``characters`` do, and how ``wordpiece`` ends with a word that it cannot spell.
    """

    piece: str
    result: str
    reason: str

    def __str__(self) -> str:
        return f"{self.piece} → {self.result} ({self.reason})"


Step = Merge | Match | Segmentation | Lookup


@dataclass(frozen=True)
class PreToken:
    """A part of the text that is spelled on its own.

    ``symbols`` is what it begins as: bytes for ``bpe``, characters for the other kinds.
    """

    text: str
    symbols: tuple[str, ...]
    steps: tuple[Step, ...]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]

    def states(self) -> Iterator[tuple[str, ...]]:
        """The whole pre-token as it begins, then after each merge.

        Made while they are read: those of a long word would together take the square of its length to store.
        """
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
    """The way of one text through a tokenizer.

    ``text`` is the text as it was given, with U+FFFD for a lone surrogate, and ``normalised`` its normal form;
    neither is a label. ``wordpiece`` and ``words`` drop the spacing between pre-tokens.
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
