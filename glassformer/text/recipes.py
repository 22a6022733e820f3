"""How each kind of tokenizer is put together and trained, with the Hugging Face ``tokenizers`` library.

Every recipe is a normalizer, a splitter, a model and a decoder, and all of them are stored in the one JSON
file that the library writes, so any program that reads such files gives the same ids. Knows nothing of files,
pairs or configuration.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer as Library
from tokenizers import decoders as library_decoders
from tokenizers import models, normalizers, pre_tokenizers, trainers

from glassformer.errors import TokenizerError, nearest
from glassformer.text.characters import is_blank, without_surrogates

CONTROL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
UNKNOWN = CONTROL_TOKENS[3]

# BPE training rescans a whole word at each merge, so one word of 100,000 characters would take longer than all
# other text together. Nothing is learned from a word that long: training reads such text in pieces.
LONGEST_PIECE = 1000


def _bpe() -> Library:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = library_decoders.ByteLevel()
    return library


def _wordpiece() -> Library:
    library = Library(models.WordPiece(vocab={}, unk_token=UNKNOWN, max_input_chars_per_word=100))
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = library_decoders.WordPiece()
    return library


def _unigram() -> Library:
    library = Library(models.Unigram())
    # Without the second split a user's "</s>" would be looked up whole, and found: it is an entry.
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Split("<", "isolated")]
    )
    library.decoder = library_decoders.Metaspace(prepend_scheme="never")
    return library


def _words() -> Library:
    # Runs of letters, digits and _, and runs of punctuation: as these never share a word, no word is spelled
    # like a control token.
    library = Library(models.WordLevel(vocab={}, unk_token=UNKNOWN))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    return library


def _characters() -> Library:
    library = Library(models.WordLevel(vocab={}, unk_token=UNKNOWN))
    library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    library.decoder = library_decoders.Fuse()
    return library


_BLANKS: dict[str, Callable[[], Library]] = {
    "bpe": _bpe, "wordpiece": _wordpiece, "unigram": _unigram, "words": _words, "characters": _characters,
}  # fmt: skip
KINDS = tuple(_BLANKS)


def train_library(kind: str, texts: Iterable[str], vocab_size: int, lowercase: bool) -> Library:
    """A trained tokenizer of the library, with the control tokens as ids 0 to 3.

    The same texts give the same ``bpe``, ``words`` and ``characters``; the library's trainers of ``wordpiece``
    and ``unigram`` may settle ties differently from run to run. Raises ``TokenizerError`` for an unknown kind,
    text without a single word, or a vocabulary too small for the kind.
    """
    if kind not in _BLANKS:
        raise TokenizerError(f"tokenizer: found {kind!r},{nearest(kind, KINDS)} expected one of {', '.join(KINDS)}.")
    smallest = len(CONTROL_TOKENS) + (256 if kind == "bpe" else 1)
    if vocab_size < smallest:
        raise _too_small(kind, vocab_size, f"at least {smallest}")
    library = _BLANKS[kind]()
    lower = [normalizers.Lowercase()] if lowercase else []
    library.normalizer = normalizers.Sequence([*lower, normalizers.NFC()])
    pieces = _Pieces(texts)
    _train(library, pieces, _trainer(kind, vocab_size), kind, vocab_size)
    if not pieces.any_word:
        raise TokenizerError("The text to train a tokenizer on is empty; expected at least one word: give more text.")
    if library.get_vocab_size() > vocab_size:
        raise _too_small(kind, vocab_size, f"at least {library.get_vocab_size()} to hold this text's characters")
    return library


def _train(library: Library, pieces: Iterable[str], trainer: Any, kind: str, vocab_size: int) -> None:
    try:
        library.train_from_iterator(pieces, trainer=trainer)
    except Exception as error:  # the library raises bare Exceptions
        if "not large enough" in str(error):
            raise _too_small(kind, vocab_size, "enough to hold this text's characters") from error
        raise


def _too_small(kind: str, found: int, expected: str) -> TokenizerError:
    return TokenizerError(
        f"text.vocab_size: found {found}, expected {expected}, for a {kind} tokenizer. Raise text.vocab_size."
    )


def _trainer(kind: str, vocab_size: int) -> Any:
    shared: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": list(CONTROL_TOKENS),
        "show_progress": False,
    }
    if kind == "bpe":
        return trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **shared)
    if kind == "wordpiece":
        return trainers.WordPieceTrainer(**shared)
    if kind == "unigram":
        return trainers.UnigramTrainer(unk_token=UNKNOWN, **shared)
    return trainers.WordLevelTrainer(**shared)


class _Pieces:
    """Texts cut to ``LONGEST_PIECE`` characters; remembers whether any held more than blanks."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.any_word = False
        self._texts = texts

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            whole = without_surrogates(text)
            self.any_word = self.any_word or not is_blank(whole)
            for start in range(0, len(whole), LONGEST_PIECE):
                yield whole[start : start + LONGEST_PIECE]
