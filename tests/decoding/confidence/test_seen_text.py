"""What a model has seen: which words, characters and lengths, and that it comes back from its file with care."""

import base64

import pytest

from glassformer.decoding.confidence.bloom_filter import MAX_BITS, BloomFilter
from glassformer.decoding.confidence.seen_text import NgramTable, SeenText, find_words, ngrams

TEXTS = ["The old man doesn't walk to the house.", "She walks to the café, the old house 12."] * 2
SEEN = SeenText.from_texts(NgramTable.from_texts(TEXTS, 3), [*TEXTS, "once"], TEXTS)


def test_every_member_of_a_filter_is_found_and_few_others() -> None:
    members = [f"member {number}" for number in range(2000)]
    found = BloomFilter.from_texts(members)
    assert all(member in found for member in members)
    assert sum(f"other {number}" in found for number in range(2000)) < 120
    assert 8 * len(BloomFilter.from_texts([str(number) for number in range(60_000)]).bits) == MAX_BITS
    assert BloomFilter.from_text(found.to_text()) == found


def test_words_characters_languages_and_lengths_that_were_seen_are_known():
    assert find_words("It’s 12 o'clock, ok?") == ["It’s", "o'clock", "ok"]
    assert find_words("我是 Tom") == ["我", "是", "Tom"]
    assert SEEN.unseen("THE OLD Men doesn’t walk once, the Men").words == ("Men", "once")
    assert SEEN.unseen("The Mann and Zoë walk").lost_words("zoë geht") == ["Mann", "and"]
    assert SEEN.unseen("Ｔｈｅ ﬀ C \t x☃").characters == ("x", "☃")
    assert SEEN.unseen("Der alte Mann geht zum Haus.").is_foreign
    assert not SEEN.unseen("The old man walks to Edinburgh.").is_foreign
    assert not SEEN.unseen("Wolfgang").is_foreign
    assert SEEN.longest == 8
    assert [SEEN.unseen("the " * count).is_long for count in (8, 9)] == [False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"longest": 1.5}, "longest as a whole number"),
        ({"usual_unseen": True}, "usual_unseen as a number"),
        ({"characters": None}, "characters as text"),
        ({"words": "?"}, "is not base64"),
        ({"more": 1}, "expected an object with"),
    ],
)
def test_another_form_is_refused(change: dict[str, object], message: str) -> None:
    assert SeenText.from_mapping(SEEN.to_mapping()) == SEEN
    with pytest.raises(ValueError, match=message):
        SeenText.from_mapping({**SEEN.to_mapping(), **change})


ENGLISH = ["The old man walks to the house.", "the old house is white", "She walks to the old man."] * 2


def test_ngrams_have_a_space_at_both_ends_and_no_case() -> None:
    assert list(ngrams("Ab \t c", 3)) == [" ab", "ab ", "b c", " c "]
    assert list(ngrams("", 4)) == ["  "]
    assert list(ngrams("ＡＢ", 4)) == [" ab "]  # full-width letters are compatible forms of the plain ones


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_what_occurs_twice_is_seen_and_what_does_not_is_not(order: int) -> None:
    table = NgramTable.from_texts(ENGLISH, order)
    assert [table.unseen(text) for text in ENGLISH] == [0.0] * len(ENGLISH)
    assert table.unseen("老人走到房子") > 0.7
    assert NgramTable.from_texts(["abc", "xyz"], order).unseen("abc") > 0  # each occurs once


def test_unseen_ngrams_are_counted_in_a_small_table_that_json_keeps():
    table = NgramTable.from_texts(ENGLISH, 3)
    shares = [table.unseen(text) for text in ("the old man", "the olt man", "der alte Mann", "xq zvk wpj")]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] > 0.9
    table = NgramTable.from_texts((f"{number:x} {number * number:x}" for number in range(20_000)), 4)
    assert 8 * len(table.seen.bits) <= MAX_BITS
    assert len(NgramTable.from_texts(ENGLISH, 4).seen.bits) < 400
    table = NgramTable.from_texts(ENGLISH, 4)
    assert NgramTable.from_mapping(table.to_mapping()) == table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 9}, "expected an order"),
        ({"order": True}, "expected an order"),
        ({"bits": 3}, "expected them in base64"),
        ({"bits": "?"}, "is not base64"),
        ({"bits": base64.b64encode(bytes(200)).decode()}, "a power of two"),
        ({"bits": base64.b64encode(bytes(MAX_BITS // 4)).decode()}, "a power of two up to"),
        ({"more": 1}, "expected order and bits"),
    ],
)
def test_a_table_of_another_form_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NgramTable.from_mapping({**NgramTable.from_texts(ENGLISH, 2).to_mapping(), **change})
