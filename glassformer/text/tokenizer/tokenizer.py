"""Text to ids and back, in seven kinds, with readable labels.

No user text becomes a control id but <unk>.
"""

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from glassformer.errors import InputError, StorageError, TokenizerError, check_path, check_type
from glassformer.files import read_bounded, sha256, write_durably
from glassformer.settings import ModelConfig
from glassformer.text.lines import without_surrogates
from glassformer.text.tokenizer.derivation import Derivation, PreToken
from glassformer.text.tokenizer.kinds import BYTE_VALUES, CONTROL_TOKENS, MODELS, new_library, train_library
from glassformer.text.tokenizer.sentencepiece import UNREACHABLE
from glassformer.text.tokenizer.trusted_json import LARGEST_FILE, read_library

__all__ = ["BOS_ID", "CONTROL_TOKENS", "EOS_ID", "PAD_ID", "UNK_ID", "Tokenizer"]

PAD_ID, BOS_ID, EOS_ID, UNK_ID = range(len(CONTROL_TOKENS))
SPACE_MARK = "▁"
_BROKEN = "\ufffd"
_ADVICE = "Use one that glassformer trained."


class Tokenizer:
    """A trained tokenizer; ids 0 to 3 are <pad>, <s>, </s> and <unk>.

    ``bpe`` restores all text, in NFC. ``characters`` and ``unigram`` do for known characters (``unigram`` reads ▁ as
    a space), ``symbols`` for known symbols with one space between. ``wordpiece``, ``words`` and ``whitespace`` lose
    spacing.
    """

    def __init__(self, text: str) -> None:
        """From the library's JSON; ``TokenizerError`` if not trained here."""
        check_type("text", text, str, "the JSON of a tokenizer, a str")
        try:
            self.kind, self._library = read_library(text)
        except TokenizerError as error:
            raise TokenizerError(f"{error} {_ADVICE}") from error
        self.json = text
        """What ``save`` writes."""
        # Not in the JSON.
        self._library.encode_special_tokens = True
        self._show = byte_label if self.kind == "bpe" else label
        self._labels: dict[int, str] = {}  # as needed so far
        self._texts: dict[int, str] = {}  # of those
        for token in CONTROL_TOKENS:
            if set(self.to_ids(token)) & {PAD_ID, BOS_ID, EOS_ID}:
                raise TokenizerError(
                    f"turns typed text {token!r} into a control token, expected plain text. {_ADVICE}"
                )

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.json,)

    @classmethod
    def train(
        cls,
        kind: str,
        texts: Iterable[str],
        vocab_size: int,
        *,
        lowercase: bool = False,
        marked: bool = False,
        decompose: bool = False,
    ) -> Self:
        """Train on ``texts``, read once, up to ``vocab_size`` entries with control tokens.

        Kinds: ``bpe`` (byte-level), ``wordpiece``, ``unigram``, ``words`` and ``whitespace`` (rare ones are <unk>),
        ``symbols`` (what single spaces separate), ``characters``. The last keeps symbols in parentheses whole if
        ``marked``, and takes letters apart (NFD) if ``decompose``. ``TokenizerError`` for an unknown kind, empty
        text, or a ``vocab_size`` that is too small.
        """
        check_type("kind", kind, str, "the name of a kind, a str")
        check_type("texts", texts, Iterable, "an iterable of texts")
        check_type("vocab_size", vocab_size, int, "a number of entries, an int")
        library = train_library(kind, texts, vocab_size, lowercase, marked=marked, decompose=decompose)
        return cls(library.to_str())

    @classmethod
    def from_words(cls, entries: Sequence[str]) -> Self:
        """Of kind ``whitespace``, with these ``entries``, which begin with the control tokens."""
        library = new_library("whitespace", False, vocab={entry: number for number, entry in enumerate(entries)})
        library.add_special_tokens(list(CONTROL_TOKENS))
        return cls(library.to_str())

    @classmethod
    def load(cls, path: Path, prepare: Callable[[str], str] = str) -> Self:
        """Read what ``save`` wrote or ``prepare`` returns; or ``TokenizerError``."""
        path = check_path("path", path)
        try:
            return cls(prepare(read_bounded(path, LARGEST_FILE).decode()))
        except OSError as error:
            raise TokenizerError(
                f"{path}: cannot be read: {error.strerror}. Expected a tokenizer's JSON file."
            ) from error
        except UnicodeDecodeError as error:
            raise TokenizerError(f"{path}: is not UTF-8 text; expected a tokenizer's JSON file.") from error
        except (TokenizerError, ValueError) as error:
            raise TokenizerError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write one JSON file, as the ``tokenizers`` library reads it."""
        path = check_path("path", path)
        try:
            with write_durably(path) as stream:
                stream.write(self.json)
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror}.") from error

    @property
    def lowercases(self) -> bool:
        """Whether it lower-cases text first."""
        return self._normalizes_by("Lowercase")

    @cached_property
    def decomposes(self) -> bool:
        """Whether its tokens are parts of letters, by Unicode's form NFD; texts are NFC again."""
        return self._normalizes_by("NFD")

    def _normalizes_by(self, name: str) -> bool:
        normalizer = json.loads(self.json)["normalizer"] or {}
        return {"type": name} in normalizer.get("normalizers", ())

    @property
    def size(self) -> int:
        """Entries of the vocabulary with control tokens."""
        return int(self._library.get_vocab_size())

    @property
    def digest(self) -> str:
        """SHA-256 of the JSON, in hexadecimal: equal digests, equal ids."""
        return hashlib.sha256(self.json.encode("utf-8")).hexdigest()

    def entries(self) -> list[str]:
        """The library's entries in order of ids."""
        return [self.entry(number) for number in range(self.size)]

    def to_ids(self, text: str) -> list[int]:
        """The ids of ``text`` without <s> and </s>; U+FFFD for lone surrogates."""
        check_type("text", text, str, "a str")
        encoding = self._library.encode(without_surrogates(text), add_special_tokens=False)
        return list(encoding.ids)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each token, in characters of ``text``."""
        check_type("text", text, str, "a str")
        encoding = self._library.encode(without_surrogates(text), add_special_tokens=False)
        return [(int(start), int(end)) for start, end in encoding.offsets]

    def unknown_symbols(self, text: str) -> tuple[str, ...]:
        """The symbols of ``text``, or those marked among its characters, that the vocabulary lacks, each once."""
        if self.kind not in ("symbols", "characters") or UNK_ID not in self.to_ids(text):
            return ()
        encoding = self._library.encode(without_surrogates(text), add_special_tokens=False)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        unknown = [text[start:end].strip() for number, (start, end) in spans if number == UNK_ID]
        return tuple(dict.fromkeys(one for one in unknown if self.kind == "symbols" or len(one) > 1))

    def to_ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """``to_ids`` of each text, on all cores."""
        encodings = self._library.encode_batch_fast(_clean(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def word_starts_batch(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Each text's ids, and 1 for each that begins a word, else 0."""
        encodings = self._library.encode_batch(_clean(texts), add_special_tokens=False)
        words = [encoding.word_ids for encoding in encodings]
        starts = [[int(word != before) for before, word in zip([-1, *each], each, strict=False)] for each in words]
        return [(encoding.ids, flags) for encoding, flags in zip(encodings, starts, strict=True)]

    def derive(self, text: str) -> Derivation:
        """How ``text`` becomes ids, step by step, in O(n log n) time.

        Equal pre-tokens are one object.
        """
        check_type("text", text, str, "a str")
        clean, normalizer = without_surrogates(text), self._library.normalizer
        normalised = normalizer.normalize_str(clean) if normalizer else clean
        pre_token = cache(self._pre_token)
        words = self._library.pre_tokenizer.pre_tokenize_str(normalised)
        derivation = Derivation(clean, normalised, tuple(pre_token(word) for word, _ in words))
        if derivation.ids != self.to_ids(text):
            shown = repr(text if len(text) <= 60 else f"{text[:60]}…")
            raise TokenizerError(
                f"{shown}: the steps lead to other ids than the tokenizer, expected the same. Report this text."
            )
        return derivation

    def _pre_token(self, word: str) -> PreToken:
        steps, tokens = self._model.tokenize(word)
        ids: Any = tuple(map(self._library.token_to_id, tokens))  # one for each entry
        symbols, labels = (tuple(map(self._show, entries)) for entries in (word, tokens))
        return PreToken(self._show(word), symbols, steps, labels, ids)

    @cached_property
    def _model(self) -> Any:
        return MODELS[self.kind](json.loads(self._library.to_str())["model"], self._show)

    def to_text(self, ids: Iterable[int]) -> str:
        """The text of ``ids`` without control tokens; broken UTF-8 becomes U+FFFD."""
        text = str(self._library.decode(self._check_ids(ids), skip_special_tokens=True))
        return unicodedata.normalize("NFC", text) if self.decomposes else text

    def ends(self, ids: Iterable[int]) -> list[int]:
        """Lengths of ``to_text`` for the first id, the first two, and so on."""
        numbers = self._check_ids(ids)
        if self.kind == "bpe":  # texts are joined, unless parts of characters
            for number in set(numbers) - self._texts.keys():
                self._texts[number] = self._library.decode([number])
            pieces = [self._texts[number] for number in numbers]
            if not any(_BROKEN in piece for piece in pieces):
                return list(accumulate(map(len, pieces)))
        return [len(self.to_text(numbers[: count + 1])) for count in range(len(numbers))]

    def to_tokens(self, ids: Iterable[int]) -> list[str]:
        """A readable label for each id; control tokens as they are."""
        labels = self._labels
        return [
            labels[number] if number in labels else labels.setdefault(number, self._label(number))
            for number in self._check_ids(ids)
        ]

    def _label(self, number: int) -> str:
        if number < len(CONTROL_TOKENS):
            return CONTROL_TOKENS[number]
        entry = self.entry(number)
        return self._show(entry.removeprefix(UNREACHABLE) if self.kind == "unigram" else entry)

    def entry(self, number: int) -> str:
        """The JSON's entry of this id, such as ``Ġthe``; else empty."""
        check_type("number", number, int, "an id, an int")
        return (self._library.id_to_token(number) or "") if 0 <= number < self.size else ""

    def _check_ids(self, ids: Iterable[int]) -> list[int]:
        try:
            numbers = [int(number) for number in ids]
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"ids: found {ids!r:.60}, expected an iterable of ids, which are ints.") from error
        if numbers and not 0 <= min(numbers) <= max(numbers) < self.size:
            wrong = next(number for number in numbers if not 0 <= number < self.size)
            raise TokenizerError(
                f"id {wrong} is not in the vocabulary, expected 0 to {self.size - 1}: "
                "the ids come from another tokenizer or model. Use that tokenizer."
            )
        return numbers


