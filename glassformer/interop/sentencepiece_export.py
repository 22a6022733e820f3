"""A tokenizer of ours as a SentencePiece model: unigram as it is, byte-level BPE by rules that spell bytes.

SentencePiece has no bytes inside pieces and cuts no words, so that both are done by its rules of normalisation: each
byte beyond ASCII becomes a letter of its own, and letters, numbers and other signs have alphabets of their own, which
no merge can cross. Its rules of denormalisation turn outputs back. Differs from ours only where a letter has several
marks in an order that Unicode's NFC changes, and in characters that Unicode does not have.
"""

import base64
import json
import struct
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

from tokenizers import Tokenizer as Library

from glassformer.errors import ConfigError
from glassformer.interop.charsmap import compile_charsmap
from glassformer.text.tokenizer.kinds import BYTE_VALUES, CONTROL_TOKENS
from glassformer.text.tokenizer.sentencepiece import SPACE, UNREACHABLE
from glassformer.text.tokenizer.tokenizer import UNK_ID, Tokenizer

_UNIGRAM, _BPE = 1, 2
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_JOINERS = "\u200c\u200d"
_DROPPED = "\u00ad\u200b\u2060\ufeff"
# Letters of byte-level BPE, a space as SentencePiece has it, and in Unicode's private use three alphabets more.
_LETTERS = {value: character for character, value in BYTE_VALUES.items()} | {0x20: SPACE}
_NUMBERS, _SIGNS, _CONTRACTED = 0xE000, 0xE100, 0xE200
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_PARTS_OF_CONTRACTIONS = {
    one[start:end] for one in _CONTRACTIONS for start in range(len(one)) for end in range(start + 1, len(one) + 1)
}
# What may come before the ' of a contraction without being a letter or a number; then it is none.
_MARKS_BEFORE = (*range(0x21, 0x7F), *range(0xA1, 0xC0), *range(0x2010, 0x2047))
_ENDS, _CLOSERS, _OPENERS = ".!?…؟।", ("", '"', "”", "“", "»", "’", ")"), "„«¿¡"


class Piece(NamedTuple):
    """A piece of the model and the id that our tokenizer has for it."""

    text: str
    score: float
    kind: int
    number: int


@dataclass(frozen=True)
class SentencePieceExport:
    """The bytes of a model file, and the vocabularies of a model that is given its pieces."""

    data: bytes
    source: list[str]
    """The pieces that a text is cut into."""
    source_ids: list[int]
    """The id of each in the source's tokenizer; several pieces may have one."""
    target: list[str]
    """The entries of the target's tokenizer, by id, as the model decodes them."""


def to_sentencepiece(src: Tokenizer, tgt: Tokenizer) -> SentencePieceExport:
    """The model that cuts like ``src`` and decodes like ``tgt``; ``ConfigError`` for kinds that it does not have."""
    for side, tokenizer in (("source", src), ("target", tgt)):
        if tokenizer.kind not in ("bpe", "unigram"):
            raise ConfigError(
                f"the {side} tokenizer: found {tokenizer.kind!r}, which no SentencePiece model can hold, expected "
                "'bpe' or 'unigram'. Train with text.tokenizer = bpe, or export to ctranslate2."
            )
    if src.kind != tgt.kind:
        raise ConfigError(
            f"the tokenizers: found {src.kind!r} and {tgt.kind!r}, expected one kind, since one SentencePiece model "
            "serves both sides. Export to ctranslate2."
        )
    parts = json.loads(src.json)
    pieces = list(_bpe_pieces(src, parts) if src.kind == "bpe" else _unigram_pieces(parts))
    target = list(map(_bpe_name, tgt.entries())) if tgt.kind == "bpe" else _unigram_names(tgt.entries())
    target[: len(CONTROL_TOKENS)] = CONTROL_TOKENS
    begins_with_space = _is_imported(parts)
    charsmap = _given_charsmap(parts) if begins_with_space else compile_charsmap(dict(_rules(src, parts)))
    data = _model(
        _BPE if src.kind == "bpe" else _UNIGRAM, pieces,
        _normalizer(charsmap, begins_with_space, True),
        b"" if begins_with_space else _normalizer(compile_charsmap(dict(_decoding_rules(tgt))), False, False),
    )  # fmt: skip
    return SentencePieceExport(data, [piece.text for piece in pieces], [piece.number for piece in pieces], target)


