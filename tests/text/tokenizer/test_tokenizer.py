import json
import math
import random
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from glassformer.errors import StorageError, TokenizerError
from glassformer.settings import TextConfig
from glassformer.text import BOS_ID, CONTROL_TOKENS, EOS_ID, PAD_ID, UNK_ID, Tokenizer

KINDS = TextConfig.choices("tokenizer")
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich!",
    "Someone typed </s> and <pad>, then <s> and <unk> once more.",
] * 20
CONTROLS = {PAD_ID, BOS_ID, EOS_ID}

# Python and the library may know different versions of Unicode: only assigned characters normalize alike.
assigned = st.text(st.characters(exclude_categories=["Cs", "Cn"]))
hostile = st.lists(
    st.sampled_from(
        [*CONTROL_TOKENS, "<", "/s>", "pad>", "Ġ", "▁", "##s", "<0x41>", " ", "\t", "\n", "\ud800", "fox"]
    )
    | st.text(max_size=3)
).map("".join)


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: Tokenizer.train(kind, SENTENCES, 400) for kind in KINDS}


@given(text=assigned)
@settings(max_examples=200, deadline=None)
def test_bpe_restores_every_text(tokenizers, text):
    bpe = tokenizers["bpe"]
    assert bpe.to_text(bpe.to_ids(text)) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  two  spaces ",
        "\ttab",
        " leading",
        "a\n\nb",
        "👩‍👩‍👧‍👦 family",
        "e\u0301",
        "שלום עולם",
        "\u2028\x85\x0b\x0c",
        "\0",
    ],
)
def test_bpe_keeps_spacing_and_any_script(tokenizers, text):
    bpe = tokenizers["bpe"]
    assert bpe.to_text(bpe.to_ids(text)) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("kind", ["unigram", "characters"])
