"""The seven kinds of tokenizer: how each is trained, and how each turns a text into tokens, one step at a time.

The ``tokenizers`` library trains and gives the ids. Computed here are the steps of a model: byte-pair merges
(Sennrich et al. 2016), WordPiece's longest match (Wu et al. 2016), a unigram model's best cut (Kudo 2018).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Library
from tokenizers import decoders as library_decoders

from glassformer.errors import TokenizerError, nearest
from glassformer.text.lines import is_blank, without_surrogates
from glassformer.text.tokenizer.derivation import Lookup, Match, Merge, Segmentation, Step

CONTROL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
# What begins a control token in a text: a tokenizer that cuts there never finds one whole.
TYPED_CONTROL = "<(?=" + "|".join(token[1:] for token in CONTROL_TOKENS) + ")"
UNK_ID = 3
UNKNOWN = CONTROL_TOKENS[UNK_ID]

# BPE training scans a whole word at each merge, so one word of 100,000 characters would take longer than all other
# text. Nothing is learned from a word that long: training reads the text in pieces of this many characters.
LONGEST_PIECE = 1000

# The log-probability of an unknown character is this much below that of the worst entry of a unigram vocabulary: the
# library's constant, from SentencePiece.
UNKNOWN_PENALTY = 10.0

Show = Callable[[str], str]
"""Gives the readable label of an entry of the vocabulary."""


def _byte_values() -> dict[str, int]:
    """The alphabet of byte-level BPE: the byte that each character stands for (Radford et al. 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {chr(256 + rank): value for rank, value in enumerate(others)}


BYTE_VALUES = _byte_values()


# Words as GPT-2 cuts them (Radford et al. 2019), but that the combining marks and the joiners of a word stay in it.
BYTE_WORDS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}[\p{L}\p{M}\u200c\u200d]*| ?\p{N}[\p{N}\p{M}]*"
    r"|(?: |\s(?=\p{M}))?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
CUT_AT_MARKS = pre_tokenizers.ByteLevel(add_prefix_space=False)
"""How BPE of earlier runs cuts words: at each mark."""
# A symbol in parentheses, with the space before it, or any character.
MARKED_SYMBOL = r" ?\([^() ]+\)"
CHARACTERS = pre_tokenizers.Split("", "isolated")
MARKED_CHARACTERS = pre_tokenizers.Split(Regex(rf"{MARKED_SYMBOL}|[\s\S]"), "isolated")
"""Characters, but that a marked symbol, such as (PL), stays whole."""


class _Kind(NamedTuple):
    """The parts of a tokenizer; ``trainer`` makes one that is given the size of the vocabulary."""

    model: Callable[..., Any]
    pre_tokenizer: Any
    decoder: Any
    trainer: Callable[..., Any]


_KINDS: dict[str, _Kind] = {
    "bpe": _Kind(
        models.BPE,
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(BYTE_WORDS), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
        library_decoders.ByteLevel(),
        partial(trainers.BpeTrainer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
    ),
    "wordpiece": _Kind(
        partial(models.WordPiece, vocab={}, unk_token=UNKNOWN, max_input_chars_per_word=100),
        pre_tokenizers.BertPreTokenizer(),
        library_decoders.WordPiece(),
        trainers.WordPieceTrainer,
    ),
    "unigram": _Kind(
        models.Unigram,
        # Without the second split, "</s>" in a user's text would be found whole: it is an entry.
        pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Split("<", "isolated")]
        ),
        library_decoders.Metaspace(prepend_scheme="never"),
        partial(trainers.UnigramTrainer, unk_token=UNKNOWN),
    ),
    "words": _Kind(
        partial(models.WordLevel, vocab={}, unk_token=UNKNOWN),
        # A word is letters, digits and _, or punctuation, never both: so no word is the same as a control token.
        pre_tokenizers.Whitespace(),
        None,
        trainers.WordLevelTrainer,
    ),
    "whitespace": _Kind(
        partial(models.WordLevel, vocab={}, unk_token=UNKNOWN),
        pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(TYPED_CONTROL), "isolated")]
        ),
        None,
        trainers.WordLevelTrainer,
    ),
    "symbols": _Kind(
        partial(models.WordLevel, vocab={}, unk_token=UNKNOWN),
        pre_tokenizers.Sequence(
            [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Split(Regex(TYPED_CONTROL), "isolated")]
        ),
        None,
        trainers.WordLevelTrainer,
    ),
    "characters": _Kind(
        partial(models.WordLevel, vocab={}, unk_token=UNKNOWN),
        CHARACTERS,
        library_decoders.Fuse(),
        trainers.WordLevelTrainer,
    ),
}
KINDS = tuple(_KINDS)


