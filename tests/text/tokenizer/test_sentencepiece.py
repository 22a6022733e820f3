"""The tokenizer of an .spm file: its JSON is held to what an import writes, whatever rules of normalisation it brings."""

import base64
import json
import random
import struct

import pytest

from glassformer.errors import TokenizerError
from glassformer.text.tokenizer.sentencepiece import UNREACHABLE, SentencePieceModel
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, Tokenizer

PIECES = {"▁a": -1.0, "b": -2.0, "▁": -3.0, "ab": -2.5, "<": -4.0, "s": -4.0, ">": -4.0}
ENTRIES = [*CONTROL_TOKENS, *PIECES, "▁elsewhere", ">>deu<<"]


def made(charsmap: bytes = b"", *, collapses_spaces: bool = True) -> Tokenizer:
    return Tokenizer(SentencePieceModel(PIECES, charsmap, collapses_spaces).tokenizer_json(ENTRIES))


def labels(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.to_tokens(tokenizer.to_ids(text))


def test_text_is_cut_by_the_pieces_and_ids_are_places_in_the_vocabulary():
    tokenizer = made()
    assert tokenizer.kind == "unigram"
    assert labels(tokenizer, "  ab   a ") == ["▁a", "b", "▁a"]
    assert tokenizer.to_ids("a") == [ENTRIES.index("▁a")]
    assert tokenizer.to_text(tokenizer.to_ids("ab a")) == "ab a"
    assert tokenizer.derive("ab a").ids == tokenizer.to_ids("ab a")


def test_an_entry_of_the_other_side_has_an_id_and_a_text_but_is_never_found():
    tokenizer, number = made(), ENTRIES.index("▁elsewhere")
    assert number not in tokenizer.to_ids("elsewhere a elsewhere")
    assert tokenizer.to_text([number, ENTRIES.index("▁a")]) == "elsewhere a"
    assert tokenizer.to_tokens([number]) == ["▁elsewhere"]
    assert tokenizer.entry(number).startswith(UNREACHABLE)


def test_a_typed_control_token_is_text_and_a_language_is_an_entry():
    tokenizer = made()
    assert not {0, 1, 2} & set(tokenizer.to_ids("a <s> </s> <pad>"))
    language = ENTRIES.index(">>deu<<")
    assert tokenizer.to_ids(">>deu<< a") == [language, ENTRIES.index("▁a")]
    assert tokenizer.to_ids(">>deu<<a") == [language, ENTRIES.index("▁a")]


@pytest.mark.parametrize("seed", range(30))
def test_damaged_rules_are_refused_before_the_library_follows_them(seed):
    """The library follows the numbers of a charsmap unchecked: one that leads out of the table makes it panic."""
    chance = random.Random(seed)
    if seed % 2:
        data = bytes(chance.randrange(256) for _ in range(chance.choice([1, 3, 4, 9, 64, 500])))
    else:  # a table of the right size, with some units that lead anywhere
        units = [chance.getrandbits(32) & 0x7FFFFFFF if chance.random() < 0.1 else 0 for _ in range(512)]
        data = struct.pack("<I512I", 2048, *units) + b"abc\0"
    with pytest.raises(TokenizerError, match="damaged rules"):
        made(data)


@pytest.mark.parametrize("root", [2**31, 2**31 | 5000 << 10])
def test_a_look_up_begins_at_a_root_that_is_said_to_be_no_node(root):
    with pytest.raises(TokenizerError, match="damaged rules"):
        made(struct.pack("<I256I", 1024, root, *[0] * 255) + b"abc\0")


def test_texts_of_rules_that_are_no_utf_8_are_refused_before_the_library_panics():
    with pytest.raises(TokenizerError, match="damaged rules"):
        made(struct.pack("<I256I", 1024, 1 << 10, *[0] * 255) + b"abc\xff\0")


def _field(number: int, content: bytes) -> bytes:
    size, digits = len(content), b""
    while size > 127:
        size, digits = size >> 7, digits + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + digits + bytes([size]) + content


@pytest.mark.parametrize(
    ("data", "most"),
    [
        (_field(1, b"\n\x01a") * 1_000_001, 1_000_000),
        (_field(2, b"\x08\1" * 10_001), 10_000),
        (_field(1, b"\x08\1" * 9), 8),
    ],
    ids=["pieces", "settings", "of a piece"],
)
def test_a_model_of_many_fields_is_refused(data, most):
    with pytest.raises(TokenizerError, match=f"a message has more than {most:,} fields"):
        SentencePieceModel.from_bytes(data)


NUMBER = b"\xff\xff\xff\xff\xff\xff\x0f"  # so many bytes would be made of it


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_field(1, b"\x18\1"), "a piece has no text"),
        (_field(1, b"\x08" + NUMBER), "field 1 is a number"),
        (b"\x10" + NUMBER + b"\x18\1", "field 2 is a number"),
        (_field(2, b"") + _field(3, b"\x10" + NUMBER), "field 2 is a number"),
    ],
    ids=["no text", "text", "settings", "rules"],
)
def test_a_number_where_bytes_are_expected_is_refused(data, reason):
    with pytest.raises(TokenizerError, match=f"cut short: {reason}"):
        SentencePieceModel.from_bytes(data)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("normalizer", "normalizers"), [{"type": "Prepend", "prepend": "aaaa"}]),
        (("pre_tokenizer", "pretokenizers"), [{"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
                                              {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]),
        (("decoder", "decoders"), [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}]),
        (("model", "byte_fallback"), 3),
    ],
)  # fmt: skip
def test_other_steps_than_those_of_an_import_are_refused(place, value):
    parts = json.loads(made().json)
    parts[place[0]][place[1]] = value
    with pytest.raises(TokenizerError, match="expected"):
        Tokenizer(json.dumps(parts))


def test_a_charsmap_is_bounded():
    parts = json.loads(made().json)
    parts["normalizer"]["normalizers"].insert(
        0, {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(2 * 2**20)).decode()}
    )
    with pytest.raises(TokenizerError, match="found no charsmap of at most"):
        Tokenizer(json.dumps(parts))