Tokenizers = tuple[Tokenizer, Tokenizer]
"""Of source and target; one object if they are the same."""


def load_tokenizers(src: Path, tgt: Path) -> Tokenizers:
    """Both sides' tokenizers; one object if they are the same."""
    one = Tokenizer.load(src)
    return one, one if is_tokenizer(tgt, one.digest) else Tokenizer.load(tgt)


def is_tokenizer(path: Path, digest: str) -> bool:
    """Whether a readable file has this ``digest``."""
    try:
        return sha256(path) == digest
    except OSError:
        return False


def check_tokenizers(config: ModelConfig, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> None:
    """Raise ``TokenizerError`` unless sizes and control ids fit."""
    for name, side, tokenizer, vocab in (
        ("src_tokenizer", "source", src_tokenizer, config.src_vocab),
        ("tgt_tokenizer", "target", tgt_tokenizer, config.tgt_vocab),
    ):
        if not hasattr(tokenizer, "to_ids_batch"):  # anything with its methods will do
            check_type(name, tokenizer, Tokenizer, "a Tokenizer, as Tokenizer.load gives it", TokenizerError)
        if tokenizer.size != vocab:
            raise TokenizerError(
                f"{name}: the {side} tokenizer has {tokenizer.size} entries, but the model has {vocab}, "
                "expected the same number. Use the tokenizer that the model was trained with."
            )
    for name, expected in {"pad_id": PAD_ID, "bos_id": BOS_ID, "eos_id": EOS_ID}.items():
        found = getattr(config, name)
        if found != expected:
            raise TokenizerError(
                f"model.{name}: found {found}, expected {expected}, which is {CONTROL_TOKENS[expected]} in every "
                "tokenizer. Leave it out of the model's settings."
            )


def byte_label(entry: str) -> str:
    """A byte-level entry's label: ▁the for ``Ġthe``, ⟨E3⟩ for part of a character."""
    raw = bytes(BYTE_VALUES[character] for character in entry)
    return label(raw.decode("utf-8", "surrogateescape"))


def label(entry: str) -> str:
    """A text's label: ▁ for a space, ⟨U+200D⟩ if invisible."""
    return "".join(map(_character_label, entry))


def _character_label(character: str) -> str:
    if character == " ":
        return SPACE_MARK
    if "\udc80" <= character <= "\udcff":
        return f"⟨{ord(character) - 0xDC00:02X}⟩"
    return character if character.isprintable() else f"⟨U+{ord(character):04X}⟩"


def _clean(texts: Sequence[str]) -> list[str]:
    """The texts without lone surrogates; or ``InputError``."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"texts: found {type(texts).__name__}, expected a list of str.")
    found = list(texts)
    for wrong in (text for text in found if not isinstance(text, str)):
        check_type("a text", wrong, str, "a str")
    return list(map(without_surrogates, found))