def new_library(
    kind: str, lowercase: bool, *, marked: bool = False, decompose: bool = False, **contents: Any
) -> Library:
    """A tokenizer of the library with the ``contents`` of its model, or one that has not been trained yet."""
    parts = _KINDS[kind]
    library = Library(parts.model(**contents))
    library.pre_tokenizer, library.decoder = parts.pre_tokenizer, parts.decoder
    if marked and kind == "characters":
        library.pre_tokenizer = MARKED_CHARACTERS
    lower = [normalizers.Lowercase()] if lowercase else []
    form = normalizers.NFD() if decompose and kind == "characters" else normalizers.NFC()
    library.normalizer = normalizers.Sequence([*lower, form])
    return library


def train_library(
    kind: str,
    texts: Iterable[str],
    vocab_size: int,
    lowercase: bool,
    *,
    marked: bool = False,
    decompose: bool = False,
) -> Library:
    """A trained tokenizer of the library, with the control tokens as ids 0 to 3; raises ``TokenizerError``.

    Of equal pieces ``wordpiece`` and ``unigram`` may choose another one in another run.
    """
    if kind not in _KINDS:
        raise TokenizerError(f"tokenizer: found {kind!r},{nearest(kind, KINDS)} expected one of {', '.join(KINDS)}.")
    smallest = len(CONTROL_TOKENS) + (256 if kind == "bpe" else 1)
    if vocab_size < smallest:
        raise _too_small(kind, vocab_size, f"at least {smallest}")
    library = new_library(kind, lowercase, marked=marked, decompose=decompose)
    trainer = _KINDS[kind].trainer(vocab_size=vocab_size, special_tokens=list(CONTROL_TOKENS), show_progress=False)
    pieces = _Pieces(texts)
    try:
        library.train_from_iterator(pieces, trainer=trainer)
    except Exception as error:  # the library raises bare Exceptions
        if "not large enough" in str(error):
            raise _too_small(kind, vocab_size, "enough to hold this text's characters") from error
        raise
    if not pieces.any_word:
        raise TokenizerError("The text to train a tokenizer on is empty; expected at least one word: give more text.")
    if library.get_vocab_size() > vocab_size:
        raise _too_small(kind, vocab_size, f"at least {library.get_vocab_size()} to hold this text's characters")
    return library


def _too_small(kind: str, found: int, expected: str) -> TokenizerError:
    return TokenizerError(
        f"text.vocab_size: found {found}, expected {expected}, for a {kind} tokenizer. Raise text.vocab_size."
    )


