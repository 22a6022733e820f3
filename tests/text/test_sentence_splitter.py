"""Sentences in many scripts: where they end, where they do not, and that no text is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.sentence_splitter import split_sentences

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


def test_many_sentences_do_not_take_quadratic_time():
    assert len(split_sentences("A. Bc. " * 50_000)) == 50_000


@pytest.mark.parametrize(
    "text", ["\n" * 300_000, "x.\r" + " \r" * 150_000 + "Y", "a. " * 150_000, "\r\n \n" * 60_000 + "A. Bc."]
)
def test_many_marks_that_end_no_sentence_do_not_take_quadratic_time(text):
    found = split_sentences(text)
    assert len(found) <= 2
    assert "".join(one.text + one.gap for one in found) == text
