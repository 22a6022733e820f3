"""The same text in its forms: ``tokenised`` words in lower case, ``raw`` as people write, the tokenizer's ``pieces``.

Between the first two stand Moses's rules, by the library ``sacremoses``. Knows nothing of scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from glassformer.text.tokenizer import Tokenizer

INSTALL = "pip install 'glassformer[moses]'"
OTHER = {"tokenised": "raw", "raw": "tokenised"}


class Moses:
    """The rules of one language."""

    def __init__(self, language: str) -> None:
        from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

        self._normalizer = MosesPunctNormalizer(lang=language)
        self._tokenizer = MosesTokenizer(lang=language)
        self._detokenizer = MosesDetokenizer(lang=language)

    def tokenised(self, text: str) -> str:
        """Lower-cased, punctuation normalised, cut into words between single spaces, ``&`` and quotes escaped.

        In this order it gives Multi30k's .lc.norm.tok files from its raw ones.
        """
        return str(self._tokenizer.tokenize(self._normalizer.normalize(text.lower()), return_str=True))

    def raw(self, text: str) -> str:
        """Words joined as they are written, escapes undone. Lower case stays lower case."""
        return str(self._detokenizer.detokenize(text.split()))


def moses_of(language: str) -> Moses | None:
    """The rules of ``language``, or None without the library."""
    return Moses(language) if find_spec("sacremoses") is not None else None


@dataclass(frozen=True)
class Forms:
    """What turns texts in the form ``own``, which a model writes, into the others; without ``moses`` into pieces."""

    own: str
    moses: Moses | None
    tokenizer: Tokenizer

    def of(self, texts: Sequence[str]) -> dict[str, list[str]]:
        """The texts in every form that can be had."""
        forms = {self.own: list(texts), "pieces": self.pieces(texts)}
        return forms if self.moses is None else {**forms, **turned_over(self.own, texts, self.moses)}

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Each text as the tokenizer's pieces, between spaces."""
        return [" ".join(self.tokenizer.to_tokens(ids)) for ids in self.tokenizer.to_ids_batch(texts)]


def turned_over(form: str, texts: Sequence[str], moses: Moses) -> dict[str, list[str]]:
    """Tokenised texts as raw ones, or raw texts tokenised, by the name of their new form."""
    turn = moses.raw if form == "tokenised" else moses.tokenised
    return {OTHER[form]: [turn(text) for text in texts]}