class _Pieces:
    """Texts in pieces of ``LONGEST_PIECE`` characters; records whether any text was not blank."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.any_word = False
        self._texts = texts

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            whole = without_surrogates(text)
            self.any_word = self.any_word or not is_blank(whole)
            for start in range(0, len(whole), LONGEST_PIECE):
                yield whole[start : start + LONGEST_PIECE]


class _Tokens(NamedTuple):
    steps: tuple[Step, ...]
    tokens: tuple[str, ...]  # entries of the vocabulary, not labels


class _Bpe:
    def __init__(self, model: dict[str, Any], show: Show) -> None:
        self._show = show
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(model["merges"])}

    def tokenize(self, word: str) -> _Tokens:
        symbols = dict(enumerate(word))
        steps = tuple(self._merges(symbols))
        return _Tokens(steps, tuple(symbols.values()))

    def _merges(self, symbols: dict[int, str]) -> Iterator[Merge]:
        """Merge ``symbols``, a dict by the position where each starts, until no two neighbours have a rank."""
        ends = {start: start + 1 for start in symbols}
        before = {end: start for start, end in ends.items()}
        queue = [(self._ranks[pair], at) for at, pair in enumerate(pairwise(symbols.values())) if pair in self._ranks]
        heapify(queue)
        while queue:
            rank, start = heappop(queue)
            middle = ends.get(start, -1)
            left, right = symbols.get(start, ""), symbols.get(middle, "")
            if self._ranks.get((left, right)) != rank:
                continue  # one of the two is now a part of a longer symbol
            end = ends.pop(middle)
            symbols[start], ends[start], before[end] = left + right, end, start
            del symbols[middle]
            yield Merge(self._show(left), self._show(right), self._show(left + right), rank, start, middle, end)
            for at in (before.get(start, -1), start):
                pair = symbols.get(at, ""), symbols.get(ends.get(at, -1), "")
                if pair in self._ranks:
                    heappush(queue, (self._ranks[pair], at))


class _WordPiece:
    def __init__(self, model: dict[str, Any], show: Show) -> None:
        self._show = show
        self._vocab = frozenset(model["vocab"])
        self._mark = model["continuing_subword_prefix"]
        self._max_characters = model["max_input_chars_per_word"]

    def tokenize(self, word: str) -> _Tokens:
        if len(word) > self._max_characters:
            return self._unknown([], word, f"{len(word)} characters, more than {self._max_characters}")
        steps: list[Step] = []
        pieces: list[str] = []
        start = 0
        while start < len(word):
            mark = self._mark if start else ""
            rest = mark + word[start:]
            size = next((size for size in range(len(rest), len(mark), -1) if rest[:size] in self._vocab), None)
            if size is None:
                return self._unknown(steps, rest, "no prefix is in the vocabulary, so the whole word is unknown")
            steps.append(Match(self._show(rest), self._show(rest[:size]), len(rest) - size + 1))
            pieces.append(rest[:size])
            start += size - len(mark)
        return _Tokens(tuple(steps), tuple(pieces))

    def _unknown(self, steps: list[Step], rest: str, reason: str) -> _Tokens:
        return _Tokens((*steps, Lookup(self._show(rest), UNKNOWN, reason)), (UNKNOWN,))


class _Path(NamedTuple):
    """One of the two best segmentations of a word up to some position, as its last piece and what comes before it."""

    total: float
    start: int  # of the last piece
    rank: int  # of the segmentation up to ``start`` that it extends: 0 the best, 1 the second best
    log_prob: float  # of the last piece


class _Unigram:
    def __init__(self, model: dict[str, Any], show: Show) -> None:
        self._show = show
        self._scores: dict[str, float] = dict(model["vocab"])
        self._longest = max(map(len, self._scores))
        self._unknown_score = min(score for _, score in model["vocab"]) - UNKNOWN_PENALTY

    def tokenize(self, word: str) -> _Tokens:
        paths = self._two_best(word)
        cuts = [list(self._join_unknown(_pieces(word, paths, rank))) for rank in range(len(paths[-1]))]
        steps = tuple(
            Segmentation(
                tuple(self._show(piece) for piece, _ in cut),
                tuple(score for _, score in cut),
                total=path.total,
                best=rank == 0,
            )
            for rank, (cut, path) in enumerate(zip(cuts, paths[-1], strict=True))
        )
        return _Tokens(steps, tuple(piece if piece in self._scores else UNKNOWN for piece, _ in cuts[0]))

    def _two_best(self, word: str) -> list[list[_Path]]:
        """Viterbi's algorithm for the two best segmentations of the word up to each position.

        Like the library it adds from the left and, of equal sums, takes the longer last piece.
        """
        paths: list[list[_Path]] = [[_Path(0.0, 0, 0, 0.0)], *([] for _ in word)]
        for start in range(len(word)):
            for end, score in self._pieces_from(word, start):
                new = [_Path(path.total + score, start, rank, score) for rank, path in enumerate(paths[start])]
                paths[end] = sorted([*paths[end], *new], key=lambda path: -path.total)[:2]
        return paths

    def _pieces_from(self, word: str, start: int) -> Iterator[tuple[int, float]]:
        """The end of each piece that can begin at ``start``, and its log-probability."""
        yield start + 1, self._scores.get(word[start], self._unknown_score)
        for end in range(start + 2, min(start + self._longest, len(word)) + 1):
            score = self._scores.get(word[start:end])
            if score is not None:
                yield end, score

    def _join_unknown(self, pieces: list[tuple[str, float]]) -> Iterator[tuple[str, float]]:
        """The pieces, with neighbouring unknown characters as one piece."""
        for known, run in groupby(pieces, lambda piece: piece[0] in self._scores):
            if known:
                yield from run
            else:
                characters, scores = zip(*run, strict=True)
                yield "".join(characters), sum(scores)


def _pieces(word: str, paths: list[list[_Path]], rank: int) -> list[tuple[str, float]]:
    """The pieces of a segmentation of the whole word, read from its end."""
    pieces: list[tuple[str, float]] = []
    end = len(word)
    while end:
        path = paths[end][rank]
        pieces.append((word[path.start : end], path.log_prob))
        end, rank = path.start, path.rank
    return pieces[::-1]


class _WordLevel:
    def __init__(self, model: dict[str, Any], show: Show) -> None:
        self._show = show
        self._vocab = frozenset(model["vocab"])

    def tokenize(self, word: str) -> _Tokens:
        token, reason = (word, "in the vocabulary") if word in self._vocab else (UNKNOWN, "not in the vocabulary")
        return _Tokens((Lookup(self._show(word), self._show(token), reason),), (token,))


# Each turns a word (a pre-token) into tokens; it is made of the ``model`` of a tokenizer's JSON.
MODELS: dict[str, type[_Bpe | _WordPiece | _Unigram | _WordLevel]] = {
    "bpe": _Bpe, "wordpiece": _WordPiece, "unigram": _Unigram, "words": _WordLevel, "whitespace": _WordLevel,
    "symbols": _WordLevel, "characters": _WordLevel,
}  # fmt: skip
