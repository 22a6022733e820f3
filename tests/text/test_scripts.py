"""Scripts written without spaces: what is between sentences, and what counts as a word."""

import pytest

from glassformer.text.scripts import gap_between, is_mostly_unspaced, split_words


@pytest.mark.parametrize(
    ("source", "left", "gap", "expected"),
    [
        ("狗吃房子。", "The dog eats.", "", " "),
        ("The dog eats.", "狗吃房子。", " ", ""),
        ("He said: “Yes.”", "彼は「はい。」", " ", ""),
        ("Really?!", "本当？！", " ", ""),
        ("本当？！", "真的？！", " ", " "),  # as the source has it
        ("He came.", "Er kam.", " ", " "),
        ("He came.", "Er kam.", "\u00a0", "\u00a0"),
        ("I am hungry.", "ฉันหิว", " ", " "),
        ("The dog eats.", "狗吃房子。", "\n", "\n"),
        ("He came.", "Er kam.", "\r\n ", "\r\n "),
        ("", "", "", ""),
    ],
)
def test_the_mark_at_its_end_says_whether_a_space_follows_a_sentence(source, left, gap, expected):
    assert gap_between(source, left, gap) == expected


@pytest.mark.parametrize(
    ("text", "unspaced"),
    [("犬が寝ている。", True), ("ฉันหิวมาก", True), ("ຂ້ອຍຫິວ", True), ("ខ្ញុំឃ្លាន", True), ("ငါဗိုက်ဆာတယ်", True),
     ("ང་གྲོད་ཁོག་ལྟོགས", True), ("I am hungry", False), ("나는 배고프다", False), ("Tôi đói", False)],
)  # fmt: skip
def test_words_cannot_be_counted_where_no_space_is_between_them(text, unspaced):
    assert is_mostly_unspaced([text]) == unspaced
    assert (len(split_words(text)) == len(text)) == unspaced or text.endswith("。")
