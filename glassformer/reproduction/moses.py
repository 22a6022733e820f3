"""From text as people write it to the lower-cased words of Moses's rules, and back, by the library ``sacremoses``.

Knows nothing of scores.
"""

from importlib.util import find_spec

INSTALL = "pip install 'glassformer[moses]'"


def has_moses() -> bool:
    """Whether the library is installed; it comes with the extra ``moses``."""
    return find_spec("sacremoses") is not None


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

    def detokenised(self, text: str) -> str:
        """Words joined as they are written, escapes undone. Lower case stays lower case."""
        return str(self._detokenizer.detokenize(text.split()))
