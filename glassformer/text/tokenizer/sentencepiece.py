"""SentencePiece's unigram models (.spm) to the JSON of the ``tokenizers`` library.

Kudo and Richardson 2018 (arXiv 1808.06226). An .spm file is a protocol buffer.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from glassformer.errors import TokenizerError
from glassformer.files import open_to_read
from glassformer.text.tokenizer.kinds import CONTROL_TOKENS, TYPED_CONTROL, UNKNOWN

SPACE = "▁"
# Entries that are no pieces have a space: no text has them.
UNREACHABLE = " "
LARGEST_SPM = 64 * 2**20  # bytes
# Most fields of a model (pieces), of its settings, and of a piece.
_MAX_FIELDS, _MAX_SETTINGS, _MAX_OF_PIECE = 1_000_000, 10_000, 8
LARGEST_CHARSMAP = 2**21  # base64 characters; NFKC's has 320,000
_UNIGRAM = 1
_NORMAL, _BYTE, _USER_DEFINED = 1, 6, 4
_MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_LANGUAGE = "^>>[^<]+<<"  # a multilingual model's target language


@dataclass(frozen=True)
class SentencePieceModel:
    """An .spm file's scored pieces, and how text is normalised."""

    scores: dict[str, float]
    """The log-probability of each piece that text may have."""
    charsmap: bytes
    """The compiled rules of normalisation, or empty."""
    collapses_spaces: bool
    pieces: tuple[str, ...] = ()
    """All pieces in the order of their ids."""

    @classmethod
    def read(cls, path: Path) -> "SentencePieceModel":
        """Read an .spm file; ``TokenizerError`` for other models."""
        try:
            with open_to_read(path) as file:
                return cls.from_bytes(file.read(LARGEST_SPM + 1))
        except OSError as error:
            raise TokenizerError(
                f"{path}: cannot be read: {error.strerror}. Expected a SentencePiece model."
            ) from error
        except TokenizerError as error:
            raise TokenizerError(f"{path}: {error}") from error

    @classmethod
    def from_bytes(cls, data: bytes) -> "SentencePieceModel":
        """From the bytes of an .spm file."""
        if len(data) > LARGEST_SPM:
            raise TokenizerError(f"has more than {LARGEST_SPM:,} bytes, expected a SentencePiece model.")
        try:
            fields = list(_fields(data, _MAX_FIELDS))
            pieces = [_piece(value) for number, value in fields if number == 1]
            settings = (_bytes(dict(fields), number) for number in (2, 3))
            trainer, normalizer = (dict(_fields(one, _MAX_SETTINGS)) for one in settings)
            charsmap = _bytes(normalizer, 2)
        except (ValueError, IndexError, TypeError, struct.error) as error:
            raise TokenizerError(f"is not a SentencePiece model, or is cut short: {error}.") from error
        if not {2, 3} <= dict(fields).keys():
            raise TokenizerError("is not a SentencePiece model, or is cut short: it has no settings of its training.")
        _check_kind(pieces, trainer, normalizer)
        if charsmap:
            check_charsmap(charsmap)
        scores = {text: score for text, score, kind in pieces if kind == _NORMAL}
        if not scores or not all(abs(score) < 1e9 for score in scores.values()):
            raise TokenizerError("holds no pieces, or one with an infinite score, expected a SentencePiece model.")
        return cls(scores, charsmap, bool(normalizer.get(4, 1)), tuple(text for text, *_ in pieces))

    def tokenizer_json(self, entries: Sequence[str]) -> str:
        """A tokenizer's JSON; of ``entries`` only pieces are found."""
        vocab = [self._with_score(entry) for entry in entries]
        return new_imported_library(vocab, self.charsmap, self.collapses_spaces).to_str()

    def _with_score(self, entry: str) -> tuple[str, float]:
        if entry in CONTROL_TOKENS:
            return entry, 0.0
        if entry.startswith(">>") and entry.endswith("<<"):
            return SPACE + entry, 0.0
        # <unk> follows the lowest score: that of a piece
        return (entry, self.scores[entry]) if entry in self.scores else (UNREACHABLE + entry, 0.0)


