"""Translators of made-up words, whose attention is exact: what becomes of codes is then known."""

import random
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch

from glassformer.decoding.sentence_translator import SentenceTranslator
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.decoding.translator import Translator
from glassformer.settings import DecodeConfig, ModelConfig

_LATIN = "0-9A-Z_a-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af"
# A word, or a sign, with the white space before it; letters of Latin and others are not in one word.
_PIECE = re.compile(rf"\s*(?:[{_LATIN}]+|\w+?(?=[{_LATIN}]|\W|\Z)|[^\w\s])")


class Words:
    """A tokenizer of words with the white space before them."""

    kind = "bpe"

    def __init__(self) -> None:
        self.known: list[str] = []

    def entries(self) -> list[str]:
        """The words so far."""
        return self.known

    def pieces(self, text: str) -> list[str]:
        """The words and the signs, each with the white space before it."""
        return _PIECE.findall(text)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where they are."""
        return [match.span() for match in _PIECE.finditer(text)]

    def to_text(self, ids: Iterable[int]) -> str:
        """The text of words that were added."""
        return "".join(self.known[number] for number in ids)

    def ends(self, ids: Iterable[int]) -> list[int]:
        """Where each of them ends in that text."""
        return list(accumulate(len(self.known[number]) for number in ids))

    def add(self, pieces: Iterable[str]) -> list[int]:
        """The ids of words that a translation has."""
        start = len(self.known)
        self.known += pieces
        return list(range(start, len(self.known)))


class Permuting(Translator):
    """A translator that writes the words of a text in another order, with exact attention; each begins with ``mark``.

    Signs stay where they are; ``seed`` None keeps the order. Only the model is another: a text passes all steps but
    those of its style.
    """

    def __init__(self, seed: int | None, mark: str = "") -> None:
        self._random, self._seed, self._mark = random.Random(seed), seed, mark
        self._set_up(_NoEngine(), (Words(), Words()), DecodeConfig(match_style=False), None, None)  # type: ignore[arg-type]
        self._sentences = _Sentences(self)

    def _order(self, words: list[int]) -> list[int]:
        """The words of a text in the order of its translation."""
        return words if self._seed is None else self._random.sample(words, len(words))

    def _translate(self, text: str) -> Translation:
        pieces = self.src_tokenizer.pieces(text)
        words = [number for number, piece in enumerate(pieces) if piece.strip().isalnum()]
        order = list(range(len(pieces)))
        for place, number in zip(words, self._order(words), strict=True):
            order[place] = number
        written = []
        for place, number in enumerate(order):
            space = pieces[place][: len(pieces[place]) - len(pieces[place].lstrip())]
            is_word = number in words and not pieces[number].strip().isdecimal()
            written.append(space + (self._mark if is_word else "") + pieces[number].strip())
        weights = torch.zeros(1, 1, len(order), len(pieces))
        for target, source in enumerate(order):
            weights[0, 0, target, source] = 1
        ids = self.tgt_tokenizer.add(written)
        best = Hypothesis("".join(written), written, ids, 0.0, 0.0, False, weights if order else None)
        return Translation(text, pieces, False, [best])


class _NoEngine:
    config, name = ModelConfig.tiny(), "none"


class _Sentences(SentenceTranslator):
    """Asks a translator of words in the place of an engine; always with attention."""

    def __init__(self, words: Permuting) -> None:
        super().__init__(words._sentences.engine, (words.src_tokenizer, words.tgt_tokenizer), None)
        self._words = words

    def _inputs(self, texts: Sequence[tuple[int | None, str]], sentences: object) -> list[str]:  # type: ignore[override]
        return [text for _, text in texts]

    def _search(self, inputs: Sequence[str], *_: object, **__: object) -> list[Translation]:  # type: ignore[override]
        return [self._words._translate(text) for text in inputs]


class Ordinary(Permuting):
    """Keeps the order of two texts of three; in the third, one word goes up to three places further, as verbs do."""

    def _order(self, words: list[int]) -> list[int]:
        order = list(words)
        if len(order) > 1 and self._random.random() < 1 / 3:
            start = self._random.randrange(len(order))
            order.insert(start + self._random.randint(1, 3), order.pop(start))
        return order
