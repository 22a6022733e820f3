"""Texts in upper case, with a lower-case start, with emoji: what a model reads, and how its answer comes back."""

import pytest

from benchmarks.word_translator import Permuting
from glassformer.decoding.request import Request
from glassformer.settings import DecodeConfig
from glassformer.text.codes.code import join_parts
from glassformer.text.codes.find import find_codes
from glassformer.text.steps.passage import Passage
from glassformer.text.steps.step import TextOptions
from glassformer.text.steps.style import Case, read_case, split_punctuation


def restore(passage: Passage, answer: str) -> str:
    return join_parts(passage.restore([(answer,) if answer else ()])[0])


@pytest.mark.parametrize(
    ("typed", "read", "answer", "restored"),
    [
        ("I AM AT HOME.", "I am at home.", "Ich heiße Tom.", "ICH HEISSE TOM."),
        ("HELLO!", "Hello!", "Hallo!", "HALLO!"),
        ("where do you live", "Where do you live", "Wo wohnst du", "wo wohnst du"),
        ("I love you.", "I love you.", "Ich liebe dich.", "Ich liebe dich."),
        ("NATO", "NATO", "NATO", "NATO"),  # an abbreviation
        ("yes", "Yes", "Ja", "ja"),
        ("hello!", "Hello!", "Hallo!", "hallo!"),
        ("x2", "x2", "X2", "X2"),  # no word
        ("iPhone", "iPhone", "iPhone", "iPhone"),
        ("3 men sleep.", "3 men sleep.", "3 Männer schlafen.", "3 Männer schlafen."),
        ("今日は晴れです。", "今日は晴れです。", "Heute ist es sonnig.", "Heute ist es sonnig."),
        ("", "", "", ""),
    ],
)
def test_a_text_is_read_as_a_sentence_and_answered_in_its_style(typed, read, answer, restored):
    passage = Passage((typed,), TextOptions(), [read_case])
    assert (join_parts(passage.texts[0]), restore(passage, answer)) == (read, restored)


def test_only_the_start_of_an_answer_loses_its_capital() -> None:
    passage = Passage(("my dog sleeps",), TextOptions(), [read_case])
    assert [passage.restore_start([(text,)]) for text in ("Mein", "Mein Hund")] == [("mein",), ("mein Hund",)]


@pytest.mark.parametrize(
    ("text", "read", "style"),
    [
        ("hello <b>my</b> dog", "Hello <b>my</b> dog", "lower_start"),
        ("{name} is here", "{name} is here", ""),
        ("<b>my dog</b> sleeps", "<b>My dog</b> sleeps", "lower_start"),
        ("OPEN {FILE} NOW", "Open {FILE} now", "uppercase"),
        ("{FILE} IS OPEN", "{FILE} is open", "uppercase"),
    ],
)
def test_the_case_of_a_sentence_is_that_of_its_words(text: str, read: str, style: str) -> None:
    passage = Passage(find_codes((text,)), TextOptions(), [read_case])
    assert join_parts(passage.texts[0]) == read
    changes = [change for change in passage.changes if isinstance(change, Case)]
    assert [name for one in changes for name in ("lower_start", "uppercase") if getattr(one, name)] == (
        [style] * bool(style)
    )
    assert join_parts(passage.restore(passage.texts)[0]) == text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I love you ❤️", ("", "I love you", " ❤️")),
        ("🎉 Congratulations! 🎉🎉 ", ("🎉 ", "Congratulations!", " 🎉🎉 ")),
        ("👨\u200d👩\u200d👧 My family", ("👨\u200d👩\u200d👧 ", "My family", "")),
        ("My cat 🐱 sleeps.", ("", "My cat 🐱 sleeps.", "")),
        ("❤️", ("", "❤️", "")),
        ("10 € → 12 $", ("", "10 € → 12 $", "")),
        ("❤️ - item one", ("❤️ - ", "item one", "")),
        ("# > 3) Heading", ("# ", "> 3) Heading", "")),
        ("-5 degrees", ("", "-5 degrees", "")),
        ("- 5", ("", "- 5", "")),
        ("(I don't know) ", ("(", "I don't know", ") ")),
        ("[ I am fine. ]", ("[ ", "I am fine.", " ]")),
        ('"I am fine."', ("", '"I am fine."', "")),
        ("(a) or (b)", ("", "(a) or (b)", "")),
        ("{name}", ("", "{name}", "")),
        ("(", ("", "(", "")),
        ("Good night!!! 😴", ("", "Good night!", "!! 😴")),
        ("What?! ", ("", "What?", "! ")),
        ("I don't know...", ("", "I don't know.", "..")),
        ("[ Wait... ]", ("[ ", "Wait.", ".. ]")),
        ("1...", ("", "1...", "")),
    ],
)
def test_signs_at_the_ends_are_split_off(text: str, parts: tuple[str, str, str]) -> None:
    assert split_punctuation(text) == parts
    assert "".join(parts) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("My cat 🐱 is asleep.", "My cat is asleep."),
        ("I am tired 😴, but here.", "I am tired, but here."),
        ("Bad😴news", "Bad news"),
        ("One 🎉 👨\u200d👩\u200d👧 two", "One two"),
        ("WE 🍕 COOK", "We cook"),
        ("I (❤️ you) sleep ☀️ now", "I (you) sleep now"),
        ("🎉 my cat 🐱 sleeps 😴!!!", "My cat sleeps!"),
    ],
)
def test_emoji_inside_a_text_are_not_read_and_come_back(text: str, read: str) -> None:
    (found,) = Permuting(None).translate([text], DecodeConfig(match_style=True))
    assert (found.read, found.text) == (read, text)


@pytest.mark.parametrize(
    ("typed", "prefix", "written", "answer", "restored"),
    [
        ("where is my dog", "wo", "Wo", "Wo ist mein Hund", "wo ist mein Hund"),
        ("where is my dog", "Wo", "Wo", "Wo ist mein Hund", "Wo ist mein Hund"),
        ("WHERE IS IT?", "WO IST", "Wo ist", "Wo ist es?", "WO IST ES?"),
        ("WHERE IS IT?", "Wo", "Wo", "Wo ist es?", "Wo IST ES?"),
    ],
)
def test_a_prefix_stays_as_it_was_typed(typed: str, prefix: str, written: str, answer: str, restored: str) -> None:
    passage = Passage((typed,), TextOptions(prefix=prefix), [read_case])
    (case,) = passage.changes
    assert isinstance(case, Case)
    assert (case.written, restore(passage, answer)) == (written, restored)
    assert passage.restore_start([(answer[:4],)]) == ()


def test_required_phrases_and_codes_of_ones_own_are_kept():
    for typed, phrase, answer, restored in (
        ("WHERE IS THE STREET?", "Straße", "Wo ist die Straße?", "WO IST DIE Straße?"),
        ("the street", "Die", "Die Straße", "Die Straße"),
    ):
        passage = Passage((typed,), TextOptions(phrases=(phrase,)), [read_case])
        assert restore(passage, answer) == restored
    marked = find_codes(("my <b>cat</b> sleeps",))
    (found,) = Permuting(None).translate_requests([Request(marked)], DecodeConfig(match_style=True))
    assert (found.read, found.text) == ("My cat sleeps", "my <b>cat</b> sleeps")