def new_imported_library(vocab: Sequence[tuple[str, float]], charsmap: bytes, collapses_spaces: bool) -> Library:
    """An .spm's tokenizer with the entries of ``vocab``, control tokens first."""
    if charsmap:
        check_charsmap(charsmap)
    library = Library(models.Unigram(vocab=vocab, unk_id=CONTROL_TOKENS.index(UNKNOWN)))
    steps: list[Any] = [normalizers.Precompiled(charsmap)] if charsmap else []
    if collapses_spaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    library.normalizer = normalizers.Sequence(steps)
    library.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(_LANGUAGE), "isolated"),
        pre_tokenizers.Metaspace(SPACE, prepend_scheme="always"),
        pre_tokenizers.Split(Regex(TYPED_CONTROL), "isolated"),
    ])  # fmt: skip
    library.decoder = decoders.Sequence([
        decoders.Replace(UNREACHABLE, ""), decoders.Replace(SPACE, " "), decoders.Fuse(),
        decoders.Strip(" ", left=1000, right=0),
    ])  # fmt: skip
    library.add_special_tokens(list(CONTROL_TOKENS))
    return library


def check_charsmap(charsmap: bytes) -> None:
    """Raise ``TokenizerError`` for normalisation rules whose look-up would leave the table.

    A double-array trie (Yata et al. 2007) of 32-bit units, after its size in bytes, then its values' texts, each
    ended by a zero. The ``tokenizers`` library does not check its numbers.
    """
    import numpy as np

    wrong = TokenizerError("holds damaged rules of normalisation, expected a charsmap of SentencePiece.")
    size = int.from_bytes(charsmap[:4], "little")
    if size < 1024 or size % 1024 or len(charsmap) < 4 + size:
        raise wrong
    units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
    try:
        charsmap[4 + size :].decode()
    except UnicodeDecodeError as error:
        raise wrong from error
    texts = np.frombuffer(charsmap, np.uint8, offset=4 + size)
    following = np.arange(len(units)) ^ ((units >> 10) << ((units & 512) >> 6))
    is_node = units < 2**31
    is_node[0] = True  # look-ups begin at the root
    if (following[is_node] >= len(units)).any():  # whole blocks of 256: any label is inside
        raise wrong
    values = units[following[is_node & (units & 256 > 0)]] & (2**31 - 1)
    if (values >= len(texts)).any() or ((texts[values] & 0xC0) == 0x80).any():
        raise wrong


def _check_kind(pieces: list[tuple[str, float, int]], trainer: dict[int, Any], normalizer: dict[int, Any]) -> None:
    """Raise ``TokenizerError`` for what the JSON cannot express."""
    kind = trainer.get(3, _UNIGRAM)
    if kind != _UNIGRAM:
        raise TokenizerError(
            f"is a SentencePiece model of type {_MODEL_TYPES.get(kind, kind)!r}, expected 'unigram'."
        )
    for name, wrong in (
        ("byte_fallback", trainer.get(35, 0) or any(kind == _BYTE for *_, kind in pieces)),
        ("treat_whitespace_as_suffix", trainer.get(24, 0)),
        ("user_defined_symbols", any(kind == _USER_DEFINED for *_, kind in pieces)),
        ("add_dummy_prefix = false", not normalizer.get(3, 1)),
        ("escape_whitespaces = false", not normalizer.get(5, 1)),
    ):
        if wrong:
            raise TokenizerError(f"was trained with {name}, expected a SentencePiece model without it.")


def _piece(data: bytes) -> tuple[str, float, int]:
    values = dict(_fields(data, _MAX_OF_PIECE))
    if 1 not in values:
        raise ValueError("a piece has no text")
    return _bytes(values, 1).decode(), struct.unpack("<f", values.get(2, bytes(4)))[0], values.get(3, _NORMAL)


def _bytes(values: dict[int, Any], number: int) -> bytes:
    """A field of text or a message; ``ValueError`` for a number."""
    value = values.get(number, b"")
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} is a number")
    return value


def _fields(data: bytes, most: int) -> Iterator[tuple[int, Any]]:
    """Fields of a message, by number; ``ValueError`` for too many."""
    at = count = 0
    while at < len(data):
        count += 1
        if count > most:
            raise ValueError(f"a message has more than {most:,} fields")
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}[wire] if wire in (1, 5) else len(data) + 1
        if at + size > len(data):
            raise ValueError("a field ends behind the end of the file")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and what follows."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a number has more than ten bytes")