def _is_imported(parts: dict[str, Any]) -> bool:
    """Whether a tokenizer was a SentencePiece model before, whose texts begin with a space."""
    steps = parts["pre_tokenizer"].get("pretokenizers", ())
    return any(step.get("prepend_scheme") == "always" for step in steps)


def _control_pieces() -> Iterator[Piece]:
    for number, token in enumerate(CONTROL_TOKENS):
        yield Piece(token, 0.0, _UNKNOWN if number == UNK_ID else _CONTROL, number)


def _unigram_names(entries: Sequence[str]) -> list[str]:
    """Entries without the mark of those that no text has; it stays where a name would be there twice."""
    known = set(entries)
    plain = [entry.removeprefix(UNREACHABLE) for entry in entries]
    return [entry if name in known else name for entry, name in zip(entries, plain, strict=True)]


def _unigram_pieces(parts: dict[str, Any]) -> Iterator[Piece]:
    yield from _control_pieces()
    vocab = parts["model"]["vocab"]
    for number, (entry, score) in enumerate(vocab):
        is_found = not entry.startswith(UNREACHABLE) and SPACE not in entry[1:]
        if number >= len(CONTROL_TOKENS) and is_found:  # of the others a model only decodes the names
            yield Piece(entry, score, _NORMAL, number)
    if not _is_imported(parts) and all(entry != "<" for entry, _ in vocab):  # it is cut off, also from unknown ones
        yield Piece("<", 0.0, _USER_DEFINED, UNK_ID)


def _bpe_pieces(tokenizer: Tokenizer, parts: dict[str, Any]) -> Iterator[Piece]:
    """Each entry in every alphabet in which a text may spell it."""
    yield from _control_pieces()
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(parts["model"]["merges"]):
        ranks.setdefault("".join(pair), rank)
    for number, entry in enumerate(tokenizer.entries()):
        if number >= len(CONTROL_TOKENS):
            score = float(-ranks.get(entry, len(ranks)))
            for name in dict.fromkeys([_bpe_name(entry), *_aliases(entry)]):
                yield Piece(name, score, _NORMAL, number)


def _bytes_of(entry: str) -> bytes:
    return bytes(BYTE_VALUES[character] for character in entry)


def _bpe_name(entry: str) -> str:
    """The name of an entry: letters as byte-level BPE has them; a contraction in its own alphabet."""
    if entry in CONTROL_TOKENS:
        return entry
    if entry in _PARTS_OF_CONTRACTIONS and entry[0] == "'" != entry:
        return _spell_contraction(entry)
    return "".join(_LETTERS[value] for value in _bytes_of(entry))


def _aliases(entry: str) -> Iterator[str]:
    """How a text spells an entry inside a contraction, a number or other signs, if it can be there."""
    if entry in _PARTS_OF_CONTRACTIONS:
        yield _spell_contraction(entry)
    values = _bytes_of(entry)
    ascii_part = bytes(value for value in values if 0x20 < value < 0x80).decode()
    if not any(map(str.isalpha, ascii_part)) and max(values) >= 0x80:
        if not ascii_part or ascii_part.isdigit():
            yield _spell_bytes(values, _NUMBERS)
        if not any(map(str.isdigit, ascii_part)):
            yield _spell_bytes(values, _SIGNS)


def _spell_contraction(text: str) -> str:
    return "".join(chr(_CONTRACTED + ord(character)) for character in text)


def _spell_bytes(values: bytes, alphabet: int) -> str:
    """In an alphabet of its own whatever is not ASCII; 0 for letters."""
    return "".join(_LETTERS[value] if value < 0x80 or not alphabet else chr(alphabet + value) for value in values)


def _alphabet(character: str) -> int:
    """Marks and joiners are spelled as the letters that they belong to."""
    if character in _JOINERS:
        return 0
    return {"L": 0, "M": 0, "N": _NUMBERS}.get(unicodedata.category(character)[0], _SIGNS)


def _spell(text: str, alphabet: int | None = None) -> str:
    """A text in its alphabets, or in one; spaces stay spaces."""
    return "".join(
        " " if one == " " else _spell_bytes(one.encode(), _alphabet(one) if alphabet is None else alphabet)
        for one in text
    )


@cache
def _all_characters() -> tuple[str, ...]:
    """All characters that Unicode has."""
    every = map(chr, range(0x110000))
    return tuple(one for one in every if unicodedata.category(one) not in ("Cn", "Cs", "Co"))


