"""What a model has seen: which words, characters and lengths, and that it comes back from its file with care."""

import pytest

from glassformer.decoding.confidence.bloom_filter import MAX_BITS, BloomFilter
from glassformer.decoding.confidence.ngrams import NgramTable
from glassformer.decoding.confidence.seen_text import SeenText, find_words

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
