"""Which JSON is a tokenizer of ours: exactly what training writes, and the few options that an import may bring.

The ``tokenizers`` library carries out whatever its JSON says: normalizers that double a text again and again,
patterns that never end, tables that make it panic. So the JSON is examined here before the library sees it.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from glassformer.errors import TokenizerError
from glassformer.text.tokenizer.kinds import BYTE_VALUES, CONTROL_TOKENS, KINDS, LONGEST_PIECE, UNKNOWN, new_library
from glassformer.text.tokenizer.sentencepiece import ADDED_TOKENS, LARGEST_CHARSMAP, check_charsmap, library_parts

LARGEST_FILE = 64 * 2**20  # bytes; a vocabulary of a million entries takes less
# Training reads pieces of LONGEST_PIECE characters. NFC makes at most three of one, and UTF-8 four bytes of each.
LONGEST_ENTRY = 12 * LONGEST_PIECE

# The options that no training sets but a tokenizer from elsewhere may have, and which do no harm. An import that
# brings another one declares it here.
IMPORTED_OPTIONS: Mapping[str, Callable[[Any], bool]] = {
    "model.ignore_merges": lambda value: value is True,
    "model.byte_fallback": lambda value: value is True,
    "model.max_input_chars_per_word": lambda value: type(value) is int and 1 <= value <= 1000,
    "pre_tokenizer.add_prefix_space": lambda value: value is True,
}

_CONTENTS = ("vocab", "merges")  # what differs from tokenizer to tokenizer


def check_shape(text: str) -> str:
    """The kind of a tokenizer's JSON; ``TokenizerError`` if training a tokenizer does not write such JSON."""
    parts = _parse(text)
    kind = _kind(parts)
    lowercase = {"type": "Lowercase"} in _normalizers(parts)
    expected = _imported_parts(parts) if _is_sentencepiece(parts) else _expected_parts(kind, lowercase)
    for name in expected.keys() - parts.keys():
        raise TokenizerError(f"has no {name}, expected {_quote(expected[name])}.")
    _compare({**parts, "model": _without_contents(parts["model"])}, expected, "")
    _check_contents(kind, parts["model"])
    return kind


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
    """The object; of a repeated key the library might take another value than Python does."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _kind(parts: dict[str, Any]) -> str:
    """The kind of a tokenizer, by its model and its pre-tokenizer."""
    found = [part.get("type") if isinstance(part := parts.get(name), dict) else None for name in _PARTS]
    for kind in KINDS:
        expected = _expected_parts(kind, False)
        if found == [expected[name]["type"] for name in _PARTS]:
            return kind
    raise TokenizerError(
        f"is a {_quote(found[0])} model with a {_quote(found[1])} pre-tokenizer, expected one of {', '.join(KINDS)}."
    )


_PARTS = ("model", "pre_tokenizer")


@cache
def _expected_parts(kind: str, lowercase: bool) -> dict[str, Any]:
    """The JSON of a trained tokenizer without what differs from one to another."""
    library = new_library(kind, lowercase)
    parts: dict[str, Any] = json.loads(library.to_str())
    parts["added_tokens"] = ADDED_TOKENS
    if kind == "unigram":
        parts["model"]["unk_id"] = CONTROL_TOKENS.index(UNKNOWN)
    parts["model"] = _without_contents(parts["model"])
    return parts


def _is_sentencepiece(parts: dict[str, Any]) -> bool:
    """Whether it has the steps of an imported .spm, whose text begins with a space."""
    pre_tokenizers = parts["pre_tokenizer"].get("pretokenizers")
    schemes = [one.get("prepend_scheme") for one in pre_tokenizers or () if isinstance(one, dict)]
    return "always" in schemes


def _imported_parts(parts: dict[str, Any]) -> dict[str, Any]:
    """The JSON that ``text/tokenizer/sentencepiece.py`` writes for the rules of normalisation of this one."""
    steps = _normalizers(parts)
    charsmap = next((step["precompiled_charsmap"] for step in steps if "precompiled_charsmap" in step), "")
    if not isinstance(charsmap, str) or len(charsmap) > LARGEST_CHARSMAP:
        raise TokenizerError(
            f"normalizer: found no charsmap of at most {LARGEST_CHARSMAP:,} characters, expected one."
        )
    try:
        if charsmap:
            check_charsmap(base64.b64decode(charsmap, validate=True))
    except ValueError as error:
        raise TokenizerError(f"normalizer: found a charsmap that is no base64 ({error}), expected one.") from error
    expected = library_parts(charsmap, any(step.get("type") == "Strip" for step in steps))
    expected["model"] = _without_contents(expected["model"])
    return expected


def _normalizers(parts: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps that give a text its normal form, as far as they are objects."""
    normalizer = parts.get("normalizer")
    steps = normalizer.get("normalizers") if isinstance(normalizer, dict) else None
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def _without_contents(model: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in model.items() if name not in _CONTENTS}