def test_known_characters_are_restored_with_their_spacing(tokenizers, kind):
    for text in (SENTENCES[0], SENTENCES[2], "  the  fox ", " dog"):
        assert tokenizers[kind].to_text(tokenizers[kind].to_ids(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@given(text=hostile)
@settings(max_examples=100, deadline=None)
def test_typed_text_never_becomes_a_control_token(tokenizers, kind, text):
    ids = tokenizers[kind].to_ids(text)
    assert not CONTROLS & set(ids)
    assert tokenizers[kind].to_ids_batch([text, text]) == [ids, ids]
    if kind == "bpe":
        assert UNK_ID not in ids


@pytest.mark.parametrize("kind", KINDS)
def test_typed_unk_is_plain_text_if_its_characters_are_known(tokenizers, kind):
    assert UNK_ID not in tokenizers[kind].to_ids("<unk>")


@pytest.mark.parametrize("kind", KINDS)
def test_control_tokens_have_the_first_ids(tokenizers, kind):
    assert tokenizers[kind].to_tokens([PAD_ID, BOS_ID, EOS_ID, UNK_ID]) == list(CONTROL_TOKENS)
    assert (PAD_ID, BOS_ID, EOS_ID, UNK_ID) == (0, 1, 2, 3)


def test_a_lone_surrogate_is_read_as_the_replacement_character(tokenizers):
    bpe = tokenizers["bpe"]
    assert bpe.to_text(bpe.to_ids("a\ud800b")) == "a\ufffdb"
    assert bpe.to_text(bpe.to_ids("\ud83d\ude00")) == "😀"


def test_lone_surrogates_in_training_text_do_no_harm():
    assert Tokenizer.train("characters", ["ab\udfff"], 100).size == 4 + 3


@pytest.mark.parametrize("kind", KINDS)
def test_control_ids_are_left_out_of_text(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = tokenizer.to_ids("fox")
    assert tokenizer.to_text([BOS_ID, *ids, EOS_ID, PAD_ID]) == "fox"


@pytest.mark.parametrize("kind", KINDS)
def test_the_ends_of_ids_are_those_of_their_texts(tokenizers, kind):
    for text in ("a cat, a hat", "  the  cat", "na\u00efve \u4e2d\u6587 \U0001f600!", "\ufffd", ""):
        ids = [*tokenizers[kind].to_ids(text), EOS_ID]
        ends = [len(tokenizers[kind].to_text(ids[: count + 1])) for count in range(len(ids))]
        assert tokenizers[kind].ends(ids) == ends


def test_labels_show_spaces_parts_of_characters_and_invisible_characters(tokenizers):
    bpe = tokenizers["bpe"]
    assert bpe.to_tokens([BOS_ID, *bpe.to_ids("日"), EOS_ID]) == ["<s>", "⟨E6⟩", "⟨97⟩", "⟨A5⟩", "</s>"]
    assert "".join(bpe.to_tokens(bpe.to_ids(" the fox\t über\u200d"))) == "▁the▁fox⟨U+0009⟩▁über⟨E2⟩⟨80⟩⟨8D⟩"
    characters = tokenizers["characters"]
    assert characters.to_tokens(characters.to_ids("a b")) == ["a", "▁", "b"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_is_the_same_after_saving_and_loading(tokenizers, kind, tmp_path):
    tokenizer = tokenizers[kind]
    tokenizer.save(tmp_path / "t.json")
    loaded = Tokenizer.load(tmp_path / "t.json")
    assert (loaded.kind, loaded.size, loaded.digest) == (kind, tokenizer.size, tokenizer.digest)
    text = "Someone typed </s> über <pad> foxes"
    assert loaded.to_ids(text) == tokenizer.to_ids(text)
    assert not CONTROLS & set(loaded.to_ids(text))
    again = Library.from_file(str(tmp_path / "t.json"))
    assert again.encode("quick brown", add_special_tokens=False).ids == tokenizer.to_ids("quick brown")


@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
def test_the_same_text_gives_the_same_tokenizer(tokenizers, kind):
    assert Tokenizer.train(kind, iter(SENTENCES), 400).digest == tokenizers[kind].digest


def test_lowercase_is_part_of_the_tokenizer(tmp_path):
    Tokenizer.train("bpe", SENTENCES, 400, lowercase=True).save(tmp_path / "t.json")
    loaded = Tokenizer.load(tmp_path / "t.json")
    assert loaded.to_text(loaded.to_ids("The Ö")) == "the ö"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["a" * 100_000, " " * 100_000, "<" * 100_000])
def test_a_word_of_100000_characters_takes_linear_time(tokenizers, kind, word):
    started = time.process_time()
    tokenizers[kind].to_ids(word)
    assert time.process_time() - started < 3


def test_a_long_word_in_the_training_text_takes_linear_time():
    word = "".join(random.Random(1).choices("abcdefghi", k=200_000))
    started = time.process_time()
    tokenizer = Tokenizer.train("bpe", [*SENTENCES, word], 8000)
    assert time.process_time() - started < 5
    assert tokenizer.to_text(tokenizer.to_ids(word)) == word


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", "  ", "\u200b"]])
def test_empty_text_is_refused(kind, texts):
    with pytest.raises(TokenizerError, match="empty"):
        Tokenizer.train(kind, texts, 600)


@pytest.mark.parametrize("kind", KINDS)
def test_one_character_is_enough(kind):
    tokenizer = Tokenizer.train(kind, ["a"], 512)
    assert tokenizer.to_text(tokenizer.to_ids("a")) == "a"


@pytest.mark.parametrize(
    ("kind", "size", "needed"),
    [
        ("bpe", 259, "260"),
        ("wordpiece", 20, "at least"),
        ("unigram", 20, "characters"),
        ("words", 4, "5"),
        ("characters", 4, "5"),
    ],
)
def test_a_vocabulary_too_small_is_refused(kind, size, needed):
    with pytest.raises(TokenizerError, match=rf"vocab_size: found {size}.*{needed}"):
        Tokenizer.train(kind, SENTENCES, size)


def test_words_beyond_the_vocabulary_are_unknown():
    words = Tokenizer.train("words", ["a a a b b c"], 6)
    assert words.to_tokens(words.to_ids("a b c")) == ["a", "b", "<unk>"]


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(TokenizerError, match="Did you mean 'unigram'"):
        Tokenizer.train("unigramm", SENTENCES, 400)


def test_an_error_in_the_text_is_passed_on():
    def texts():
        yield "fine"
        raise LookupError("line 2")

    with pytest.raises(LookupError, match="line 2"):
        Tokenizer.train("bpe", texts(), 400)


@pytest.mark.parametrize("wrong", [-1, 10_000])
def test_an_id_of_another_vocabulary_is_refused(tokenizers, wrong):
    with pytest.raises(TokenizerError, match=f"id {wrong}"):
        tokenizers["bpe"].to_text([5, wrong])


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"model": {"type": "BPE"}}'])
def test_a_file_without_a_tokenizer_is_named(tmp_path, content):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"t\.json"):
        Tokenizer.load(tmp_path / "t.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"no\.json"):
        Tokenizer.load(tmp_path / "no.json")


def test_a_path_that_cannot_be_written_is_named(tokenizers, tmp_path):
    with pytest.raises(StorageError, match="gone"):
        tokenizers["bpe"].save(tmp_path / "gone" / "t.json")


def test_a_tokenizer_that_finds_control_tokens_in_text_is_refused(tokenizers):
    parts = json.loads(tokenizers["unigram"].json)
    # The same vocabulary without the split that keeps "</s>" from being found whole.
    parts["pre_tokenizer"]["pretokenizers"].pop()
    with pytest.raises(TokenizerError, match=r"pre_tokenizer: found "):
        Tokenizer(json.dumps(parts))


def _a_chain(*normalizers: dict) -> dict:
    return {"type": "Sequence", "normalizers": [*normalizers, {"type": "NFC"}]}


DOUBLING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
HOSTILE_PARTS = {
    "doubling": {"normalizer": _a_chain(*[DOUBLING] * 34)},
    "prepend": {"normalizer": _a_chain({"type": "Prepend", "prepend": "x" * 10**7})},
    "panic": {"normalizer": _a_chain({"type": "Precompiled", "precompiled_charsmap": "AAAA"})},
    "panic alone": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "lower twice": {"normalizer": _a_chain({"type": "Lowercase"}, {"type": "Lowercase"})},
    "truncation": {
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    },
    "padding": {
        "padding": {
            "strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "<pad>",
        }
    },
    "regex": {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a*)*b"}, "behavior": "Isolated"}},
    "strip": {"decoder": {"type": "Strip", "content": "a", "start": 10**9, "stop": 10**9}},
    "template": {
        "post_processor": {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}
    },
    "more tokens": {
        "added_tokens": [
            {"id": 4, "content": "a", "single_word": False, "lstrip": True, "rstrip": True, "normalized": False,
             "special": True}
        ]
    },
    "no normalizer": {"normalizer": None},
    "no model": {"model": None},
    "texts": dict.fromkeys(["normalizer", "pre_tokenizer", "decoder", "added_tokens"], "x"),
    "lists": {name: [[]] for name in ("normalizer", "pre_tokenizer", "model")},
    "another version": {"version": "9"},
    "unknown": {"more": {"type": "Replace"}},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HOSTILE_PARTS)
def test_parts_that_no_training_writes_are_refused(tokenizers, kind, name):
    parts = json.loads(tokenizers[kind].json) | HOSTILE_PARTS[name]
    with pytest.raises(TokenizerError, match="expected") as refusal:
        Tokenizer(json.dumps(parts))
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bpe", {"dropout": 0.9}),
        ("bpe", {"merges": [["a", "nowhere"]]}),
        ("bpe", {"merges": "ab"}),
        ("bpe", {"merges": ["ab"]}),
        ("bpe", {"merges": [["t", "h", "e"]]}),
        ("bpe", {"merges": [["t", "h"], ["t", "h"]]}),
        ("bpe", {"merges": [["Ġ", "z"]]}),
        ("bpe", {"merges": None}),
        ("bpe", {"ignore_merges": True}),
        ("bpe", {"vocab": {}}),
        ("bpe", {"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "日": 4}}),
        ("bpe", {"unk_token": "a"}),
        ("bpe", {"vocab": {"<pad>": 10**18}}),
        ("wordpiece", {"max_input_chars_per_word": 10**12}),
        ("wordpiece", {"max_input_chars_per_word": 99}),
        ("wordpiece", {"continuing_subword_prefix": "x" * 10**6}),
        ("unigram", {"unk_id": 10**9}),
        ("unigram", {"unk_id": None}),
        ("unigram", {"vocab": [["<pad>", 0.0]]}),
        ("unigram", {"vocab": [["<pad>", math.nan]]}),
        ("unigram", {"byte_fallback": True}),
        ("unigram", {"vocab": [["<pad>", 0.0], ["<s>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["x" * 10**6, -1.0]]}),
        ("words", {"vocab": ["<pad>"]}),
        ("words", {"unk_token": "</s>"}),
        ("characters", {"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": -1}}),
    ],
    ids=str,
)
def test_models_that_no_training_writes_are_refused(tokenizers, kind, changes):
    parts = json.loads(tokenizers[kind].json)
    parts["model"] |= changes
    with pytest.raises(TokenizerError, match=r"model.*: found .*, expected"):
        Tokenizer(json.dumps(parts))


def test_a_part_that_is_there_twice_is_refused(tokenizers):
    doubled = json.dumps({"normalizer": _a_chain(*[DOUBLING] * 34)})[:-1] + "," + tokenizers["bpe"].json[1:]
    with pytest.raises(TokenizerError, match="twice"):
        Tokenizer(doubled)


def test_a_file_that_is_too_large_or_too_deep_is_refused(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 10**6)
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(10**12)  # a hole: it takes no space on the disk
    for name in ("deep.json", "large.json"):
        with pytest.raises(TokenizerError, match=rf"{name}: (.* Use one that|has more than)"):
            Tokenizer.load(tmp_path / name)
