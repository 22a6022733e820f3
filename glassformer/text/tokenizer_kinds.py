"""How each kind of tokenizer is put together and trained, with the Hugging Face ``tokenizers`` library.

Every recipe is a normalizer, a splitter, a model and a decoder, and all of them are stored in the one JSON
file that the library writes, so any program that reads such files gives the same ids. Knows nothing of files,
pairs or configuration.

How each kind of tokenizer spells a text, one step at a time: what the ``tokenizers`` library does unseen.

Splitting is left to the library. The spelling of a pre-token is written out here, from the vocabulary, the merges
and the scores: byte-pair merges (Sennrich et al. 2016), WordPiece's longest match first (Wu et al. 2016), the
unigram model's best segmentation (Kudo 2018), plain look-up. Ids of a model come from the library alone, never
from here; ``Tokenizer.derive`` holds the two equal.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import groupby, pairwise
from typing import Any, NamedTuple, Protocol

from tokenizers import Tokenizer as Library
from tokenizers import decoders as library_decoders
from tokenizers import models, normalizers, pre_tokenizers, trainers

from glassformer.errors import TokenizerError, nearest
from glassformer.text.derivation import Derivation, Lookup, Match, Merge, PreToken, Segmentation, Step
from glassformer.text.lines import is_blank, without_surrogates

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


# A character outside of a unigram vocabulary scores this much less than the vocabulary's worst entry; so says the
# library, and SentencePiece before it.
UNKNOWN_PENALTY = 10.0

Show = Callable[[str], str]


class _Spelling(NamedTuple):
    steps: tuple[Step, ...]
    tokens: tuple[str, ...]  # entries of the vocabulary, not labels


class _Speller(Protocol):
    def __init__(self, model: dict[str, Any], show: Show) -> None: ...

    def spell(self, word: str) -> _Spelling: ...


class Deriver:
    """Derives texts for one tokenizer, whose vocabulary it reads once."""

    def __init__(self, library: Any, kind: str, model: dict[str, Any], show: Show) -> None:
        """From the library's tokenizer, its kind, the model of its JSON, and what gives an entry its label."""
        self._library = library
        self._show = show
        self._speller = _SPELLERS[kind](model, show)

    def derive(self, text: str) -> Derivation:
        """How ``text`` becomes ids, in time that grows like n log n. Equal pre-tokens are one object."""
        clean = without_surrogates(text)
        normalizer = self._library.normalizer
        normalised = normalizer.normalize_str(clean) if normalizer else clean
        words = self._library.pre_tokenizer.pre_tokenize_str(normalised)
        pre_token = cache(self._pre_token)
        return Derivation(clean, normalised, tuple(pre_token(word) for word, _ in words))

    def _pre_token(self, word: str) -> PreToken:
        steps, tokens = self._speller.spell(word)
        ids = tuple(map(self._library.token_to_id, tokens))
        return PreToken(self._show(word), self._labels(word), steps, self._labels(tokens), ids)

    def _labels(self, entries: str | tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self._show, entries))


class _Bpe:
    def __init__(self, model: dict[str, Any], show: Show) -> None:
        self._show = show
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(model["merges"])}
        self._whole = frozenset(model["vocab"] if model["ignore_merges"] else ())

    def spell(self, word: str) -> _Spelling:
        if word in self._whole:
            label = self._show(word)
            return _Spelling((Lookup(label, label, "in the vocabulary, so nothing is merged"),), (word,))
        symbols = dict(enumerate(word))
        steps = tuple(self._merges(symbols))
        return _Spelling(steps, tuple(symbols.values()))

    def _merges(self, symbols: dict[int, str]) -> Iterator[Merge]:
        """Merge ``symbols``, kept under the position where each starts, until no two neighbours have a rank."""
        ends = {start: start + 1 for start in symbols}
        before = {end: start for start, end in ends.items()}
        queue = [(self._ranks[pair], at) for at, pair in enumerate(pairwise(symbols.values())) if pair in self._ranks]
        heapify(queue)
        while queue:
            rank, start = heappop(queue)
            middle = ends.get(start, -1)
            left, right = symbols.get(start, ""), symbols.get(middle, "")
            if self._ranks.get((left, right)) != rank:
                continue  # one of the two has become a part of something longer
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
        self._prefix = model["continuing_subword_prefix"]
        self._most = model["max_input_chars_per_word"]

    def spell(self, word: str) -> _Spelling:
        if len(word) > self._most:
            return self._unknown([], word, f"{len(word)} characters, more than {self._most}")
        steps: list[Step] = []
        pieces: list[str] = []
        start = 0
        while start < len(word):
            prefix = self._prefix if start else ""
            rest = prefix + word[start:]
            size = self._longest(rest, len(prefix))
            if size is None:
                return self._unknown(
                    steps, rest, "none of its beginnings is in the vocabulary, so the whole word is unknown"
                )
            steps.append(Match(self._show(rest), self._show(rest[:size]), len(rest) - size + 1))
            pieces.append(rest[:size])
            start += size - len(prefix)
        return _Spelling(tuple(steps), tuple(pieces))

    def _unknown(self, steps: list[Step], rest: str, reason: str) -> _Spelling:
        return _Spelling((*steps, Lookup(self._show(rest), UNKNOWN, reason)), (UNKNOWN,))

    def _longest(self, rest: str, prefixed: int) -> int | None:
        """The length of the longest beginning of ``rest`` that is an entry and more than the prefix."""
        return next((size for size in range(len(rest), prefixed, -1) if rest[:size] in self._vocab), None)


