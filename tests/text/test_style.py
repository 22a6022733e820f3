"""Texts in capitals, without a capital, and with pictures: what the model reads, and how its answer comes back."""

import pytest

from glassformer.text.style import read_style, split_signs


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
def test_a_text_is_read_as_a_sentence_and_answered_in_its_style(
    typed: str, read: str, answer: str, restored: str
) -> None:
    found, style = read_style(typed)
    assert (found, style.restore(answer)) == (read, restored)


def test_only_the_start_of_an_answer_loses_its_capital() -> None:
    _, style = read_style("my dog sleeps")
    pieces = [style.restore("Mein", is_start=True), style.restore(" Hund", is_start=False)]
    assert "".join(pieces) == "mein Hund"


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
    assert split_signs(text) == parts
    assert "".join(parts) == text


@pytest.mark.parametrize(
    ("typed", "read", "answer", "restored"),
    [
        ("My cat 🐱 is asleep.", "My cat is asleep.", "Meine Katze schläft.", "Meine Katze 🐱 schläft."),
        ("I am tired 😴, but here.", "I am tired, but here.", "Ich bin müde, aber da.", "Ich bin müde 😴, aber da."),
        ("Bad😴news", "Bad news", "Schlechte Nachricht", "Schlechte😴 Nachricht"),
        ("One 🎉 👨\u200d👩\u200d👧 two", "One two", "Eins zwei", "Eins 🎉 👨\u200d👩\u200d👧 zwei"),
        ("WE 🍕 COOK", "We cook", "Wir kochen", "WIR 🍕 KOCHEN"),
        ("I (❤️ you) sleep ☀️ now", "I (you) sleep now", "Ich schlafe", "Ich ❤️ schlafe ☀️"),
    ],
)
def test_pictures_inside_a_text_are_not_read_and_come_back(typed: str, read: str, answer: str, restored: str) -> None:
    found, style = read_style(typed)
    assert (found, style.restore(answer)) == (read, restored)


@pytest.mark.parametrize(
    ("typed", "prefix", "written", "answer", "restored"),
    [
        ("where is my dog", "wo", "Wo", "Wo ist mein Hund", "wo ist mein Hund"),
        ("where is my dog", "Wo", "Wo", "Wo ist mein Hund", "Wo ist mein Hund"),
        ("WHERE IS IT?", "WO IST", "Wo ist", "Wo ist es?", "WO IST ES?"),
        ("WHERE IS IT?", "Wo", "Wo", "Wo ist es?", "Wo IST ES?"),
        ("My cat 🐱 sleeps now.", "Meine", "Meine", "Meine Katze schläft jetzt.", "Meine Katze 🐱 schläft jetzt."),
        ("My cat 🐱 sleeps.", "Meine Katze", "Meine Katze", "Meine Katze schläft.", "Meine Katze 🐱 schläft."),
        ("My cat 🐱 sleeps.", "Die 🐱 Katze", "Die Katze", "Die Katze schläft.", "Die 🐱 Katze schläft."),
        ("my cat", "", "", "Meine Katze", "meine Katze"),
    ],
)
def test_a_prefix_stays_as_it_was_typed(typed: str, prefix: str, written: str, answer: str, restored: str) -> None:
    style = read_style(typed)[1].with_phrases(prefix, ())
    assert (style.written, style.restore(answer)) == (written, restored)
    assert style.needs_whole == bool(prefix or "🐱" in typed)


def test_a_required_phrase_keeps_its_spelling() -> None:
    capitals, lower = (read_style(text)[1] for text in ("WHERE IS THE STREET?", "the street"))
    assert capitals.with_phrases("", ["Straße"]).restore("Wo ist die Straße?") == "WO IST DIE Straße?"
    assert lower.with_phrases("", ["Die"]).restore("Die Straße") == "Die Straße"
