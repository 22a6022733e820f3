"""Sentences in many scripts: where they end, where they do not, and that no text is lost."""

from itertools import accumulate
from pathlib import Path

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.scripts import gap_between, is_mostly_unspaced, split_words
from glassformer.text.sentence_splitter import split_lines, split_sentences

CUT = [
    "A man sleeps.| A dog barks!| Who knows?",
    'He said "Stop!"| She didn\'t.',
    "Well…| Then it rained.| (Or so.)| Yes.",
    "今日は晴れです。|明日は雨ですか？|はい！",
    "他来了。|她走了！|真的吗？！|是。",
    "वह सोता है।| कुत्ता भौंकता है।",
    "هل نام؟| نعم.",
    "គាត់គេង។| ឆ្កែព្រុស។",
    "Երեխան քնում է։| Շունը հաչում է։",
    "One line\n|Another line\n\n|A third.",
    "The 3rd is on page 7.\n|Next.",
]
WHOLE = [
    "J. R. Smith and S. Jones came.", "Am 3. Mai kam er z. B. nicht.", "It costs 3.50 or 4 euros.", "He paid approx. two.",
    "Is it? he asked.", "The U.S. Army came.", "彼は「はい。」と言った。", "", "   ", ".", "...", "no mark at all", "end. ",
]  # fmt: skip


@pytest.mark.parametrize("marked", CUT)
def test_sentences_end_where_a_reader_would_say(marked):
    text = marked.replace("|", "")
    expected = marked.split("|")
    found = split_sentences(text)
    assert [one.text.strip() for one in found] == [part.strip() for part in expected]
    assert "".join(one.text + one.gap for one in found) == text
    assert all(one.text == one.text.strip() for one in found)


@pytest.mark.parametrize("text", WHOLE)
def test_initials_numbers_and_quotations_do_not_end_a_sentence(text):
    assert split_sentences(text) == [(text, "")]


@given(st.text(alphabet='aB1 .!?。！」"\n\t…।', max_size=40))
def test_nothing_is_lost_and_no_sentence_is_empty(text):
    found = split_sentences(text)
    assert "".join(one.text + one.gap for one in found) == text
    assert found[-1].gap == ""
    assert all(one.text.strip() for one in found) or len(found) == 1
    assert all(not one.gap.strip() for one in found)


CASES = [
    line.split(" ", 1)
    for line in (Path(__file__).parents[1] / "data" / "sentences.txt").read_text("utf-8").splitlines()
    if line[0] != "#"
]


def ends(pieces):
    """Where all sentences but the last end, in characters without white space."""
    return [*accumulate(len("".join(piece.split())) for piece in pieces)][:-1]


def test_of_300_texts_in_15_languages_more_are_cut_rightly_than_by_the_library_alone():
    right = {"ours": 0, "sentencex": 0}
    for language, marked in CASES:
        text, expected = marked.replace("|", ""), ends(marked.split("|"))
        right["ours"] += ends(text for text, _ in split_sentences(text, language)) == expected
        right["sentencex"] += ends(sentencex.segment(language, text)) == expected
    assert len(CASES) == 297
    assert right["ours"] >= 278
    assert right["sentencex"] < 230


@pytest.mark.parametrize(
    ("text", "language", "count"),
    [
        ("Dr. Smith is here.", "", 1), ("Ich sah Hr. Müller. Er kam.", "de", 2), ("Das freut mich. Er kam.", "de", 2),
        ("Das war der 3. Tag.", "de", 1), ("彼は「はい。」と言った。", "ja", 1), ("No. I am here.", "en", 2),
        ("Sie kam 1990. Er kam.", "de-AT", 2), ("Siehe S. 3 und Nr. 4.", "de", 1), ("Πού είσαι; Εδώ.", "el", 2),
        ("A; B c.", "en", 1), ("x. A", "no such language", 1), ("Um. A", "??", 2),
    ],
)  # fmt: skip
def test_titles_end_no_sentence_and_words_that_look_like_them_do(text, language, count):
    assert len(split_sentences(text, language)) == count


@pytest.mark.parametrize("sign", "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
def test_every_line_break_ends_a_line_and_a_sentence(sign):
    text = f"  one {sign} {sign}two. Three "
    assert split_lines(text) == [("  one", f" {sign} {sign}"), ("two. Three ", "")]
    assert [one.strip() for one, _ in split_sentences(text)] == ["one", "two.", "Three"]


def test_many_sentences_do_not_take_quadratic_time():
    assert len(split_sentences("A. Bc. " * 50_000)) == 50_000


@pytest.mark.parametrize(
    "text", ["\n" * 300_000, "x.\r" + " \r" * 150_000 + "Y", "a. " * 150_000, "\r\n \n" * 60_000 + "A. Bc."]
)
def test_many_marks_that_end_no_sentence_do_not_take_quadratic_time(text):
    found = split_sentences(text)
    assert len(found) <= 2
    assert "".join(one.text + one.gap for one in split_lines(text)) == text
    assert "".join(one.text + one.gap for one in found) == text


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