class _Path(NamedTuple):
    """One of the two best ways to cut a word up to some position, told by its last piece and the way before it."""

    total: float
    start: int  # where the last piece begins
    way: int  # which of the ways to reach ``start`` it continues: 0 the best, 1 the second
    log_prob: float  # of the last piece


class _Unigram:
    def __init__(self, model: dict[str, Any], show: Show) -> None:
        self._show = show
        self._scores: dict[str, float] = dict(model["vocab"])
        self._longest = max(map(len, self._scores))
        self._unknown_score = min(score for _, score in model["vocab"]) - UNKNOWN_PENALTY

    def spell(self, word: str) -> _Spelling:
        paths = self._two_best(word)
        cuts = [list(self._fused(_pieces(word, paths, way))) for way in range(len(paths[-1]))]
        steps = tuple(
            Segmentation(*self._labelled(cut), total=path.total, best=way == 0)
            for way, (cut, path) in enumerate(zip(cuts, paths[-1], strict=True))
        )
        return _Spelling(steps, tuple(piece if piece in self._scores else UNKNOWN for piece, _ in cuts[0]))

    def _two_best(self, word: str) -> list[list[_Path]]:
        """Viterbi's algorithm, keeping two: the best ways to cut the word up to each position.

        Adds in the order in which the library adds, and of equal sums takes the longer last piece, as it does:
        the best way is the library's own to the last bit.
        """
        paths: list[list[_Path]] = [[_Path(0.0, 0, 0, 0.0)], *([] for _ in word)]
        for start in range(len(word)):
            for end, score in self._pieces_from(word, start):
                for way, path in enumerate(paths[start]):
                    _keep_two(paths[end], _Path(path.total + score, start, way, score))
        return paths

    def _pieces_from(self, word: str, start: int) -> Iterator[tuple[int, float]]:
        """Where each piece that can begin at ``start`` ends, and its log-probability."""
        yield start + 1, self._scores.get(word[start], self._unknown_score)
        for end in range(start + 2, min(start + self._longest, len(word)) + 1):
            score = self._scores.get(word[start:end])
            if score is not None:
                yield end, score

    def _fused(self, pieces: list[tuple[str, float]]) -> Iterator[tuple[str, float]]:
        """Each run of unknown characters as one piece."""
        for known, run in groupby(pieces, lambda piece: piece[0] in self._scores):
            if known:
                yield from run
            else:
                characters, scores = zip(*run, strict=True)
                yield "".join(characters), sum(scores)

    def _labelled(self, cut: list[tuple[str, float]]) -> tuple[tuple[str, ...], tuple[float, ...]]:
        return tuple(self._show(piece) for piece, _ in cut), tuple(score for _, score in cut)


def _keep_two(best: list[_Path], path: _Path) -> None:
    best.insert(sum(path.total <= kept.total for kept in best), path)
    del best[2:]


def _pieces(word: str, paths: list[list[_Path]], way: int) -> list[tuple[str, float]]:
    """The pieces of a way to cut the whole word, read from its end."""
    pieces: list[tuple[str, float]] = []
    end = len(word)
    while end:
        path = paths[end][way]
        pieces.append((word[path.start : end], path.log_prob))
        end, way = path.start, path.way
    return pieces[::-1]


class _WordLevel:
    def __init__(self, model: dict[str, Any], show: Show) -> None:
        self._show = show
        self._vocab = frozenset(model["vocab"])

    def spell(self, word: str) -> _Spelling:
        token, reason = (word, "in the vocabulary") if word in self._vocab else (UNKNOWN, "not in the vocabulary")
        return _Spelling((Lookup(self._show(word), self._show(token), reason),), (token,))


_SPELLERS: dict[str, type[_Speller]] = {
    "bpe": _Bpe, "wordpiece": _WordPiece, "unigram": _Unigram, "words": _WordLevel, "characters": _WordLevel,
}  # fmt: skip
