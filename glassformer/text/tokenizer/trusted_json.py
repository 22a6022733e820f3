"""Builds a tokenizer of ours from its JSON, whose vocabulary alone is used.

The ``tokenizers`` library carries out whatever its JSON says: patterns that never end, tables that make it panic. So
it never reads the JSON of others, and JSON that says anything else than the tokenizer that was built is refused.
"""

import base64
import json
from typing import Any

from tokenizers import Tokenizer as Library

from glassformer.errors import TokenizerError
from glassformer.text.tokenizer.kinds import (
    BYTE_VALUES,
    CONTROL_TOKENS,
    CUT_AT_MARKS,
    KINDS,
    LONGEST_PIECE,
    UNKNOWN,
    new_library,
)
from glassformer.text.tokenizer.sentencepiece import LARGEST_CHARSMAP, new_imported_library

LARGEST_FILE = 64 * 2**20  # bytes; a vocabulary of a million entries takes less
# Training reads pieces of LONGEST_PIECE characters. NFC makes at most three of one, and UTF-8 four bytes of each.
LONGEST_ENTRY = 12 * LONGEST_PIECE
_OLD_BPE = ("BPE", "ByteLevel")
_TYPES = {
    ("BPE", "Sequence"): "bpe",
    _OLD_BPE: "bpe",
    ("WordPiece", "BertPreTokenizer"): "wordpiece",
    ("Unigram", "Sequence"): "unigram",
    ("WordLevel", "Whitespace"): "words",
    ("WordLevel", "Sequence"): "whitespace",
    ("WordLevel", "Split"): "characters",
}
"""The kind that has this model and this pre-tokenizer, but for ``symbols``."""


def read_library(text: str) -> tuple[str, Library]:
    """The kind of a tokenizer and the tokenizer; ``TokenizerError`` if training does not write such JSON."""
    parts = _parse(text)
    try:
        kind, library = _build(parts)
    except TokenizerError:
        raise
    except BaseException as error:  # parts of another form; the library raises bare Exceptions, and panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError("model: found parts of another form, expected those that training writes.") from error
    expected = json.loads(library.to_str())
    for name in {**expected, **parts}:
        found, wanted = parts.get(name, "nothing"), expected.get(name, "nothing")
        if not _agree(found, wanted):
            raise TokenizerError(f"{_quote(name)}: found {_quote(found)}, expected {_quote(wanted)}.")
    return kind, library


def _parse(text: str) -> dict[str, Any]:
    if len(text) > LARGEST_FILE:
        raise TokenizerError(f"has {len(text):,} characters, expected at most {LARGEST_FILE:,}.")
    try:
        parts = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"is not a tokenizer in Hugging Face JSON: {error}.") from error
    if not isinstance(parts, dict):
        raise TokenizerError(f"found {type(parts).__name__}, expected a tokenizer in Hugging Face JSON.")
    return parts


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; of a repeated key another program might take another value than Python does."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _build(parts: dict[str, Any]) -> tuple[str, Library]:
    """The kind, and the tokenizer that training or an import makes with this vocabulary."""
    model, splitter, steps = parts["model"], parts["pre_tokenizer"], parts["normalizer"]["normalizers"]
    types = (str(model["type"]), str(splitter["type"]))
    kind = _TYPES.get(types)
    if kind is None:
        raise TokenizerError(
            f"is a {_quote(model['type'])} model with a {_quote(splitter['type'])} pre-tokenizer, expected one of "
            f"{', '.join(KINDS)}."
        )
    if kind == "whitespace" and splitter["pretokenizers"][0]["type"] == "Split":
        kind = "symbols"
    contents = _read_contents(kind, model)
    if any(split.get("prepend_scheme") == "always" for split in splitter.get("pretokenizers", ())):
        collapses_spaces = any(step["type"] == "Strip" for step in steps)
        return kind, new_imported_library(contents["vocab"], _read_charsmap(steps), collapses_spaces)
    marked = kind == "characters" and "Regex" in splitter["pattern"]
    lowercase, decompose = {"type": "Lowercase"} in steps, {"type": "NFD"} in steps
    library = new_library(kind, lowercase, marked=marked, decompose=decompose, **contents)
    if types == _OLD_BPE:
        library.pre_tokenizer = CUT_AT_MARKS
    library.add_special_tokens(list(CONTROL_TOKENS))
    return kind, library


def _read_contents(kind: str, model: dict[str, Any]) -> dict[str, Any]:
    """The vocabulary, and the merges of BPE, as the library takes them."""
    vocab = model["vocab"]
    if kind == "unigram":
        vocab = [(entry, float(score)) for entry, score in vocab]
        if not all(abs(score) < 1e9 for _, score in vocab):
            raise TokenizerError("model.vocab: found an infinite score, expected finite ones.")
        _check_entries([entry for entry, _ in vocab])
        return {"vocab": vocab, "unk_id": CONTROL_TOKENS.index(UNKNOWN)}
    entries = sorted(vocab, key=vocab.__getitem__)
    if [vocab[entry] for entry in entries] != list(range(len(entries))):
        raise TokenizerError("model.vocab: found other ids than 0, 1, 2 and so on, expected one for each entry.")
    _check_entries(entries)
    if kind != "bpe":
        return {"vocab": vocab}
    if not set("".join(entries)) == BYTE_VALUES.keys() <= vocab.keys():
        raise TokenizerError("model.vocab: found other letters than those of byte-level BPE, expected 256 of them.")
    merges = [(left, right) for left, right in model["merges"]]
    if not all(left in vocab and right in vocab and left + right in vocab for left, right in merges):
        raise TokenizerError("model.merges: found a merge whose parts or result are no entries, expected entries.")
    return {"vocab": vocab, "merges": merges}


def _check_entries(entries: list[str]) -> None:
    if tuple(entries[: len(CONTROL_TOKENS)]) != CONTROL_TOKENS:
        raise TokenizerError(
            f"model.vocab: found {_quote(entries[:4])} as its first ids, expected {', '.join(CONTROL_TOKENS)}."
        )
    if len(set(entries)) != len(entries) or "" in entries:
        raise TokenizerError("model.vocab: found an entry twice or an empty one, expected each once.")
    longest = max(map(len, entries))
    if longest > LONGEST_ENTRY:
        raise TokenizerError(f"model.vocab: found an entry of {longest:,} characters, expected {LONGEST_ENTRY:,}.")


def _read_charsmap(steps: list[dict[str, Any]]) -> bytes:
    """The rules of normalisation of an imported tokenizer; empty if it has none."""
    charsmap = next((step["precompiled_charsmap"] for step in steps if "precompiled_charsmap" in step), "")
    if not isinstance(charsmap, str) or len(charsmap) > LARGEST_CHARSMAP:
        raise TokenizerError(
            f"normalizer: found no charsmap of at most {LARGEST_CHARSMAP:,} characters, expected one."
        )
    try:
        return base64.b64decode(charsmap, validate=True)
    except ValueError as error:
        raise TokenizerError(f"normalizer: found a charsmap that is no base64 ({error}), expected one.") from error


def _agree(found: Any, expected: Any) -> bool:
    """Whether two values are the same; fields that older libraries do not write may lack."""
    if found == expected:
        return True
    if isinstance(found, dict) and isinstance(expected, dict) and ("type" in found) == ("type" in expected):
        return all(name in expected and _agree(value, expected[name]) for name, value in found.items())
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return all(map(_agree, found, expected))
    return False


def _quote(value: object) -> str:
    """The value, cut after a few words."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
