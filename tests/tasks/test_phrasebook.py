"""Phrases in two languages, checked against arithmetic and against a few stable sentences."""

import re
from collections import defaultdict
from datetime import datetime

import pytest
from babel import Locale

from glassformer.tasks.dates import normalize_spaces
from glassformer.tasks.phrasebook import UNITS, moment, name, name_codes, name_list, relative_time

EN, DE, FR, JA = map(Locale, ("en", "de", "fr", "ja"))
LANGUAGES = ("de", "fr", "ja")
every_language = pytest.mark.parametrize("language", LANGUAGES)


def all_pairs(task):
    return task.train + task.valid + task.test


@every_language
@pytest.mark.slow
def test_there_are_more_than_twenty_thousand_pairs_to_learn_from(language, get_task):
    task = get_task(f"phrasebook-{language}")
    assert len(task.train) > 20_000
    assert len(task.valid) > 400
    assert len(task.test) > 900


@pytest.mark.slow
def test_the_same_phrases_are_held_out_for_each_language(get_task):
    tasks = [get_task(f"phrasebook-{language}") for language in LANGUAGES]
    for one in tasks:
        for other in tasks:
            assert not {pair.src for pair in one.train} & {pair.src for pair in other.test + other.valid}


@every_language
def test_no_text_holds_an_identifier_instead_of_a_word(language, get_task):
    """Babel writes "3 volume-cup" where CLDR has no word."""
    texts = "\n".join(text for pair in all_pairs(get_task(f"phrasebook-{language}")) for text in pair)
    assert [unit for unit in UNITS.split() if unit in texts] == []


@pytest.mark.slow
def test_two_seeds_agree_on_every_translation(get_task):
    """English writes long and medium dates of May alike; if both were generated, no one could know which is meant."""
    targets = defaultdict(set)
    for seed in (1, 2):
        for src, tgt in all_pairs(get_task("phrasebook-ja", seed=seed)):
            targets[src].add(tgt)
    assert len(targets) > 40_000
    assert {src: tgts for src, tgts in targets.items() if len(tgts) > 1} == {}


@every_language
def test_every_unambiguous_name_is_in_the_training_data(language, get_task):
    readings = defaultdict(set)
    for kind, codes in name_codes().items():
        for code in codes:
            src, tgt = (normalize_spaces(name(kind, code, locale=locale)) for locale in (EN, Locale(language)))
            readings[src].add(tgt)
    single = {src: tgts.pop() for src, tgts in readings.items() if len(tgts) == 1}
    assert len(single) > 400
    assert single.items() <= set(get_task(f"phrasebook-{language}").train)


@pytest.mark.parametrize(("language", "shape"), [("de", "{:%H:%M}"), ("fr", "{:%H:%M}"), ("ja", "{0.hour}:{0:%M}")])
def test_every_time_of_the_day_goes_from_twelve_hours_to_twenty_four(language, shape, get_task):
    times = [
        pair for pair in all_pairs(get_task(f"phrasebook-{language}")) if re.fullmatch(r"\d+:\d\d [AP]M", pair.src)
    ]
    assert len(times) == 24 * 60
    for src, tgt in times:
        assert tgt == shape.format(datetime.strptime(src, "%I:%M %p"))


def test_japanese_dates_and_german_numbers_are_written_as_there(get_task):
    # May is left out: its short name is its long one.
    dates = [
        pair for pair in all_pairs(get_task("phrasebook-ja")) if re.fullmatch(r"[A-Z][a-z]{3,} \d+, \d{4}", pair.src)
    ]
    assert len(dates) > 1000
    for src, tgt in dates:
        day = datetime.strptime(src, "%B %d, %Y")
        assert tgt == f"{day.year}年{day.month}月{day.day}日"
    numbers = [pair for pair in all_pairs(get_task("phrasebook-de")) if re.fullmatch(r"-?[\d,.]+", pair.src)]
    assert len(numbers) > 500
    assert any("," in src and "." in src for src, _ in numbers)
    for src, tgt in numbers:
        assert tgt == src.translate(str.maketrans(",.", ".,"))


@every_language
def test_amounts_and_measures_keep_their_digits(language, get_task):
    """1,234.5 pounds are 1 234,5 livres: the same digits, with other separators."""
    measures = [
        pair
        for pair in all_pairs(get_task(f"phrasebook-{language}"))
        if re.fullmatch(r"[\d,.]+ [A-Za-z -]+", pair.src)
    ]
    assert len(measures) > 5_000
    for src, tgt in measures:
        if not re.search(r" [AP]M$", src):
            assert re.findall(r"\d", src) == re.findall(r"\d", tgt), (src, tgt)


def test_phrases_moments_and_spaces_are_the_same_in_every_version_of_cldr():
    assert relative_time(3, "day", locale=EN) == "in 3 days"
    assert relative_time(3, "day", locale=DE) == "in 3 Tagen"
    assert normalize_spaces(relative_time(-2, "week", locale=FR)) == "il y a 2 semaines"
    assert name_list("territories", ["DE", "FR", "JP"], "standard", locale=EN) == "Germany, France, and Japan"
    assert name_list("territories", ["DE", "FR", "JP"], "standard", locale=DE) == "Deutschland, Frankreich und Japan"
    assert name_list("languages", ["de", "fr"], "or", locale=FR) == "allemand ou français"
    assert name_list("days", ["0", "6"], "or", locale=JA) == "月曜日または日曜日"
    assert name("months", "3", locale=DE) == "März"
    when = datetime(2031, 8, 9, 16, 5)
    for locale in (EN, DE, FR, JA):
        text = normalize_spaces(moment(when, "long", locale=locale))
        assert "2031" in text
        assert ":05" in text
        assert not set("'{}") & set(text)
        assert (":05 PM" in text) == (locale == EN)
    assert normalize_spaces(" 3:30\u202fPM \u00a05\u3000€ ") == "3:30 PM 5 €"


@pytest.mark.parametrize(("number", "span"), [(24, "hour"), (60, "second"), (12, "month"), (60, "week"), (1, "year")])
def test_a_relative_time_keeps_its_unit(number, span):
    for sign, words in ((1, f"in {number} {span}"), (-1, f"{number} {span}s ago")):
        assert relative_time(sign * number, span, locale=EN).rstrip("s") == words.replace("1 years", "1 year").rstrip(
            "s"
        )