def _rules(tokenizer: Tokenizer, parts: dict[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    """What takes the place of each character, or of several, before a text is cut: its normal form, spelled."""
    spell = _spell if tokenizer.kind == "bpe" else str
    normalize = Library.from_str(tokenizer.json).normalizer.normalize_str
    if tokenizer.kind == "bpe":
        yield from ((bytes([value]), _LETTERS[value].encode()) for value in range(0x80, 0x100))
    for one in _all_characters():
        if one in _DROPPED or one.isspace():
            yield one.encode(), b"" if one in _DROPPED else b" "
            continue
        normal = normalize(one)
        spelled = spell(normal)
        if spelled != one and (normal != one or _alphabet(one) or ord(one) < 0x80):
            yield one.encode(), spelled.encode()
        decomposed = unicodedata.normalize("NFD", one)
        if decomposed != one and normalize(decomposed) == normal:
            for size in range(1, len(decomposed)):
                composed = unicodedata.normalize("NFC", decomposed[:size]) + decomposed[size:]
                yield composed.encode(), spelled.encode()
    if tokenizer.kind == "bpe":
        yield from _contraction_rules()


def _contraction_rules() -> Iterator[tuple[bytes, bytes]]:
    """'s and its like are pieces of their own, except behind a space or another sign."""
    before = [" ", *(chr(code) for code in _MARKS_BEFORE if _alphabet(chr(code)) == _SIGNS)]
    for one in _CONTRACTIONS:
        yield one.encode(), _spell_contraction(one).encode()
        yield from ((f"{sign}{one}".encode(), _spell(f"{sign}{one}").encode()) for sign in before)


def _decoding_rules(tokenizer: Tokenizer) -> Iterator[tuple[bytes, bytes]]:
    """What takes the place of the letters of an output: characters, and a space between two sentences."""
    spell = partial(_spell, alphabet=0) if tokenizer.kind == "bpe" else str
    if tokenizer.kind == "bpe":
        for value, letter in _LETTERS.items():
            if value >= 0x80:
                yield letter.encode(), "\ufffd".encode()
            elif letter not in (SPACE, chr(value)):
                yield letter.encode(), chr(value).encode() if value else b""
        for value in set("".join(_CONTRACTIONS).encode()):
            yield chr(_CONTRACTED + value).encode(), bytes([value])
        for one in _all_characters():
            if "\x7f" < one < "\U00020000":
                yield spell(one).encode(), one.encode()
    for text, spaced in _sentence_starts(tokenizer):
        yield spell(text).encode(), spaced.encode()


def _sentence_starts(tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    """The end of a sentence before the next one, without a space, as our outputs begin, and with it; not initials."""
    every = "".join(tokenizer.to_text([number]) for number in range(len(CONTROL_TOKENS), tokenizer.size))
    letters = [one for one in sorted(set(every)) if one.isalpha() and one < "\u1200"]
    capitals = [one for one in letters if one.isupper()]
    starts = [*capitals, *(one for one in letters if one > "\u0590"), *_OPENERS]  # from Hebrew on without capitals
    for end in (end + closer for end in _ENDS for closer in _CLOSERS):
        yield from ((end + start, f"{end} {start}") for start in starts)
    for first in letters:
        yield from ((f"{first}.{second}.", f"{first}.{second}.") for second in capitals)


def _given_charsmap(parts: dict[str, Any]) -> bytes:
    """The rules that an imported tokenizer brought."""
    steps = parts["normalizer"]["normalizers"]
    return base64.b64decode(next((one["precompiled_charsmap"] for one in steps if "precompiled_charsmap" in one), ""))


def _normalizer(charsmap: bytes, begins_with_space: bool, marks_spaces: bool) -> bytes:
    return b"".join([
        _text(1, b"glassformer"), _text(2, charsmap), _number(3, begins_with_space), _number(4, marks_spaces),
        _number(5, marks_spaces),
    ])  # fmt: skip


def _model(kind: int, pieces: Iterable[Piece], normalizer: bytes, denormalizer: bytes) -> bytes:
    """The protocol buffer of a model."""
    parts = [
        _text(1, _text(1, one.text.encode()) + b"\x15" + struct.pack("<f", one.score) + _number(3, one.kind))
        for one in pieces
    ]
    trainer = _number(3, kind) + _number(4, len(parts)) + _number(40, UNK_ID) + _number(41, 1) + _number(42, 2)
    parts += [_text(2, trainer), _text(3, normalizer)]
    return b"".join([*parts, _text(5, denormalizer)] if denormalizer else parts)


def _text(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
