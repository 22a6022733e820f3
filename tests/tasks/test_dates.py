"""Dates in 20 languages -> ISO 8601, checked against parsers that do not use CLDR."""

import re
import unicodedata
from datetime import date, datetime

import pytest

from glassformer.tasks.dates import LANGUAGES
from glassformer.text.tokenizer.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def task(get_task):
    return get_task("dates")


@pytest.fixture(scope="module")
def pairs(task):
    return task.train + task.valid + task.test


def test_the_splits_have_their_sizes_and_no_date_of_the_test_is_trained_on(task):
    assert [len(split) for split in (task.train, task.valid, task.test)] == [20_000, 500, 1_000]
    train, valid, test = ({pair.tgt for pair in split} for split in (task.train, task.valid, task.test))
    assert not train & test
    assert not train & valid
    assert not valid & test


def test_targets_are_iso_dates_and_sources_show_their_day_and_year(pairs):
    years = {date.fromisoformat(pair.tgt).year for pair in pairs}
    assert (min(years), max(years)) == (1900, 2099)
    assert {len(pair.tgt) for pair in pairs} == {10}
    # The model can read every number it has to write; only the month may be a word.
    for src, tgt in pairs:
        numbers = [int(number) for number in re.findall(r"[0-9]+", src)]
        day = date.fromisoformat(tgt)
        assert sorted(numbers) in (sorted([day.year, day.day]), sorted([day.year, day.month, day.day])), src
        assert not any(character.isdigit() and not character.isascii() for character in src)


@pytest.mark.parametrize(
    ("shape", "reading"),
    [
        # strptime also checks the name of the weekday; its names are English by default.
        (r"[A-Z][a-z]+day, [A-Z][a-z]+ \d+, \d{4}", "%A, %B %d, %Y"),
        (r"(January|February|March|April|June|July|August|September) \d+, \d{4}", "%B %d, %Y"),
        (r"\d\d\.\d\d\.\d{4}", "%d.%m.%Y"),
        (r"\d{4}/\d\d/\d\d", "%Y/%m/%d"),
        (r"\d{4}年\d+月\d+日", "%Y年%m月%d日"),
        (r"\d{4}\. \d+\. \d+\.", "%Y. %m. %d."),
    ],
)
def test_strptime_reads_the_same_dates(shape, reading, pairs):
    found = [pair for pair in pairs if re.fullmatch(shape, pair.src)]
    assert len(found) > 100
    for src, tgt in found:
        day = datetime.strptime(src, reading)
        assert day.date().isoformat() == tgt
        assert "%A" not in reading or src.startswith(day.strftime("%A"))


def test_five_scripts_and_twenty_languages_are_mixed(pairs):
    assert len(set(LANGUAGES)) == 20
    scripts = {unicodedata.name(letter).split()[0] for pair in pairs for letter in pair.src if letter.isalpha()}
    assert {"LATIN", "CYRILLIC", "GREEK", "CJK", "HANGUL"} <= scripts
    # The word for March in some of the languages; no other language has it.
    for word in ("März ", "March ", "marzo", "março", "maart", "března", "marts", "maaliskuuta", "Mart ", "березня"):
        assert any(word in pair.src for pair in pairs), word


def test_the_characters_of_the_training_dates_spell_every_test_date(task):
    tokenizer = Tokenizer.train("characters", [text for pair in task.train for text in pair], 1000)
    for pair in task.test:
        assert tokenizer.to_text(tokenizer.to_ids(pair.src)) == pair.src
        assert tokenizer.to_text(tokenizer.to_ids(pair.tgt)) == pair.tgt