def _compare(found: Any, expected: Any, where: str) -> None:
    """Raise ``TokenizerError`` at the first value that differs; fields that older libraries do not write may lack."""
    if isinstance(found, dict) and isinstance(expected, dict) and ("type" in found) == ("type" in expected):
        for name, value in found.items():
            place = f"{where}.{name}" if where else name
            if name not in expected:
                raise TokenizerError(f"{_quote(place)}: found {_quote(value)}, expected no such option.")
            _compare(value, expected[name], place)
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            _compare(one, other, f"{where}[{number}]")
    elif type(found) is not type(expected) or found != expected:
        if where in IMPORTED_OPTIONS and IMPORTED_OPTIONS[where](found):
            return
        raise TokenizerError(f"{where}: found {_quote(found)}, expected {_quote(expected)}.")


def _check_contents(kind: str, model: dict[str, Any]) -> None:
    vocab = model.get("vocab")
    entries = _unigram_entries(vocab) if kind == "unigram" else _numbered_entries(vocab)
    if tuple(entries[: len(CONTROL_TOKENS)]) != CONTROL_TOKENS:
        raise TokenizerError(
            f"model.vocab: found {_quote(entries[:4])} as its first ids, expected {', '.join(CONTROL_TOKENS)}."
        )
    longest = max(map(len, entries))
    if longest > LONGEST_ENTRY:
        raise TokenizerError(f"model.vocab: found an entry of {longest:,} characters, expected {LONGEST_ENTRY:,}.")
    if kind == "bpe":
        _check_merges(model.get("merges"), frozenset(entries))


def _numbered_entries(vocab: object) -> list[str]:
    """The entries in the order of their ids, which must be 0, 1, 2 and so on."""
    if isinstance(vocab, dict) and all(type(number) is int for number in vocab.values()):
        entries = sorted(vocab, key=vocab.__getitem__)
        if [vocab[entry] for entry in entries] == list(range(len(entries))) and entries:
            return entries
    raise TokenizerError("model.vocab: found other ids than 0, 1, 2 and so on, expected one of them for each entry.")


def _unigram_entries(vocab: object) -> list[str]:
    """The entries; ``TokenizerError`` unless each has a log-probability."""
    if not isinstance(vocab, list) or not vocab or not all(map(_is_scored, vocab)):
        raise TokenizerError("model.vocab: found no list of entries with finite scores, expected one.")
    entries = [entry for entry, _ in vocab]
    if len(set(entries)) != len(entries):
        raise TokenizerError("model.vocab: found an entry twice, expected each once.")
    return entries


def _is_scored(entry: object) -> bool:
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str) or not entry[0]:
        return False
    return type(entry[1]) in (int, float) and abs(entry[1]) < 1e9 and math.isfinite(entry[1])


def _check_merges(merges: object, entries: frozenset[str]) -> None:
    """Every entry must be spelled in the letters that stand for bytes, and every merge must join entries to one."""
    foreign = next((entry for entry in entries if not (entry and BYTE_VALUES.keys() >= set(entry))), None)
    if foreign is not None:
        raise TokenizerError(f"model.vocab: found {_quote(foreign)}, expected the letters of byte-level BPE.")
    missing = BYTE_VALUES.keys() - entries
    if missing:
        raise TokenizerError(f"model.vocab: found no entry {min(missing)!r}, expected one for each of 256 bytes.")
    if not isinstance(merges, list) or not all(_joins(merge, entries) for merge in merges):
        raise TokenizerError("model.merges: found a merge whose parts or result are no entries, expected entries.")
    if len({tuple(merge) for merge in merges}) != len(merges):
        raise TokenizerError("model.merges: found a merge twice, expected each once.")


def _joins(merge: object, entries: frozenset[str]) -> bool:
    if not isinstance(merge, list) or len(merge) != 2 or not all(isinstance(part, str) for part in merge):
        return False
    return entries.issuperset((*merge, "".join(merge)))


def _quote(value: object) -> str:
    """The value, cut after a few words."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
